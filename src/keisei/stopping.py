"""How a run is asked to stop: once, and it finishes its step and saves; twice, and it leaves at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_STOP = (signal.SIGINT, signal.SIGTERM)
_KILLED_BY = 128
_ONE_REQUEST_SECONDS = 0.1
"""`timeout` and some shells send a signal to the process and then to its group: that is one request, not two."""
_SHOW_CURSOR = b"\x1b[?25h\n"


class Stopped(Exception):
    """Something was left unfinished because the run was asked to stop."""


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.reason = ""

    @property
    def requested(self) -> bool:
        """Whether to finish the step, save and end."""
        return bool(self.reason)

    def ask(self, reason: str) -> None:
        """Ask the run to stop after its present step."""
        self.reason = reason

    def check(self) -> None:
        """Raise Stopped where the run was asked to stop: for work that can be done again."""
        if self.requested:
            raise Stopped(self.reason)


@contextmanager
def listening(stop: StopRequest, tell: Callable[[str], None]) -> Iterator[None]:
    """Take SIGINT and SIGTERM as requests to stop; the second one ends the process at once. SIGHUP only is told."""
    asked_at = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked_at
        now = time.monotonic()
        if stop.requested and now - asked_at > _ONE_REQUEST_SECONDS:
            _leave(_KILLED_BY + number)
        if not stop.requested:
            asked_at = now
            name = signal.Signals(number).name
            stop.ask(name)
            tell(f"{name}: finishing the step and saving; once more to leave at once")

    def hang_up(number: int, frame: FrameType | None) -> None:
        tell("SIGHUP: the terminal is gone, the run goes on")

    before = {number: signal.signal(number, handle) for number in _STOP}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(status: int) -> None:
    with suppress(OSError, AttributeError):  # the terminal is gone, or there never was one
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), _SHOW_CURSOR)  # the live screen hides it
    os._exit(status)
