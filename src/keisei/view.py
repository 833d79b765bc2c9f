"""How a run is shown while it goes on: a live screen in a terminal, plain lines elsewhere. All are sinks of `Metrics`.

A view never holds a run up: the live screen is drawn by a thread of its own, once a second (four times beside a
picture), and a terminal that is gone
is an alarm, not an end.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live

from keisei.history import Event, Record
from keisei.metrics import FileSink, Sink
from keisei.screen import Look, Pace, Screen, label, nothing_to_see, share_done, shown_numbers
from keisei.words import amount, duration, elo, number

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LOG = "log.txt"
NO_SCREEN = ("", "dumb", "unknown")


def has_screen(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that can show a live screen."""
    return stream is not None and not stream.closed and stream.isatty() and os.environ.get("TERM", "") not in NO_SCREEN


def choose_view(
    stream: TextIO | None, name: str, about: str = "", every_seconds: float = 10, picture: Look = nothing_to_see
) -> Sink:
    """The view for a stream: a live screen in a terminal, plain lines in a file or pipe, nothing where there is none.

    The run's name and a line about it stand at the top, a picture of its game beside the numbers. Plain lines come at
    most every so many seconds.
    """
    if stream is None or stream.closed:
        return Sink()
    if has_screen(stream):
        return LiveView(Outlet(stream), Screen(name, about, picture=picture))
    return PlainView(Outlet(stream), name, about, every_seconds)


# --- where they write ------------------------------------------------------------------------------------------------


class _Tolerant(io.FileIO):
    """A file that takes everything, and keeps the error when it cannot be written any more.

    An error that came up inside the screen's thread, or when Python ends, would be nobody's.
    """

    error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError as error:
            self.error = error
            return memoryview(data).nbytes


class Outlet:
    """Where a view writes: a copy of a stream that takes errors to itself. A stream without a file is used as it is."""

    def __init__(self, stream: TextIO) -> None:
        with contextlib.suppress(OSError):  # what breaks now breaks again below, and is raised there
            stream.flush()
        self._file: _Tolerant | None = None
        self.stream = stream
        try:
            copy = os.dup(stream.fileno())
        except io.UnsupportedOperation:
            return
        self._file = _Tolerant(copy, "w")
        self.stream = io.TextIOWrapper(io.BufferedWriter(self._file), stream.encoding, "replace")

    def write(self, text: str) -> None:
        """Write it now. Raises OSError where nobody can read it."""
        self.stream.write(text)
        self.stream.flush()
        self.check()

    def check(self) -> None:
        """Raise the error that writing ended with, if it did."""
        if self._file is not None and self._file.error is not None:
            raise self._file.error

    def close(self) -> None:
        """Close the copy; may be called twice."""
        if self._file is not None:
            self.stream.close()


# --- plain lines -----------------------------------------------------------------------------------------------------


def plain_record(record: Record, pace: Pace) -> str:
    """A record in one line, its evaluations included."""
    parts = [f"iteration {record.iteration}", f"{share_done(record):.1%}", f"{record.steps:,} steps"]
    parts += [f"{amount(pace.rate())} steps/s", f"{record.games:,} games"]
    if "world/return" in record.numbers:
        parts.append(f"return {number(record.numbers['world/return'])}")
    learn = record.group("learn")
    parts += [f"{label(name)} {number(learn[name])}" for name in shown_numbers(record)[:4]]
    parts += [f"against {found.opponent} {found.score:.1%} {elo(found)}".rstrip() for found in record.evaluations()]
    left = pace.left()
    return " · ".join(parts) + (f" · {duration(left)} left" if left else "")


def plain_event(event: Event) -> str:
    """An event in one line."""
    return f"{event.kind} at iteration {event.iteration}: {event.text}"


def _stamped(when: float, text: str, form: str) -> str:
    return f"{time.strftime(form, time.localtime(when))}  {' '.join(text.splitlines())}\n"


class PlainView(Sink):
    """A line every so many seconds at most; evaluations, events and the last iteration always."""

    name = "the view"

    def __init__(self, outlet: Outlet, name: str, about: str = "", every_seconds: float = 10) -> None:
        self._outlet = outlet
        self._pace = Pace()
        self._every_seconds = every_seconds
        self._next = 0.0
        self._unsaid: list[Record] = []
        self._heading = [f"{name}: {about}" if about else name]

    def record(self, record: Record) -> None:
        self._pace.add(record)
        self._unsaid = [record]
        if time.monotonic() >= self._next or record.evaluations():
            self._next = time.monotonic() + self._every_seconds
            self._say_record()
        self.flush()

    def event(self, event: Event) -> None:
        self._say(event.time, plain_event(event))

    def flush(self) -> None:
        self._outlet.check()

    def close(self) -> None:
        try:
            self._say_record()
        finally:
            self._outlet.close()

    def _say_record(self) -> None:
        unsaid, self._unsaid = self._unsaid, []
        for record in unsaid:
            self._say(record.time, plain_record(record, self._pace))

    def _say(self, when: float, text: str) -> None:
        lines, self._heading = [*self._heading, text], []
        self._outlet.write("".join(_stamped(when, line, "%H:%M:%S") for line in lines))


class LogLines(FileSink):
    """The same lines in the run's own log, which keeps all of them, whatever becomes of the terminal."""

    def __init__(self, run: Path) -> None:
        super().__init__(run, LOG)
        self._pace = Pace()

    def record(self, record: Record) -> None:
        self._pace.add(record)
        self._write(record.time, plain_record(record, self._pace))

    def event(self, event: Event) -> None:
        self._write(event.time, plain_event(event))

    def sizes(self) -> dict[str, int]:
        return {}  # a log is never cut back

    def _write(self, when: float, text: str) -> None:
        self._file.append(_stamped(when, text, "%Y-%m-%d %H:%M:%S").encode())


# --- the live screen -------------------------------------------------------------------------------------------------


class LiveView(Sink):
    """The live screen. What others print meanwhile appears above it."""

    name = "the view"

    def __init__(self, outlet: Outlet, screen: Screen) -> None:
        self._outlet = outlet
        self._screen = screen
        self._live = Live(
            screen, console=Console(file=outlet.stream, force_terminal=True), refresh_per_second=screen.draws_per_second
        )
        self._live.start(refresh=True)

    def record(self, record: Record) -> None:
        self._screen.record(record)
        self.flush()

    def event(self, event: Event) -> None:
        self._screen.event(event)
        self.flush()

    def flush(self) -> None:
        self._outlet.check()

    def close(self) -> None:
        self._screen.close()
        self._live.stop()
        self._outlet.close()
