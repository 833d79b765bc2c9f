"""How fast rollouts are collected by this process and by worker processes: the blocks of `configs/shogi-quick.yaml`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import numpy as np

from keisei import build
from keisei.bench.harness import Result, Sample, Settings, result, result_against, round_off, take_turns
from keisei.bench.learning import CONFIG, UNIT
from keisei.bench.machine import held_to
from keisei.bench.processes import hold_each, wait_until_still, worker_processes
from keisei.collect.collector import Collector
from keisei.config import Config, load_run

BLOCK_SIZE = 64
BLOCKS_PER_WORKER = 2


def configuration(most_workers: int) -> Config:
    """The blocks of the quick run, enough of them for every number of workers."""
    copies = BLOCK_SIZE * BLOCKS_PER_WORKER * most_workers
    return load_run(CONFIG, [f"environment.copies={copies}", f"parallel.block_size={BLOCK_SIZE}"])


class Collecting:
    """Whole rollouts, by the clock on the wall; this thread runs on certain cores only."""

    def __init__(self, name: str, collector: Collector, cores: Sequence[int]) -> None:
        self.name = name
        self.cores = cores
        self._collector = collector
        self._iteration = 0

    def collect(self) -> int:
        """One more rollout; gives its steps."""
        steps = self._collector.collect(self._iteration).steps
        self._iteration += 1
        return steps

    def measure(self, seconds: float) -> Sample:
        """Collect for about so long."""
        with held_to(self.cores):
            steps, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < seconds:
                steps += self.collect()
        return Sample(steps, spent)


@contextmanager
def by_workers(config: Config, number: int, cores: Sequence[int]) -> Iterator[Collecting]:
    """So many workers, ready and with a spare, each held to one of the cores; the manager may use all of these."""
    before = set(worker_processes())
    of = build.game(config)
    with build.workers(config, of, number, tell=lambda kind, text: None) as manager:
        manager.publish(build.network(config.network, of, config.run.seed).state_dict(), 0)
        made = Collecting(f"workers_{number}", manager, cores)
        while len(mine := sorted(set(worker_processes()) - before)) <= number:  # the spare is started last
            made.collect()
        wait_until_still(mine)
        hold_each(mine, cores)
        yield made


@contextmanager
def in_this_process(config: Config, core: int) -> Iterator[Collecting]:
    """The same blocks in a row, on one core."""
    collector = build.serial(config, build.game(config))
    yield Collecting("serial", collector, [core])
    collector.close()


def compare(config: Config, numbers: Sequence[int], cores: Sequence[int], settings: Settings) -> list[Result]:
    """This process, and each number of workers against the number before it; so many cores as workers, if there are."""
    with ExitStack() as stack:
        sides = [in_this_process(config, cores[0]), *(by_workers(config, one, cores[:one]) for one in numbers)]
        contenders = [stack.enter_context(side) for side in sides]
        measured = take_turns(contenders, settings)
        costs = [supervision(one, number, settings) for one, number in zip(contenders[1:], numbers, strict=True)]
    results = [result(measured["serial"], UNIT)]
    for before, one in pairwise(contenders):
        results.append(result_against(measured[one.name], UNIT, measured[before.name], before.name))
    return [*results, Result("supervision_cost", round_off(100 * max(costs)), "% of the workers' time")]


def supervision(workers: Collecting, number: int, settings: Settings) -> float:
    """The share of the workers' time that supervision takes, at the most.

    All that the manager's process does while they play counts: giving out blocks, hearing, looking at heartbeats, and
    verifying; as if it always took a core away from them. So do the heartbeats, one for each step of a block.
    """
    used, start, steps = time.process_time(), time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < settings.seconds:
        steps += workers.collect()
    used = time.process_time() - used
    beats = steps / BLOCK_SIZE
    return (used + beats * seconds_per_beat()) / (min(number, len(workers.cores)) * spent)


def seconds_per_beat() -> float:
    """How long a worker takes to write a heartbeat."""
    numbers, count = np.zeros(2, np.uint64), 10_000
    start = time.perf_counter()
    for _ in range(count):
        numbers[1] += 1
        numbers[0] += 1
    return (time.perf_counter() - start) / count
