"""How soon dead and hung workers are seen, and how soon others play in their place. The faults are real signals."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
import time
from statistics import median
from typing import Self

from keisei import build
from keisei.bench.harness import Result, Settings, round_off
from keisei.bench.learning_ahead import CONNECT_FOUR, EVEN
from keisei.bench.processes import busiest, processor_seconds, wait_for, worker_processes
from keisei.config import load_run

IDLE_SECONDS = 0.05
TIMEOUT = 0.5
KILLED_AT_ONCE = 6
"""So many workers are started, and killed one after the other, before others are started."""

SAMPLES = 5
SMALL = ("environment.copies=64", "parallel.block_size=8", "parallel.rollout_length=32", "parallel.max_restarts=1000")


class Playing:
    """Workers that play on and on, and what their manager says of them, with times."""

    def __init__(self, workers: int) -> None:
        self.said: list[tuple[float, str]] = []
        of_four = [*EVEN, *SMALL, f"parallel.worker_timeout={TIMEOUT}"]
        config = load_run(CONNECT_FOUR, of_four)
        of = build.game(config)
        self.manager = build.workers(config, of, workers, tell=lambda kind, text: self._hear(text))
        self.manager.publish(build.network(config.network, of, config.run.seed).state_dict(), 0)
        self._workers = workers
        self._ends = threading.Event()
        self._iteration = 0
        self._thread = threading.Thread(target=self._play)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for(lambda: self._iteration > 0 and len(worker_processes()) > self._workers, "workers and a spare")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self.manager.close()

    def _play(self) -> None:
        while not self._ends.is_set():
            self.manager.collect(self._iteration)
            self._iteration += 1

    def _hear(self, text: str) -> None:
        self.said.append((time.monotonic(), text))

    def wait_until_seen(self, process: int, since: float) -> float:
        """Wait until something is said of a process that came to harm; gives the seconds that it took."""

        def seen() -> list[float]:
            return [at for at, text in tuple(self.said) if at >= since and _speaks_of(process, text)]

        wait_for(lambda: bool(seen()), f"a line about process {process}", 10)
        return seen()[0] - since

    def steps(self) -> float:
        """How many steps the workers have played."""
        return sum(value for name, value in self.manager.statistics().items() if name.endswith("/steps"))

    def wait_until_more_is_played(self) -> float:
        """Wait for the next block that is whole; gives the moment."""
        before = self.steps()
        return wait_for(lambda: self.steps() > before, "a worker that plays")

    def wait_until_started(self) -> list[int]:
        """Wait for all workers and the spare, until it stands by; gives all their processes."""
        wait_for(lambda: len(worker_processes()) > self._workers, "workers and a spare")
        wait_for(lambda: self.manager.statistics().get("parallel/spares", 0) > 0, "a spare that stands by")
        return worker_processes()


def _speaks_of(process: int, text: str) -> bool:
    return f"(process {process})" in text or text.startswith("the spare worker")


def is_idle(process: int) -> bool:
    """Whether a process has not worked for a while."""
    before = processor_seconds(process)
    time.sleep(IDLE_SECONDS)
    return before == processor_seconds(process)


def run(settings: Settings, kills: int) -> list[Result]:
    """All of it."""
    settings.say(f"killing {kills} workers")
    seen = sorted(deaths(kills))
    settings.say("replacing workers")
    from_spare, fresh = replacements(SAMPLES, with_spare=True), replacements(SAMPLES, with_spare=False)
    settings.say("stopping workers")
    beyond = hangs(SAMPLES)
    return [
        Result("death_seen_p99", round_off(1e3 * seen[math.ceil(0.99 * len(seen)) - 1]), "ms"),
        Result("death_seen", round_off(1e3 * median(seen)), "ms"),
        Result("replacement", round_off(median(from_spare)), "s", best=round_off(min(from_spare))),
        Result("replacement_without_spare", round_off(median(fresh)), "s", best=round_off(min(fresh))),
        Result("hang_seen", round_off(1e3 * max(beyond)), "ms beyond worker_timeout"),
    ]


def deaths(kills: int) -> list[float]:
    """How long it took until each death was seen; at random instants, of whoever plays or stands by."""
    chance, found = random.Random(kills), list[float]()
    while len(found) < kills:
        with Playing(KILLED_AT_ONCE) as play:
            victims = [one for one in play.wait_until_started() if not is_idle(one)]
            for victim in victims[: kills - len(found)]:
                time.sleep(chance.uniform(0.01, 0.1))
                killed = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                found.append(play.wait_until_seen(victim, killed))
    return found


def replacements(count: int, *, with_spare: bool) -> list[float]:
    """Seconds from the death of the only worker until another one has played a block."""
    found = list[float]()
    with Playing(1) as play:
        for _ in range(count):
            processes = play.wait_until_started()
            worker = busiest(processes)
            for spare in set(processes) - {worker} if not with_spare else ():
                os.kill(spare, signal.SIGKILL)
            killed = time.monotonic()
            os.kill(worker, signal.SIGKILL)
            play.wait_until_seen(worker, killed)
            found.append(play.wait_until_more_is_played() - killed)
    return found


def hangs(count: int) -> list[float]:
    """Seconds beyond the limit until a stopped worker was seen."""
    found = list[float]()
    with Playing(1) as play:
        for _ in range(count):
            worker = busiest(play.wait_until_started())
            stopped = time.monotonic()
            os.kill(worker, signal.SIGSTOP)
            found.append(play.wait_until_seen(worker, stopped) - TIMEOUT)
    return found
