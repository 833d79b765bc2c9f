"""How fast whole runs are: collecting and learning in turns on one core, against both at once on two.

A run trains as `keisei train` does, with its records and checkpoints; what is measured is the time from one record to a
later one, when everything has started and the pipeline is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from keisei import build
from keisei.bench.harness import Measurement, Result, Sample, Settings, result, result_against, round_off, take_turns
from keisei.bench.learning import CONFIG
from keisei.bench.machine import held_to
from keisei.bench.peer import ROOT
from keisei.bench.processes import hold_each
from keisei.bench.stopwatch import Stopwatch
from keisei.config import Config, load_run
from keisei.history import Record
from keisei.metrics import open_metrics
from keisei.stopping import StopRequest

UNIT = "steps/s"
CONNECT_FOUR = ROOT / "examples" / "connect-four-random.yaml"
ENDLESS = ("run.total_steps=1_000_000_000_000", "evaluation.interval=0", "evaluation.final_games=0")
IN_TURNS = ("parallel.enabled=false", "parallel.async_learning=false", "parallel.learner_threads=1")
AT_ONCE = (
    "parallel.enabled=true",
    "parallel.num_workers=1",
    "parallel.async_learning=true",
    "parallel.max_lag=1",
    "parallel.learner_threads=1",
)
EVEN = (
    f"environment.path={ROOT / 'examples' / 'connect_four.py'}",
    "environment.copies=64",
    "parallel.block_size=64",
    "learner.epochs=1",
    "learner.minibatch_size=256",
)
"""Connect four, where collecting takes about as long as learning."""


@dataclass(frozen=True)
class Kind:
    """How one side runs: its configuration, the learner's core and the worker's."""

    config: Config
    core: int
    worker_core: int


class Run:
    """Whole runs of one kind, a fresh one each time."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self._kind = kind
        self.collecting: list[float] = []  # seconds per step of each run
        self.learning: list[float] = []

    def measure(self, seconds: float) -> Sample:
        """Train for about so long, once everything has started; by the clock on the wall."""
        noted = self._noted(seconds)
        (began, first), (ended, last) = noted[0], noted[-1]
        steps = last.steps - first.steps
        for name, found in (("time/collect", self.collecting), ("time/learn", self.learning)):
            found.append(sum(record.numbers[name] for _, record in noted[1:]) / steps)
        return Sample(steps, ended - began)

    def _noted(self, seconds: float) -> Sequence[tuple[float, Record]]:
        kind, stop = self._kind, StopRequest()
        workers = int(kind.config.parallel.enabled)
        watch = Stopwatch(workers, seconds, stop, lambda processes: hold_each(processes, [kind.worker_core]))
        with TemporaryDirectory() as folder, held_to([kind.core]), open_metrics(Path(folder), watch) as metrics:
            training = build.training(kind.config, Path(folder), metrics, stop)
            training.prepare()
            training.run()
        return watch.noted


@dataclass(frozen=True)
class Compared:
    """Both ways of one configuration, measured in turns."""

    in_turns: Measurement
    at_once: Measurement
    bounds: Sequence[float]  # (C + L) / max(C, L) of each round, by the run in turns
    share: float  # of collecting in the run in turns

    def against_bound(self, name: str) -> Result:
        """How near the gain comes to what collecting and learning at once can give."""
        pairs = zip(self.at_once.rates, self.in_turns.rates, self.bounds, strict=True)
        ratio = median(both / one / bound for both, one, bound in pairs)
        whole = median(one * bound for one, bound in zip(self.in_turns.rates, self.bounds, strict=True))
        alone = result(self.at_once, UNIT)
        return Result(name, alone.value, UNIT, "bound", round_off(ratio), alone.best, round_off(whole))

    def against_serial(self, name: str) -> Result:
        """The gain itself."""
        found = result_against(self.at_once, UNIT, self.in_turns, "serial")
        return Result(name, found.value, UNIT, "serial", found.ratio, found.best, found.against_value)

    def bound(self, name: str) -> Result:
        """What can be gained at the most."""
        return Result(name, round_off(median(self.bounds)), "×, (C+L)/max(C,L)")


def compare(config: Path, overrides: Sequence[str], cores: Sequence[int], settings: Settings) -> Compared:
    """A run in turns on one core, and at once on two."""
    serial = Run("in turns", Kind(load_run(config, [*overrides, *ENDLESS, *IN_TURNS]), cores[0], cores[0]))
    ahead = Run("at once", Kind(load_run(config, [*overrides, *ENDLESS, *AT_ONCE]), cores[0], cores[-1]))
    measured = take_turns([serial, ahead], settings)
    pairs = list(zip(serial.collecting, serial.learning, strict=True))[1:]  # the first was to warm up
    share = median(collecting / (collecting + learning) for collecting, learning in pairs)
    bounds = [(collecting + learning) / max(collecting, learning) for collecting, learning in pairs]
    return Compared(measured["in turns"], measured["at once"], bounds, share)


def quick_run(cores: Sequence[int], settings: Settings) -> Compared:
    """The run of `configs/shogi-quick.yaml`."""
    return compare(CONFIG, (), cores, settings)


def connect_four(cores: Sequence[int], settings: Settings) -> Compared:
    """Connect four, where collecting takes about as long as learning."""
    return compare(CONNECT_FOUR, EVEN, cores, settings)
