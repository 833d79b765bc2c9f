"""The folder of a run: who uses it, its resolved configuration, its summary. The rest of it is others' business."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from keisei.errors import RunError

CONFIG = "config.yaml"
SUMMARY = "summary.json"
LOCK = "lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def new(parent: Path, name: str) -> Path:
    """A new folder that nobody else has: `name`, or with a number behind it where that is taken. Raises RunError."""
    for number in count(1):
        run = parent / (name if number == 1 else f"{name}-{number}")
        try:
            run.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"cannot make the run's folder {run}: {error.strerror}") from None
        return run
    raise AssertionError("numbers do not end")


def create(run: Path, config: str) -> None:
    """Make a folder a run's, by its configuration. Raises RunError where there is a run already."""
    require_new(run)
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the run's folder {run}: {error.strerror}") from None
    write_config(run, config)


def require_new(run: Path) -> None:
    """Raise RunError where there is a run already, or a part of one; its first checkpoint alone is nothing to lose."""
    if (run / CONFIG).exists():
        raise RunError(f"{run} holds a run already: go on with `keisei resume {run}`, or name another --run-dir")
    names = [path.name for path in (run / "checkpoints").glob("*") if path.name.isdecimal()]
    if any(int(name) > 0 for name in names):
        raise RunError(f"{run} holds checkpoints ({max(names)}) but no {CONFIG}: name another --run-dir")


def read_config(run: Path) -> Path:
    """The file with the resolved configuration. Raises RunError where there is no run."""
    _require_no_checkpoint(run)
    if not (run / CONFIG).is_file():
        raise RunError(f"there is no run in {run}: it has no {CONFIG}")
    return run / CONFIG


def write_config(run: Path, config: str) -> None:
    """Write the resolved configuration, durably. Raises RunError."""
    _write(run / CONFIG, config)


def write_summary(run: Path, summary: Mapping[str, object]) -> None:
    """How the run ended, or stands. Raises RunError."""
    _write(run / SUMMARY, json.dumps(summary, indent=2) + "\n")


@contextmanager
def in_use(run: Path) -> Iterator[None]:
    """Hold the run for this process alone; the lock ends with the process, however it ends. Raises RunError."""
    _require_no_checkpoint(run)
    try:
        run.mkdir(parents=True, exist_ok=True)
        file = os.open(run / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunError(f"cannot use the run's folder {run}: {error.strerror}") from None
    try:
        _lock(run, file)
        yield
    finally:
        os.close(file)


def _lock(run: Path, file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()}\n{_BOOT_ID.read_text()}".encode(), 0)
    except BlockingIOError:
        holder = os.pread(file, 200, 0).decode(errors="replace").partition("\n")[0]
        raise RunError(f"{run} is in use by {holder or 'another process'}") from None
    except OSError as error:
        raise RunError(f"cannot use the run's folder {run}: {error.strerror}") from None


def _require_no_checkpoint(run: Path) -> None:
    """A checkpoint has a configuration, too; a lock in it would damage it."""
    if (run / "manifest.json").exists():
        raise RunError(f"{run} is a checkpoint: name the run's folder, {run.resolve().parent.parent}")


def _write(path: Path, text: str) -> None:
    """Write a file that is whole or not there, also when the power fails."""
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from None
