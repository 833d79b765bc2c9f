"""What it costs to act with old weights: connect four with several sync intervals and lags, by steps."""

from __future__ import annotations

import os
from statistics import mean

from keisei.bench.async_learning import UNIT, notes_on, scores_of
from keisei.bench.harness import Report, Result, Settings, round_off
from keisei.bench.machine import describe

SEEDS = (1, 2, 3)
AHEAD = "parallel.async_learning=true"
WAYS = {
    "interval_1": "parallel.model_sync_interval=1",
    "interval_4": "parallel.model_sync_interval=4",
    "interval_16": "parallel.model_sync_interval=16",
    "lag_1": f"{AHEAD} parallel.max_lag=1",
    "lag_4": f"{AHEAD} parallel.max_lag=4",
    "lag_4_v_trace": f"{AHEAD} parallel.max_lag=4 parallel.v_trace=true",
}


def run(settings: Settings) -> Report:
    """Train from each seed in each way, and let each meet random moves."""
    machine = describe(os.sched_getaffinity(0))
    scores = scores_of(WAYS, SEEDS, settings)
    results = tuple(Result(way, round_off(mean(found)), UNIT) for way, found in scores.items())
    return Report("staleness", machine, results, tuple(notes_on(scores)))
