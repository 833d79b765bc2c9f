"""How a run is asked to stop: once, and it finishes its step and saves; twice, and it leaves at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_KILLED_BY = 128


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


@contextmanager
def listening(stop: StopRequest, tell: Callable[[str], None]) -> Iterator[None]:
    """Take SIGINT and SIGTERM as requests to stop; the second one ends the process at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            os._exit(_KILLED_BY + number)
        name = signal.Signals(number).name
        stop.ask(name)
        tell(f"{name}: finishing the step and saving; once more to leave at once")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
