"""Files and folders that are all there or not at all, and reading what somebody else may have written.

What is written is on the disk before it gets its name. Every failure is an OSError; nothing is tried twice, since a
file whose fsync has failed once may never say so again.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

UInt8 = npt.NDArray[np.uint8]

_TEMPORARY = ".tmp"
_PIECE = 1 << 20
_CURRENT_FOLDER, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE


def write_file(path: Path, parts: Iterable[memoryview]) -> str:
    """Write a new file and sync it; gives the sha256 of what it holds."""
    digest = hashlib.sha256()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for part in parts:
            digest.update(part)
            rest = part
            while rest:
                rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
    return digest.hexdigest()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that takes the name `target`, in place of what has it, when the block ends without error."""
    temporary, folder = _locked_folder(target)
    try:
        yield temporary
        _sync(folder)
        _take_name(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.close(folder)
    sync_folder(target.parent)
    with suppress(OSError):
        _remove(temporary)  # what had the name before


def remove_folder(folder: Path) -> None:
    """Remove a folder so that nobody sees a part of it under its name."""
    temporary = _temporary_name(folder)
    folder.rename(temporary)
    _remove(temporary)


def remove_temporary(parent: Path) -> list[Path]:
    """Remove the temporary folders whose writers are dead; gives their names."""
    removed = []
    for path in sorted(parent.iterdir()):
        if not (path.name.startswith(".") and path.name.endswith(_TEMPORARY)):
            continue
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except (NotADirectoryError, FileNotFoundError):
            continue
        try:
            _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        except BlockingIOError:  # its writer lives
            continue
        finally:
            os.close(folder)
        removed.append(path)
    return removed


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(folder)
    finally:
        os.close(folder)


def free_bytes(path: Path) -> float:
    """Room for us on the file system; infinite where it does not say."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize if status.f_blocks else float("inf")


def read_file(path: Path, size: int) -> tuple[UInt8, str]:
    """The content of a regular file of exactly this size, and its sha256; raises ValueError where it is none."""
    content = np.empty(size, np.uint8)
    return content, _read(path, size, lambda start, end: content[start:end])


def hash_file(path: Path, size: int) -> str:
    """The sha256 of a regular file of exactly this size; raises ValueError where it is none."""
    piece = np.empty(min(size, _PIECE), np.uint8)
    return _read(path, size, lambda start, end: piece[: end - start])


@contextmanager
def open_regular(path: Path, size: int) -> Iterator[int]:
    """A descriptor to read a file from; raises ValueError for a link, a pipe, a folder, or another size."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(f"{path.name} is a symbolic link") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path.name} is no regular file")
        if status.st_size != size:
            raise ValueError(f"{path.name} has {status.st_size} bytes, expected {size}")
        yield file
    finally:
        os.close(file)


def _read(path: Path, size: int, memory: Callable[[int, int], UInt8]) -> str:
    """Read a file piece by piece into the memory for bytes `start` to `end`; gives the sha256."""
    digest, start = hashlib.sha256(), 0
    with open_regular(path, size) as file:
        while start < size:
            piece = memory(start, min(start + _PIECE, size)).data
            count = os.readv(file, [piece])
            if not count:
                raise ValueError(f"{path.name} ends after {start} of {size} bytes")
            digest.update(piece[:count])
            start += count
    return digest.hexdigest()


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems know no fsync of a folder, and need none
            raise


def _locked_folder(target: Path) -> tuple[Path, int]:
    """A new temporary folder, and a descriptor whose lock shows others that its writer lives."""
    while True:
        temporary = _temporary_name(target)
        temporary.mkdir()
        try:
            folder = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        _lock(folder, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, folder
        os.close(folder)  # taken for a dead writer's between the two calls


def _lock(folder: int, how: int) -> None:
    try:
        fcntl.flock(folder, how)
    except OSError as error:  # a file system without locks; there is still the lock of the whole run
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY}")


def _take_name(temporary: Path, target: Path) -> None:
    """Rename; where the name is taken, let the two change places in one step, so that at no time nobody has it."""
    try:
        temporary.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    else:
        return
    try:
        _exchange(temporary, target)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        target.rename(_temporary_name(target))
        temporary.rename(target)


def _exchange(one: Path, other: Path) -> None:
    """Let two names change places; ENOSYS or the like where the file system or the C library cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    names = (_CURRENT_FOLDER, os.fsencode(one), _CURRENT_FOLDER, os.fsencode(other))
    if call(*names, ctypes.c_uint(_EXCHANGE)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))
