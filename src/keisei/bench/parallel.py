"""What worker processes gain, what they cost, and how soon lost ones are replaced.

Collecting is in `collection.py`, whole runs in `learning_ahead.py`, faults in `supervision.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from keisei.bench import collection, learning_ahead, supervision
from keisei.bench.harness import Report, Settings
from keisei.bench.machine import describe
from keisei.threads import torch_threads

KILLS = 200


def run(settings: Settings, workers: Sequence[int] = (1, 2, 4), kills: int = KILLS) -> Report:
    """Collect with workers, train while collecting, and lose workers."""
    cores = [settings.core, *sorted(os.sched_getaffinity(0) - {settings.core})]
    machine = describe(cores)
    with torch_threads(1):
        collected = collection.compare(collection.configuration(max(workers)), workers, cores, settings)
        quick = learning_ahead.quick_run(cores[:2], settings)
        even = learning_ahead.connect_four(cores[:2], settings)
        faults = supervision.run(settings, kills)
    results = (
        *collected,
        quick.against_bound("async_2_cores"),
        quick.against_serial("async_gain"),
        quick.bound("async_bound"),
        even.against_serial("async_c4"),
        even.bound("async_c4_bound"),
        *faults,
    )
    notes = (
        "each worker is held to one core, N workers and their manager to N cores; the serial collector to one",
        "in turns: one core for all; at once: the learner has one core, the worker the other",
        *(
            f"{name} in turns: {100 * one.share:.0f} % of the time is collecting, the rest learning"
            for name, one in (("shogi-quick", quick), ("connect four", even))
        ),
    )
    return Report("parallel", machine, results, notes)
