"""Saves during a run: when, in the background, how soon again after a failure, and which old ones go.

Saving changes no bit of a run. The run waits until its tensors are copied; a thread waits for the disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import torch
from torch import Tensor

from keisei.checkpoint import contents, files
from keisei.checkpoint.contents import Checkpoint, Files
from keisei.checkpoint.folder import commit, folder_of, make_parent, needed_bytes, numbers, require_space, verify
from keisei.checkpoint.tensors import TensorFile
from keisei.errors import CheckpointError

_GROWTH = 2
"""A new run's first checkpoint lacks what the optimiser will remember: the next is at most so many times as large."""


@dataclass(frozen=True)
class Statistics:
    """What became of a run's checkpoints so far."""

    saved: int = 0
    failed: int = 0
    skipped: int = 0  # due while another one was still being written
    last: Path | None = None  # the last one saved, the bytes of its files, and how long writing it took
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Written:
    folder: Path
    size: int
    seconds: float
    complaint: str  # what went wrong although the checkpoint is saved


class CheckpointKeeper:
    """Keeps the newest checkpoints of a run; a failure is an alarm, and is tried again with growing pauses.

    ```python
    keeper.prepare(first)              # before the first step: refuses a disk without room
    if keeper.due(iteration):          # after each iteration
        keeper.save(iteration, now())
    keeper.finish(iteration, now())    # at the end: on the disk, or CheckpointError
    ```

    `alarm` gets one line, always in the thread that calls. A run folder has one keeper at a time.
    """

    def __init__(
        self,
        run: Path,
        *,
        every: int,
        keep: int,
        alarm: Callable[[str], None],
        pauses_seconds: tuple[float, float] = (1.0, 300.0),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.every = every
        self.keep = keep
        self.statistics = Statistics()
        self._alarm = alarm
        self._pauses = _Pauses(*pauses_seconds, clock)
        self._snapshot = _Snapshot()
        self._wanted = False
        self._writing: Future[_Written] | None = None

    def prepare(self, first: Checkpoint) -> None:
        """Remove what dead writers left; raises CheckpointError where `first` has no room, or in a new run the next one
        beside it. Writes nothing."""
        encoded = contents.encode(first)
        needed = needed_bytes(encoded)
        try:
            parent = make_parent(self.run)
            files.remove_temporary(parent)
            there = len(numbers(self.run))
            later = needed if there else _GROWTH * needed
            require_space(parent, needed if there else needed + later)
            free = files.free_bytes(parent)
        except OSError as error:
            raise CheckpointError(f"no checkpoint can be written in {self.run}: {error.strerror or error}") from error
        if not os.access(parent, os.W_OK):
            raise CheckpointError(f"no checkpoint can be written in {parent}: no permission")
        if free < (self.keep + 1 - there) * later:
            self._alarm(f"{parent} has {free:,} bytes free: too few for keeping {self.keep} checkpoints")
        self._snapshot.take(encoded)

    def due(self, number: int) -> bool:
        """Whether a checkpoint is to be saved now: `number` is a multiple of `every`, or one has failed and the pause
        after it is over. One that is due while another is being written is skipped, not queued."""
        self._collect()
        scheduled = number % self.every == 0
        if self._writing is None:
            self._wanted |= scheduled
            return self._wanted and self._pauses.over()
        if scheduled:
            self.statistics = replace(self.statistics, skipped=self.statistics.skipped + 1)
            self._alarm(f"checkpoint {number} is skipped: the one before it is still being written")
        return False

    def save(self, number: int, checkpoint: Checkpoint) -> None:
        """Copy a checkpoint and begin to write it; whether the disk took it shows in a later call.

        Raises CheckpointError at once where it cannot be saved at all. Waits for one that is being written.
        """
        self._wait()
        encoded = self._snapshot.take(contents.encode(checkpoint))
        self._wanted = False
        self._writing = Future()
        Thread(target=self._work, args=(self._writing, number, encoded), name="checkpoint", daemon=True).start()

    def finish(self, number: int, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint now; when it returns, it is on the disk. Raises CheckpointError where it cannot be."""
        self._wait()
        written = self._write(number, contents.encode(checkpoint))
        self._succeeded(written)
        return written.folder

    def close(self) -> None:
        """Wait for the checkpoint that is being written; may be called twice."""
        self._wait()

    def _wait(self) -> None:
        if self._writing is not None:
            wait([self._writing])
            self._collect()

    def _collect(self) -> None:
        """See what became of the checkpoint that was being written."""
        if self._writing is None or not self._writing.done():
            return
        writing, self._writing = self._writing, None
        try:
            self._succeeded(writing.result())
        except CheckpointError as error:
            self._wanted = True
            self.statistics = replace(self.statistics, failed=self.statistics.failed + 1)
            self._alarm(f"{error}; {self._newest()}; tried again in {self._pauses.failed():g} s")

    def _newest(self) -> str:
        """What there is to go on from."""
        try:
            there = numbers(self.run)
        except CheckpointError as error:
            return str(error)
        return f"the newest there is {there[-1]:08d}" if there else "there is no other"

    def _succeeded(self, written: _Written) -> None:
        self._pauses.succeeded()
        saved = self.statistics.saved + 1
        self.statistics = replace(
            self.statistics, saved=saved, last=written.folder, size=written.size, seconds=written.seconds
        )
        if written.complaint:
            self._alarm(written.complaint)

    def _work(self, writing: Future[_Written], number: int, encoded: Files) -> None:
        try:
            writing.set_result(self._write(number, encoded))
        except BaseException as error:  # goes home with the result
            writing.set_exception(error)

    def _write(self, number: int, encoded: Files) -> _Written:
        start = time.monotonic()
        folder = commit(self.run, number, encoded)
        try:
            verify(folder)
        except CheckpointError:
            with suppress(OSError):
                files.remove_folder(folder)
            raise
        complaint = self._rotate(number)
        size = sum(content.size for content in encoded.values())
        return _Written(folder, size, time.monotonic() - start, complaint)

    def _rotate(self, number: int) -> str:
        """Remove the oldest ones, now that `number` is known to be good; gives what went wrong."""
        try:
            older = [other for other in numbers(self.run) if other < number]
            for other in older[: max(0, len(older) - self.keep + 1)]:
                files.remove_folder(folder_of(self.run, other))
        except (OSError, CheckpointError) as error:
            return f"old checkpoints in {self.run} cannot be removed: {error}"
        return ""


class _Pauses:
    """How long to wait after failures: twice as long each time."""

    def __init__(self, first: float, longest: float, clock: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._clock = clock
        self._pause = first
        self._end = clock()

    def over(self) -> bool:
        return self._clock() >= self._end

    def failed(self) -> float:
        """Begin a pause; gives its seconds."""
        pause = self._pause
        self._end = self._clock() + pause
        self._pause = min(2 * pause, self._longest)
        return pause

    def succeeded(self) -> None:
        self._pause = self._first
        self._end = self._clock()


class _Snapshot:
    """Copies of tensors in memory that is used again and again."""

    def __init__(self) -> None:
        self._copies: dict[tuple[str, int], Tensor] = {}

    def take(self, encoded: Files) -> Files:
        """The same files, independent of where their tensors came from, until the next time."""
        old, self._copies = self._copies, {}

        def copy(key: tuple[str, int], tensor: Tensor) -> Tensor:
            copied = old.get(key)
            if copied is None or copied.shape != tensor.shape or copied.dtype != tensor.dtype:
                copied = torch.empty(tensor.shape, dtype=tensor.dtype)
            self._copies[key] = copied.copy_(tensor.detach())
            return copied

        def copy_file(name: str, content: TensorFile) -> TensorFile:
            return TensorFile(content.header, tuple(copy((name, at), part) for at, part in enumerate(content.tensors)))

        return {
            name: copy_file(name, content) if isinstance(content, TensorFile) else content
            for name, content in encoded.items()
        }
