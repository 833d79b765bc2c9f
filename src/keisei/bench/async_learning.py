"""Whether learning while collecting learns as well: connect four from several seeds, both ways, by steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import mean, stdev

from keisei.bench.connect_four import Training, config, match
from keisei.bench.harness import Report, Result, Settings, round_off
from keisei.bench.machine import describe

UNIT = "% score"
SEEDS = (1, 2, 3, 4, 5)
STEPS = 500_000
GAMES = 1000
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t for intervals of 95 %, by how many seeds there are."""

WAYS = {"synchronous": "parallel.async_learning=false", "asynchronous": "parallel.async_learning=true"}


def run(settings: Settings) -> Report:
    """Train from each seed both ways, and let each meet random moves."""
    machine = describe(os.sched_getaffinity(0))
    scores = scores_of(WAYS, SEEDS, settings)
    notes = (*notes_on(scores), f"asynchronous better by {interval(differences(scores))}")
    return Report("async-learning", machine, results_of(scores), notes)


def scores_of(ways: Mapping[str, str], seeds: Sequence[int], settings: Settings) -> dict[str, list[float]]:
    """The scores of runs that differ in some keys, from each of the seeds."""
    scores: dict[str, list[float]] = {way: [] for way in ways}
    for seed in seeds:
        for way, key in ways.items():
            settings.say(f"learning: seed {seed}, {way}")
            scores[way].append(score(STEPS, GAMES, f"run.seed={seed}", *key.split()))
    return scores


def notes_on(scores: Mapping[str, Sequence[float]]) -> list[str]:
    """Means with their intervals, and what they are made of."""
    return [
        *(
            f"{way}: {interval(found)} (seeds: {', '.join(f'{one:g}' for one in found)})"
            for way, found in scores.items()
        ),
        f"{STEPS} steps, {GAMES} games of sampled play",
    ]


def score(steps: int, games: int, *overrides: str) -> float:
    """The score against random moves after so many steps, in percent."""
    training = Training(config(*overrides))
    try:
        training.learn_steps(steps)
        return 100 * match(training.policy, games).rating.score
    finally:
        training.close()


def differences(scores: Mapping[str, Sequence[float]]) -> list[float]:
    """By how many points each seed learnt better while collecting."""
    return [late - now for now, late in zip(*scores.values(), strict=True)]


def results_of(scores: Mapping[str, Sequence[float]]) -> tuple[Result, ...]:
    """The mean score of each way, and of the differences."""
    found = {**scores, "difference": differences(scores)}
    return tuple(Result(name, round_off(mean(of)), UNIT) for name, of in found.items())


def interval(found: Sequence[float]) -> str:
    """The mean and its interval of 95 %, in words."""
    half = STUDENT[len(found)] * stdev(found) / sqrt(len(found))
    return f"{mean(found):.2f} ± {half:.2f}"
