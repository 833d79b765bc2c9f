"""What worker processes gain, what they cost, and how soon lost ones are replaced.

Collecting is in `collection.py`, whole runs in `learning_ahead.py`, faults in `supervision.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from keisei.bench import collection, learning_ahead, supervision
from keisei.bench.harness import Report, Result, Settings
from keisei.bench.machine import describe
from keisei.threads import torch_threads

KILLS = 200


@dataclass(frozen=True)
class Question:
    """What is to be measured, and where."""

    workers: Sequence[int]
    kills: int
    cores: Sequence[int]
    settings: Settings


@dataclass(frozen=True)
class Answer:
    """What one part has found."""

    results: Sequence[Result]
    notes: Sequence[str] = ()


def _collecting(asked: Question) -> Answer:
    config = collection.configuration(max(asked.workers))
    found = collection.compare(config, asked.workers, asked.cores, asked.settings)
    note = "each worker is held to one core, N workers and their manager to N cores; the serial collector to one"
    return Answer(found, (note,))


def _training(asked: Question) -> Answer:
    quick = learning_ahead.quick_run(asked.cores[:2], asked.settings)
    even = learning_ahead.connect_four(asked.cores[:2], asked.settings)
    results = (
        quick.against_bound("async_2_cores"),
        quick.against_serial("async_gain"),
        quick.bound("async_bound"),
        even.against_serial("async_c4"),
        even.bound("async_c4_bound"),
    )
    shares = (
        f"{name} in turns: {100 * one.share:.0f} % of the time is collecting, the rest learning"
        for name, one in (("shogi-quick", quick), ("connect four", even))
    )
    return Answer(results, ("in turns: one core for all; at once: one for the learner, one for the worker", *shares))


def _faults(asked: Question) -> Answer:
    return Answer(supervision.run(asked.settings, asked.kills))


PARTS: Mapping[str, Callable[[Question], Answer]] = {
    "collecting": _collecting,
    "training": _training,
    "faults": _faults,
}
"""Collect with workers, train while collecting, and lose workers."""


def run(
    settings: Settings, workers: Sequence[int] = (1, 2, 4), kills: int = KILLS, parts: Sequence[str] = tuple(PARTS)
) -> Report:
    """Measure some parts, or all."""
    cores = [settings.core, *sorted(os.sched_getaffinity(0) - {settings.core})]
    machine = describe(cores)
    asked = Question(workers, kills, cores, settings)
    with torch_threads(1):
        answers = [PARTS[part](asked) for part in parts]
    results = tuple(result for answer in answers for result in answer.results)
    return Report("parallel", machine, results, tuple(note for answer in answers for note in answer.notes))
