"""Where a run's numbers go: JSON lines, TensorBoard, and whoever else listens (the views are in `view.py`).

`Metrics` hands every record and event to its sinks; `cut_back` takes a resumed run's files back to what its checkpoint
knew. What the numbers mean is said by those who make them; reading them again is in `history.py`.

A sink that fails (a full disk, a closed terminal) never stops a run: the others hear an alarm, what could not be
written waits in memory, and is tried again with every record.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from keisei.errors import CheckpointError, RunError
from keisei.history import LINES, RESERVED, Event, Record, line

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent

EVENT_FILES = "tensorboard"

# --- who is told -----------------------------------------------------------------------------------------------------


class Sink:
    """Somebody who is told everything; this one listens to nothing. May raise OSError, which is then an alarm."""

    name = "nobody"

    @property
    def unwritten(self) -> int:
        """How many records and events it was told but could not write."""
        return 0

    def record(self, record: Record) -> None:
        """An iteration is done."""

    def event(self, event: Event) -> None:
        """Something happened."""

    def flush(self) -> None:
        """Hand what was told to the operating system. Raises again what it raised, for as long as it cannot be told."""

    def sizes(self) -> dict[str, int]:
        """Bytes of each file that was written, by its path in the run's folder."""
        return {}

    def close(self) -> None:
        """It is over; may be called twice."""


class Metrics:
    """The stream of a run's numbers: everything it is told goes to all its sinks, in order.

    It belongs to one thread. A signal handler of that thread may tell it something at any moment, also while it hands
    something on: that is then handed on next.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._failing: set[str] = set()
        self._queue: deque[Callable[[Sink], None]] = deque()
        self._busy = False
        self._unsaid: deque[Event] = deque()
        self._iteration = 0
        self._open = True

    def record(self, iteration: int, numbers: Mapping[str, float]) -> None:
        """The numbers of an iteration; those of `history.COUNTS` must be among them."""
        record = Record(iteration, {name: _plain(name, value) for name, value in numbers.items()})
        self._iteration = iteration
        self._tell(lambda sink: sink.record(record))

    def event(self, iteration: int, kind: str, text: str) -> None:
        """Something that happened: `checkpoint`, `resume`, `mode`, `alarm`, …"""
        event = Event(iteration, kind, text)
        self._iteration = iteration
        self._tell(lambda sink: sink.event(event))

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._tell(lambda sink: sink.flush())

    def sizes(self) -> dict[str, int]:
        """Bytes of every file after a flush, by its path in the run's folder: for `cut_back`."""
        self.flush()
        return {path: size for sink in self._sinks for path, size in sink.sizes().items()}

    def close(self) -> None:
        """Write what waits, and close the files and views; may be called twice."""
        if not self._open:
            return
        self._open = False
        self.flush()
        for sink in self._sinks:
            if sink.unwritten:
                self._note("alarm", f"{sink.name} was not written to its end: {sink.unwritten} entries are lost")
        self.flush()
        for sink in self._sinks:
            try:
                sink.close()
            except OSError as error:
                self._note_failure(sink, error)
        for event in self._unsaid:  # nobody else is left to hear it
            logging.getLogger(__name__).error(event.text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, deliver: Callable[[Sink], None]) -> None:
        self._queue.append(deliver)
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                self._each(self._queue.popleft())
                for _ in range(len(self._unsaid)):  # an alarm about an alarm waits until the next time
                    self._say(self._unsaid.popleft())
        finally:
            self._busy = False

    def _say(self, event: Event) -> None:
        self._each(lambda sink: sink.event(event))

    def _each(self, deliver: Callable[[Sink], None]) -> None:
        for sink in self._sinks:
            try:
                deliver(sink)
            except OSError as error:
                self._note_failure(sink, error)
            else:
                if sink.name in self._failing:
                    self._failing.remove(sink.name)
                    lost = f"; {sink.unwritten} entries are lost" if sink.unwritten else ""
                    self._note("recovered", f"{sink.name} is written again{lost}")

    def _note_failure(self, sink: Sink, error: OSError) -> None:
        if sink.name not in self._failing:
            self._failing.add(sink.name)
            reason = error.strerror or str(error)
            self._note("alarm", f"{sink.name} cannot be written: {reason}")

    def _note(self, kind: str, text: str) -> None:
        self._unsaid.append(Event(self._iteration, kind, text))


def open_metrics(run: Path, *views: Sink, steps: int = 0) -> Metrics:
    """The metrics of a run's folder, and views that are told the same; `steps` are the lane steps done before."""
    return Metrics([JsonLines(run), TensorBoard(run, steps), *views])


def _plain(name: str, value: float) -> float:
    """A number as Python's own: a truth value as 0 or 1, others' numbers as a float."""
    if name in RESERVED:
        raise ValueError(f"'{name}' is no name for a number: a line of {LINES} says something else by it")
    return int(value) if isinstance(value, int) else float(value)


# --- files -----------------------------------------------------------------------------------------------------------


