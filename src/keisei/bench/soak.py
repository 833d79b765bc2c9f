"""A run that trains while workers come to harm, and what became of it. What harm there is stands in `harm.py`."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from keisei import build
from keisei.bench.harm import HARM, Clock, Driver, Harmed, WithHarm
from keisei.bench.memory import resident_bytes
from keisei.checkpoint import weights_sha256
from keisei.config import Config, load_run
from keisei.history import Event, Record
from keisei.metrics import Sink, open_metrics
from keisei.parallel.manager import ParallelManager
from keisei.stopping import StopRequest
from keisei.train import Training

TIMEOUT = 0.5
SMALL_RUN = (
    "run.total_steps=1_000_000_000",
    "run.checkpoint_interval=1_000_000",
    "environment.copies=32",
    "environment.random_plies=20",
    "environment.move_limit=100",
    "network.kind=convolutional",
    "network.depth=2",
    "network.width=16",
    "learner.minibatch_size=256",
    "parallel.block_size=4",
    "parallel.rollout_length=16",
    "parallel.max_restarts=1_000_000",
    "evaluation.interval=0",
    "evaluation.final_games=0",
    f"parallel.worker_timeout={TIMEOUT}",
)
LONG_SECONDS = 300.0
"""From here on it is judged how fast the run was and how its memory grew; before, both are chance."""

LEAST_SHARE = 0.9
CALM_SECONDS = 3.0
"""So long after a fault was mended nothing of it is felt any more: the next spare has started."""
MOST_GROWTH = 8 * 2**20  # bytes, over the last half: what an allocator keeps or gives back by chance


@dataclass(frozen=True)
class Soak:
    """What is asked for."""

    seconds: float
    seed: int
    every: float  # seconds between two faults, on the average
    workers: int
    faults: bool
    kinds: tuple[str, ...] = HARM


class Witness(Sink):
    """Hears what the run says of its workers, and sees its memory; asks it to stop after so many iterations."""

    name = "witness"

    def __init__(self, stop: StopRequest, clock: Clock, iterations: int | None, say: Callable[[str], None]) -> None:
        self.clock = clock
        self.heard: list[str] = []
        self.iteration = 0
        self.times: list[tuple[float, int, float]] = []  # moment, steps, resident bytes
        self.restarts = 0.0
        self._stop = stop
        self._iterations = iterations
        self._say = say

    def record(self, record: Record) -> None:
        self.times.append((self.clock.now(), record.steps, float(resident_bytes())))
        self.restarts = record.numbers.get("parallel/restarts", 0.0)
        self.iteration = record.iteration
        if record.iteration == self._iterations:
            self._stop.ask("the soak")

    def event(self, event: Event) -> None:
        self.heard.append(event.text)
        if event.kind == "alarm":
            before, traceback, _ = event.text.partition("Traceback")
            self._say(f"{before}… {event.text.splitlines()[-1]}" if traceback else event.text)

    @property
    def rate(self) -> float:
        """Steps per second, from the first record on."""
        (began, first, _), (ended, last, _) = self.times[0], self.times[-1]
        return (last - first) / max(1e-9, ended - began)


@dataclass(frozen=True)
class Trained:
    """How a run went."""

    weights: str
    iterations: int
    steps: int
    games: int
    witness: Witness
    harmed: Sequence[Harmed]


@dataclass(frozen=True)
class Outcome:
    """What became of it all; `held` is what was promised, and whether it is so."""

    soak: Soak
    harmed: Sequence[Harmed]
    restarts: int
    iterations: int
    steps: int
    games: int
    throughput_share: float  # of the speed of the run in peace
    share_between: float  # of its own speed between faults, at which others load the machine as much
    slope: float  # MiB per hour
    descriptors_left: int
    processes_left: int
    shared_memory_left: int
    weights_sha256: str
    held: dict[str, bool] = field(default_factory=dict)


def run(soak: Soak, say: Callable[[str], None]) -> Outcome:
    """Train with faults for so long, then as many iterations without, and compare."""
    before = belongings()
    with TemporaryDirectory() as folder:
        say(f"seed {soak.seed}: {soak.seconds:g} s of training with {'faults' if soak.faults else 'no faults'}")
        harmed = train(soak, Path(folder) / "harmed", say)
        say(f"the same {harmed.iterations} iterations without faults")
        untouched = train(replace(soak, faults=False), Path(folder) / "untouched", say, harmed.iterations)
    gc.collect()
    return judge(soak, harmed, untouched, [now - then for now, then in zip(belongings(), before, strict=True)])


def train(soak: Soak, folder: Path, say: Callable[[str], None], iterations: int | None = None) -> Trained:
    """A run with workers: for so many iterations, or until the time is over."""
    folder.mkdir()
    stop = StopRequest()
    config = load_run(None, [*SMALL_RUN, f"run.seed={soak.seed}", f"parallel.num_workers={soak.workers}"])
    orders = folder / "orders"
    with Clock() as clock, open_metrics(folder, witness := Witness(stop, clock, iterations, say)) as metrics:
        training, manager = with_harm(config, build.training(config, folder, metrics, stop), orders)
        training.prepare()
        driver = Driver(
            soak.seed,
            soak.kinds,
            every=soak.every,
            workers=soak.workers,
            ready=manager.processes,
            orders=orders,
            witness=witness,
        )
        thread = threading.Thread(target=_drive, args=(soak, driver, witness, stop))
        if iterations is None:
            thread.start()
        try:
            last = training.run()
        finally:
            driver.end()
            if iterations is None:
                thread.join()
    done = training.progress
    return Trained(weights_sha256(last), done.iteration, done.steps, done.games, witness, driver.harmed)


def with_harm(config: Config, made: Training, orders: Path) -> tuple[Training, ParallelManager]:
    """The same run, with workers whose environments do harm when they are ordered to; and who manages them."""
    made.parts.collector.close()
    plain = build.game(config)
    of = replace(plain, build_environment=WithHarm(plain.build_environment, orders, os.getpid()))

    def tell(kind: str, text: str) -> None:
        made.parts.metrics.event(0, kind, text)

    number = config.parallel.num_workers
    assert number != "auto"
    manager = build.workers(config, of, number, tell=tell)
    return Training(replace(made.parts, collector=manager), made.plan), manager


def _drive(soak: Soak, driver: Driver, witness: Witness, stop: StopRequest) -> None:
    """Do harm until the time is over, which begins with the first record."""
    driver.wait(lambda: witness.iteration > 0)
    now = witness.clock.now
    until = now() + soak.seconds
    while now() < until and not driver.ended:
        if soak.faults:
            driver.pause(until)
        else:
            time.sleep(0.01)
        if soak.faults and now() < until:
            driver.harm()
    stop.ask("the soak")


def belongings() -> tuple[int, int, int]:
    """How many descriptors and child processes this process has, and how much lies in shared memory with a name."""
    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return len(os.listdir("/proc/self/fd")), sum(map(len, children)), len(os.listdir("/dev/shm"))


def judge(soak: Soak, harmed: Trained, untouched: Trained, left: Sequence[int]) -> Outcome:
    """What came of it."""
    share = harmed.witness.rate / untouched.witness.rate if untouched.witness.rate else 0.0
    between = share_between(harmed.witness, harmed.harmed)
    long = soak.seconds >= LONG_SECONDS
    held = {
        "the same weights, bit for bit": harmed.weights == untouched.weights,
        "every step and game counted once": (harmed.steps, harmed.games) == (untouched.steps, untouched.games),
        "every fault seen": all(one.seen for one in harmed.harmed),
        "every fault mended": all(one.mended for one in harmed.harmed),
        "nothing left behind": not any(number > 0 for number in left),
    }
    if long:
        held["as fast as without faults, but for a tenth"] = max(share, between) >= LEAST_SHARE
        held["no more memory in the end than in the middle"] = growth(harmed.witness) <= MOST_GROWTH
    return Outcome(
        soak=soak,
        harmed=harmed.harmed,
        restarts=int(harmed.witness.restarts),
        iterations=harmed.iterations,
        steps=harmed.steps,
        games=harmed.games,
        throughput_share=share,
        share_between=between,
        slope=slope(harmed.witness),
        descriptors_left=left[0],
        processes_left=left[1],
        shared_memory_left=left[2],
        weights_sha256=harmed.weights,
        held=held,
    )


def share_between(witness: Witness, harmed: Sequence[Harmed]) -> float:
    """The speed of the whole run as a share of that between its faults; 0 where there is nothing between them."""
    seconds = steps = 0.0
    for (began, before, _), (ended, after, _) in itertools.pairwise(witness.times):
        if not any(one.began < ended and began < one.ended + CALM_SECONDS for one in harmed):
            seconds, steps = seconds + ended - began, steps + after - before
    return witness.rate * seconds / steps if steps else 0.0


def slope(witness: Witness) -> float:
    """How fast memory grew over the last two thirds, in MiB per hour."""
    seen = witness.times[len(witness.times) // 3 :]
    if len(seen) < 3:
        return 0.0
    moments, sizes = np.array([at for at, _, _ in seen]), np.array([size for _, _, size in seen])
    return float(np.polyfit(moments - moments[0], sizes, 1)[0]) * 3600 / 2**20


def growth(witness: Witness) -> float:
    """By how many bytes the last quarter is above the one before it."""
    sizes = [size for _, _, size in witness.times]
    quarter = max(1, len(sizes) // 4)
    return float(np.mean(sizes[-quarter:]) - np.mean(sizes[-2 * quarter : -quarter] or sizes))


def table_rows(outcome: Outcome) -> list[tuple[str, int, int, int]]:
    """Each kind of fault: how often it was done, seen and mended."""
    rows = []
    for kind in outcome.soak.kinds:
        of_kind = [one for one in outcome.harmed if one.kind == kind]
        rows.append((kind, len(of_kind), sum(one.seen for one in of_kind), sum(one.mended for one in of_kind)))
    return rows
