"""`num_workers: auto`: how many worker processes a run uses, by a short measurement. It changes no bit of the run."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from keisei.config import Config

if TYPE_CHECKING:
    from keisei.collect.collector import Collector
    from keisei.collect.serial import SerialCollector
    from keisei.parallel.manager import ParallelManager

_MEASURE_SECONDS = 0.4
_SHORT_SECONDS = 10.0
"""A run that collects for less than this is over before workers are worth their start."""
_LONG_SECONDS = 2.0
"""Where one process takes longer than this for one rollout, handing it over costs next to nothing."""


def chosen(
    config: Config,
    serial: Callable[[int], SerialCollector],
    workers: Callable[[int], ParallelManager],
    tell: Callable[[str, str], None],
) -> Collector:
    """Whoever collects faster: this process, or as many workers as there are processors for; says what was found.

    `serial` takes the steps of its rollouts, `workers` how many there are.
    """
    steps, number = config.parallel.rollout_length, fitting(config)
    if number < 2 and not config.parallel.async_learning:
        tell("mode", f"no workers: {_why_one(config)}")
        return serial(steps)
    seconds = _seconds_per_rollout(serial, steps)
    whole = config.environment.copies * steps
    left = seconds * config.run.total_steps / whole
    if left < _SHORT_SECONDS:
        tell("mode", f"no workers: one process collects the whole run in about {left:.1f} s")
        return serial(steps)
    there = workers(number)
    if seconds > _LONG_SECONDS:
        tell("mode", f"{number} workers: one process takes about {seconds:.1f} s for a rollout")
        return there
    there.publish(serial(1).policy.network.state_dict(), 0)
    theirs = _measured(there)
    there.reset()
    found = f"{whole / seconds:,.0f} steps/s in one process, {whole / theirs:,.0f} with {number} workers"
    if theirs < seconds:
        tell("mode", f"{number} workers: {found}")
        return there
    tell("mode", f"no workers: {found}")
    there.close()
    return serial(steps)


def fitting(config: Config) -> int:
    """As many workers as there are blocks, and processors that the learner does not keep busy meanwhile."""
    free = len(os.sched_getaffinity(0))
    if config.parallel.async_learning:
        free -= config.parallel.learner_threads
    return max(1, min(free, config.environment.copies // config.parallel.block_size))


def _why_one(config: Config) -> str:
    if config.environment.copies == config.parallel.block_size:
        return "all copies are one block, which one process plays"
    return "there is one processor"


def _seconds_per_rollout(serial: Callable[[int], SerialCollector], whole: int) -> float:
    """How long this process takes for a rollout of `whole` steps; a long one is not played to its end."""
    steps = 1
    while True:
        collector = serial(steps)
        seconds = _measured(collector)
        collector.close()
        if steps == whole or seconds >= _MEASURE_SECONDS:
            return seconds * whole / steps
        steps = min(whole, math.ceil(steps * min(16.0, 1.5 * _MEASURE_SECONDS / max(seconds, 1e-6))))


def _measured(collector: Collector) -> float:
    """How long a rollout takes, once everything is warm."""
    collector.collect(0)
    began, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - began < _MEASURE_SECONDS:
        count += 1
        collector.collect(count)
    return (time.perf_counter() - began) / count