class AppendedFile:
    """A file that grows by whole pieces: what cannot be written waits in memory, and leaves no half in the file."""

    def __init__(self, path: Path, start: Sequence[bytes] = (), limit: int = 2**26) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}") from None
        self._limit = limit
        self._waiting = deque(start)
        self._lost = 0
        self.size = os.fstat(self._file).st_size

    @property
    def unwritten(self) -> int:
        """How many pieces wait, or were given up because more than `limit` bytes were waiting."""
        return len(self._waiting) + self._lost

    def append(self, piece: bytes) -> None:
        """Write a piece after all that wait. Raises OSError; then it waits, too."""
        self._waiting.append(piece)
        while sum(map(len, self._waiting)) > self._limit:
            self._waiting.popleft()
            self._lost += 1
        self.flush()

    def flush(self) -> None:
        """Write what waits, as far as it goes. Raises OSError, also where the file was deleted."""
        if os.fstat(self._file).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "it was deleted")
        while self._waiting:
            piece = self._waiting[0]
            written = 0
            try:
                while written < len(piece):
                    written += os.pwrite(self._file, piece[written:], self.size + written)
            except OSError:
                os.ftruncate(self._file, self.size)
                raise
            self.size += len(piece)
            self._waiting.popleft()

    def close(self) -> None:
        """Close it without another try; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class FileSink(Sink):
    """What the sinks that write a file have in common; nothing stays in a buffer of theirs unless the disk is full."""

    def __init__(self, run: Path, name: str, start: Sequence[bytes] = ()) -> None:
        self.name = name
        self._file = AppendedFile(run / name, start)

    @property
    def unwritten(self) -> int:
        return self._file.unwritten

    def flush(self) -> None:
        self._file.flush()

    def sizes(self) -> dict[str, int]:
        return {self.name: self._file.size}

    def close(self) -> None:
        self._file.close()


class JsonLines(FileSink):
    """A line of JSON for each record and event, as `history.py` says."""

    def __init__(self, run: Path) -> None:
        super().__init__(run, LINES)

    def record(self, record: Record) -> None:
        self._file.append(line(record))

    def event(self, event: Event) -> None:
        self._file.append(line(event))


class TensorBoard(FileSink):
    """An event file for TensorBoard, one more for each session of a run. Its steps are lane steps."""

    def __init__(self, run: Path, steps: int = 0) -> None:
        from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
        from tensorboard.compat.proto.event_pb2 import SessionLog

        start = SessionLog(status=SessionLog.START)  # a TensorBoard that is watching forgets the steps from here on
        first = (
            TensorBoardEvent(wall_time=time.time(), file_version="brain.Event:2"),
            TensorBoardEvent(wall_time=time.time(), step=steps + 1, session_log=start),
        )
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        super().__init__(run, f"{EVENT_FILES}/{name}", [_framed(event) for event in first])
        self._steps = steps

    def record(self, record: Record) -> None:
        from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._steps = record.steps
        values = [Summary.Value(tag=name, simple_value=value) for name, value in record.numbers.items()]
        summary = Summary(value=values)
        self._file.append(_framed(TensorBoardEvent(wall_time=record.time, step=record.steps, summary=summary)))

    def event(self, event: Event) -> None:
        from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        text = TensorProto(dtype=DT_STRING, string_val=[event.text.encode()])
        shown = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        summary = Summary(value=[Summary.Value(tag=f"event/{event.kind}", metadata=shown, tensor=text)])
        self._file.append(_framed(TensorBoardEvent(wall_time=event.time, step=self._steps, summary=summary)))


def _framed(event: TensorBoardEvent) -> bytes:
    """An event as it stands in an event file: with its length and checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()


# --- resuming --------------------------------------------------------------------------------------------------------


def cut_back(run: Path, sizes: Mapping[str, int]) -> list[str]:
    """Take a run's files back to the sizes of a checkpoint; what it does not list did not exist then, and goes.

    Gives a sentence for each file that has less than the checkpoint knew (a power cut, a deleted file): numbers are
    missing then, which is worth an alarm, not the end of the run. Raises RunError where a file cannot be changed.
    """
    for name in sizes:
        if name != LINES and (Path(name).parent != Path(EVENT_FILES) or not _is_event_file(Path(name))):
            raise CheckpointError(f"expected the sizes of {LINES} and of event files, got '{name}' in the checkpoint")
    known = {LINES: 0, **sizes}
    try:
        for path in (run / EVENT_FILES).glob("*"):
            if _is_event_file(path) and f"{EVENT_FILES}/{path.name}" not in known:
                path.unlink()
        return [sentence for name, size in known.items() if (sentence := _cut(run / name, size, name))]
    except OSError as error:
        raise RunError(f"cannot cut back {error.filename or run}: {error.strerror}") from None


def _is_event_file(path: Path) -> bool:
    return ".tfevents." in path.name


def _cut(path: Path, size: int, name: str) -> str:
    """Shorten a file; a sentence where it is too short already."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return f"{name} is gone: the numbers before the checkpoint are missing" if size else ""
    try:
        actual = os.fstat(file).st_size
        if actual >= size:
            os.ftruncate(file, size)
            return ""
        if name == LINES:  # its end may be half a line
            os.ftruncate(file, os.pread(file, actual, 0).rfind(b"\n") + 1)
        return f"{name} has {actual} bytes, the checkpoint knew {size}: the numbers between are missing"
    finally:
        os.close(file)
