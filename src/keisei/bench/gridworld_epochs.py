"""Whole epochs of `gridworld.py`, as a run goes through them: agents live an episode, learn once, and are published."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from keisei import build
from keisei.bench.gridworld_society import society_config
from keisei.bench.harness import Result, round_off
from keisei.history import Event, Record
from keisei.metrics import Metrics, Sink
from keisei.stopping import StopRequest

WARM_UP_EPOCHS = 2
"""So many are not counted: memory is laid out, and batches do not fill yet."""


class Watch(Sink):
    """Writes down when epochs end, and asks the run to stop when there are enough of them."""

    name = "watch"

    def __init__(self, stop: StopRequest, epochs: int, seconds: float) -> None:
        """At least so many epochs, and for at least so long."""
        self.modes: list[str] = []
        self._stop, self._epochs, self._enough = stop, epochs, seconds
        self._ends: list[float] = []

    def record(self, record: Record) -> None:
        """An epoch is over."""
        self._ends.append(time.perf_counter())
        found = self.seconds
        if len(found) >= self._epochs and sum(found) >= self._enough:
            self._stop.ask("it is measured")

    def event(self, event: Event) -> None:
        """The run says what it has chosen."""
        if event.kind == "mode":
            self.modes.append(event.text)

    @property
    def seconds(self) -> list[float]:
        """How long the epochs after the first ones took."""
        counted = self._ends[WARM_UP_EPOCHS - 1 :]
        return [after - before for before, after in pairwise(counted)]


def measure_epochs(name: str, agents: int, cores: int, rounds: int, seconds: float) -> tuple[Result, Sequence[str]]:
    """How long an epoch of one world with so many agents takes; and what the run has chosen by itself."""
    own = (
        f"parallel.learner_threads={cores}",
        "parallel.parallel_actions=auto",
        "run.total_steps=1000000000",
        "run.checkpoint_interval=1000000",
    )
    config = society_config(agents, 1, *own, "evaluation.interval=0", "evaluation.final_games=0")
    stop = StopRequest()
    watch = Watch(stop, rounds, rounds * seconds)
    with tempfile.TemporaryDirectory() as folder, Metrics([watch]) as metrics:
        training = build.training(config, Path(folder), metrics, stop)
        training.run()
    found = watch.seconds
    notes = [f"{name}: {mode}" for mode in watch.modes]
    return Result(name, round_off(median(found)), "s", best=round_off(min(found))), notes
