"""A small run to show and to draw: the numbers of its iterations, as training records them."""

from __future__ import annotations

import math
from pathlib import Path

from keisei.history import Record
from keisei.metrics import open_metrics

STEPS = 1000


def numbers(iteration: int, total: int = 10, evaluated: bool = False) -> dict[str, float]:
    """The numbers of an iteration of a run of so many."""
    given: dict[str, float] = {
        "steps": iteration * STEPS,
        "total_steps": total * STEPS,
        "games": iteration * 20,
        "seconds": iteration * 2.0,
        "collect/plies_per_second": 2400.0 + iteration,
        "collect/mean_length": 110.0 - iteration,
        "collect/reason/mate": 12,
        "collect/reason/cut_off": 6,
        "collect/reason/perpetual_check": 2,
        "collect/wins/black": 7,
        "collect/wins/white": 5,
        "learn/policy_loss": -0.0125,
        "learn/value_loss": 1.0 / iteration,
        "learn/entropy": 3.5 - 0.1 * iteration,
        "learn/kl": 0.008,
        "memory/learner": 412 * 2**20,
    }
    if evaluated:
        given |= {
            "evaluate/random/score": 1.0,
            "evaluate/random/elo": math.inf,
            "evaluate/random/elo_low": 402.4,
            "evaluate/random/elo_high": math.inf,
            "evaluate/greedy/score": 0.25,
            "evaluate/greedy/elo": -190.8,
            "evaluate/greedy/elo_low": -260.2,
            "evaluate/greedy/elo_high": -130.0,
        }
    return given


def record(iteration: int, total: int = 10, evaluated: bool = False) -> Record:
    """The record of an iteration."""
    return Record(iteration, numbers(iteration, total, evaluated))


def write(run: Path, iterations: int, total: int = 10, evaluated: bool = True) -> None:
    """A run's metrics, with an evaluation at every second iteration."""
    with open_metrics(run) as metrics:
        for iteration in range(1, iterations + 1):
            metrics.record(iteration, numbers(iteration, total, evaluated and iteration % 2 == 0))
