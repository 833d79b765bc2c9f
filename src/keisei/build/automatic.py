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
    serial: Callable[[int | None], SerialCollector],
    workers: Callable[[int], ParallelManager],
    tell: Callable[[str, str], None],
) -> Collector:
    """Whoever collects faster: this process, or as many workers as there are processors for; says in a line what it is.

    Where the learner is to work meanwhile, workers collect wherever a processor is free for them.

    `serial` takes the steps of its rollouts, None for those of the run; `workers` how many there are.
    """
    number, ahead = fitting(config), config.parallel.async_learning
    if _free(config) < 1 or (number < 2 and not ahead):
        tell("mode", f"no workers: {_why_one(config)}")
        return serial(None)
    here = _steps_per_second(serial, config.parallel.rollout_length)
    left = config.run.total_steps / here
    if left < _SHORT_SECONDS:
        tell("mode", f"no workers: one process collects the whole run in about {left:.1f} s")
        return serial(None)
    if ahead:  # a thread beside the learner's would take its turns from it, so speed alone does not count
        alone = f"{here:,.0f} steps/s in one process"
        tell("mode", f"{_workers(number)}: what this process learns meanwhile does not slow them down ({alone})")
        return workers(number)
    there, seconds = workers(number), config.environment.copies * config.parallel.rollout_length / here
    if seconds > _LONG_SECONDS:
        alone = f"about {seconds:.1f} s for a rollout, {here:,.0f} steps/s"
        tell("mode", f"{_workers(number)}: one process takes {alone}; handing it over costs next to nothing")
        return there
    there.publish(serial(1).policy.network.state_dict(), 0)
    theirs = measured(there)[0]
    there.reset()
    found = f"{here:,.0f} steps/s in one process, {theirs:,.0f} with {_workers(number)}"
    if theirs > here:
        tell("mode", f"{_workers(number)}: {found}")
        return there
    tell("mode", f"no workers: {found}")
    there.close()
    return serial(None)


def fitting(config: Config) -> int:
    """As many workers as there are blocks, and processors that the learner does not keep busy meanwhile."""
    return max(1, min(_free(config), config.environment.copies // config.parallel.block_size))


def _free(config: Config) -> int:
    """How many processors there are, but for those that the learner keeps busy meanwhile."""
    section = config.parallel
    return len(os.sched_getaffinity(0)) - (section.learner_threads if section.async_learning else 0)


def _why_one(config: Config) -> str:
    if _free(config) < 1:
        return "the learner keeps all processors busy"
    if config.environment.copies == config.parallel.block_size:
        return "all copies are one block, which one process plays"
    return "there is one processor"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"


def _steps_per_second(serial: Callable[[int | None], SerialCollector], whole: int) -> float:
    """How fast this process plays rollouts of `whole` steps; a long one is not played to its end."""
    steps = 1
    while True:
        collector = serial(steps)
        rate, seconds = measured(collector)
        collector.close()
        if steps == whole or seconds >= _MEASURE_SECONDS:
            return rate
        steps = min(whole, math.ceil(steps * min(16.0, 1.5 * _MEASURE_SECONDS / max(seconds, 1e-6))))


def measured(collector: Collector) -> tuple[float, float]:
    """Steps per second, and seconds per rollout, once everything is warm."""
    collector.collect(0)
    began, rollouts, steps = time.perf_counter(), 0, 0
    while rollouts == 0 or time.perf_counter() - began < _MEASURE_SECONDS:
        rollouts += 1
        steps += collector.collect(rollouts).steps
    seconds = time.perf_counter() - began
    return steps / seconds, seconds / rollouts
