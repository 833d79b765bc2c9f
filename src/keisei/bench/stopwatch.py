"""When a run's measurement begins, which is when everything has started, and when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from keisei.bench.processes import worker_processes
from keisei.history import Record
from keisei.metrics import Sink
from keisei.stopping import StopRequest

FEWEST = 5
"""So many iterations are measured at the least."""


class Stopwatch(Sink):
    """Notes the time of each record, from the first one after everything has started; ends the run in good time."""

    name = "stopwatch"

    def __init__(
        self, workers: int, seconds: float, stop: StopRequest, hold: Callable[[Sequence[int]], None] = lambda _: None
    ) -> None:
        """`hold` gets workers and spare while they start."""
        self.noted: list[tuple[float, Record]] = []
        self._expected = workers + 1 if workers else 0
        self._seconds = seconds
        self._stop = stop
        self._hold = hold
        self._seen = 0

    def record(self, record: Record) -> None:
        self._seen += 1
        if self.noted or (self._seen > 1 and self._all_started(record)):
            self.noted.append((time.perf_counter(), record))
        if len(self.noted) > FEWEST and self.noted[-1][0] - self.noted[0][0] >= self._seconds:
            self._stop.ask("the stopwatch")

    def _all_started(self, record: Record) -> bool:
        """Whether workers and spare are there, and the spare stands by."""
        self._hold(worker_processes()[-self._expected :] if self._expected else [])
        return not self._expected or record.numbers.get("parallel/spares", 0) > 0
