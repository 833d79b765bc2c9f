"""The folder `RUN/checkpoints/NNNNNNNN/`: how a checkpoint is written, read and found.

It has a temporary name until all of it is on the disk, so under its own name it is whole or not there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keisei.checkpoint import contents, files, manifest
from keisei.checkpoint.contents import Checkpoint, Files, group_file, group_in
from keisei.errors import CheckpointError

_NUMBER = re.compile(r"\d{8,18}", re.ASCII)
_BLOCK = 4096
_MANIFEST_BYTES = _BLOCK  # more than a manifest has: about 150 for each file


@dataclass(frozen=True)
class Refused:
    """A checkpoint that cannot be used, and why."""

    folder: Path
    reason: str


@dataclass(frozen=True)
class Found:
    """The newest good checkpoint, and the newer ones that were refused, newest first."""

    folder: Path
    checkpoint: Checkpoint
    refused: tuple[Refused, ...]

    @property
    def number(self) -> int:
        """The checkpoint's number."""
        return int(self.folder.name)

    @property
    def behind(self) -> int:
        """By how much the newest refused one's number is greater: what the refusal costs."""
        return int(self.refused[0].folder.name) - self.number if self.refused else 0


def folder_of(run: Path, number: int) -> Path:
    """Where checkpoint `number` of a run is."""
    return run / "checkpoints" / f"{number:08d}"


def numbers(run: Path) -> list[int]:
    """The numbers of a run's checkpoints in ascending order, whether they are good or not."""
    try:
        names = os.listdir(run / "checkpoints")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{run} has no checkpoints that can be listed: {error.strerror or error}") from error
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name) and name == f"{int(name):08d}")


def write(run: Path, number: int, checkpoint: Checkpoint) -> Path:
    """Write `RUN/checkpoints/NNNNNNNN/`, in place of one with this number; when it returns, it is on the disk.

    Raises CheckpointError where something cannot be saved (it names the tensor that is not finite) or the disk does not
    take it; then no checkpoint has changed.
    """
    return commit(run, number, contents.encode(checkpoint))


def commit(run: Path, number: int, encoded: Files) -> Path:
    """Bring the files of checkpoint `number` to the disk; raises CheckpointError where it does not take them."""
    target = folder_of(run, number)
    try:
        require_space(make_parent(run), needed_bytes(encoded))
        with files.new_folder(target) as folder:
            entries = {}
            for name, content in encoded.items():
                entries[name] = manifest.Entry(content.size, files.write_file(folder / name, content.parts()))
            files.write_file(folder / manifest.NAME, [memoryview(manifest.encode(entries))])
    except OSError as error:
        raise CheckpointError(f"checkpoint {target} cannot be written: {error.strerror or error}") from error
    return target


def make_parent(run: Path) -> Path:
    """Make the folder that a run's checkpoints are in, where there is none; the run's own has to exist."""
    parent = run / "checkpoints"
    if not parent.is_dir():
        parent.mkdir(exist_ok=True)
        files.sync_folder(run)
    return parent


def needed_bytes(encoded: Files) -> int:
    """Room that these files need, with a manifest and a block for each name."""
    sizes = [_MANIFEST_BYTES, *(content.size for content in encoded.values())]
    return sum(-(-size // _BLOCK) * _BLOCK + _BLOCK for size in sizes)


def require_space(parent: Path, needed: int) -> None:
    """Raise CheckpointError where the disk has not so many bytes free."""
    free = files.free_bytes(parent)
    if free < needed:
        raise CheckpointError(f"no space for a checkpoint in {parent}: it needs {needed:,} bytes, {free:,} are free")


def read(folder: Path, groups: Collection[str] | None = None) -> Checkpoint:
    """The checkpoint in a folder, with all groups of tensors or only those named beside the weights.

    Raises CheckpointError with the reason where anything that is read is not as it was written. The tensors of a group
    share one piece of memory, which nobody else has.
    """
    with _explained(folder):
        entries = manifest.read(folder)
        if missing := {group_file(group) for group in groups or ()} - entries.keys():
            raise ValueError(f"it has no {min(missing)}")
        wanted = {name for name in entries if groups is None or group_in(name) in (None, "weights", *groups)}
        return contents.decode(manifest.load(folder, entries, wanted))


def verify(folder: Path) -> None:
    """Read every file of a checkpoint without keeping it; raises CheckpointError where one is not as it was written."""
    with _explained(folder):
        manifest.verify(folder)


def weights_sha256(folder: Path) -> str:
    """The sha256 of a checkpoint's weights, as its manifest has it."""
    with _explained(folder):
        return manifest.read(folder)[group_file("weights")].sha256


def latest(run: Path, groups: Collection[str] | None = None) -> Found:
    """The newest good checkpoint of a run; raises CheckpointError with the reasons where there is none."""
    tried: dict[int, Refused] = {}
    while untried := set(numbers(run)) - tried.keys():  # looked up each time: a running training rotates them
        number = max(untried)
        folder = folder_of(run, number)
        try:
            if folder.is_symlink():
                raise CheckpointError(f"checkpoint {folder}: it is a symbolic link")
            checkpoint = read(folder, groups)
        except CheckpointError as error:
            tried[number] = Refused(folder, str(error))
        else:
            return Found(folder, checkpoint, _newer(number, tried))
    reasons = "; ".join(refused.reason for refused in _newer(-1, tried))
    raise CheckpointError(f"{run} has no checkpoint that can be used" + (f": {reasons}" if reasons else ""))


def _newer(number: int, tried: dict[int, Refused]) -> tuple[Refused, ...]:
    newest_first = sorted(tried.items(), reverse=True)
    return tuple(refused for other, refused in newest_first if other > number and refused.folder.exists())


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what may go wrong while reading into one sentence."""
    try:
        yield
    except ValueError as error:
        raise CheckpointError(f"checkpoint {folder}: {error}") from error
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {folder}: there is no {error.filename}") from error
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder}: {error.strerror or error}") from error
    except MemoryError as error:
        raise CheckpointError(f"checkpoint {folder}: there is not enough memory for it") from error
