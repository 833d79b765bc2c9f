"""Ratings and the sequential test: hand-computed cases, published values, and a slow obvious reference."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

import pytest

from keisei.arena import ELO_LIMIT, Sprt, elo_difference, expected_score, rate
from keisei.errors import ConfigError


@pytest.mark.parametrize(
    ("score", "elo"), [(0.5, 0.0), (0.75, 190.848), (10 / 11, 400.0), (1 / 11, -400.0), (0.0, -1200.0), (1.0, 1200.0)]
)
def test_elo_difference_of_a_score(score: float, elo: float) -> None:
    assert elo_difference(score) == pytest.approx(elo, abs=1e-3)


@pytest.mark.parametrize("elo", [-1199, -400, -1.5, 0, 12, 800])
def test_expected_score_is_the_inverse_of_elo_difference(elo: float) -> None:
    assert elo_difference(expected_score(elo)) == pytest.approx(elo)


# Computed by fastchess (its elo_test.cpp): difference and half the width of its interval, which is score ± 1.96 errors.
@pytest.mark.parametrize(
    ("counts", "elo", "error"),
    [
        ([96, 111, 136], 40.70, 30.43),
        ([34, 54, 63, 64, 75], 55.58, 27.65),
        ([332, 433, 498, 333, 334], -8.64, 10.33),
        ([7895, 8757, 5685, 568, 9999], -21.04, 2.95),
    ],
)
def test_rating_of_many_games_is_that_of_fastchess(counts: Sequence[int], elo: float, error: float) -> None:
    rating = rate(counts)
    assert rating.elo == pytest.approx(elo, abs=0.005)
    assert (rating.elo_high - rating.elo_low) / 2 == pytest.approx(error, rel=0.003)


LOST = 1.9207294  # half of 3.8414588, the 95 % point of chi-square with one degree of freedom


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        # n wins of n: s^n ≥ exp(-1.92)
        ([0, 0, 100], math.exp(-LOST / 100), 1.0),
        ([0, 0, 0, 0, 100], math.exp(-LOST / 100), 1.0),
        ([0, 0, 0, 0, 1], math.exp(-LOST), 1.0),
        ([7, 0, 0], 0.0, 1 - math.exp(-LOST / 7)),
        # n draws of n: a mean s above ½ is likeliest with 2·(1 - s) draws, the rest wins
        ([0, 50, 0], math.exp(-LOST / 50) / 2, 1 - math.exp(-LOST / 50) / 2),
        ([0, 0, 50, 0, 0], math.exp(-LOST / 50) / 2, 1 - math.exp(-LOST / 50) / 2),
        # a win and a loss: 4·s·(1 - s) = exp(-1.92)
        ([1, 0, 1], 0.5 - math.sqrt(1 - math.exp(-LOST)) / 2, 0.5 + math.sqrt(1 - math.exp(-LOST)) / 2),
        ([1, 0, 0, 0, 1], 0.5 - math.sqrt(1 - math.exp(-LOST)) / 2, 0.5 + math.sqrt(1 - math.exp(-LOST)) / 2),
    ],
)
def test_interval_by_hand(counts: Sequence[int], low: float, high: float) -> None:
    rating = rate(counts)
    assert (rating.elo_low, rating.elo_high) == pytest.approx((elo_difference(low), elo_difference(high)), abs=1e-3)


def log_likelihood(counts: Sequence[int], shares: Sequence[float]) -> float:
    return sum(count * math.log(share) for count, share in zip(counts, shares, strict=True) if count)


def best_with_mean(counts: Sequence[int], score: float, steps: int = 20_000) -> float:
    """The most log-likelihood of three counts among all distributions of that mean, by trying them: one is free."""
    best = -math.inf
    for step in range(1, steps):
        draws = 2 * min(score, 1 - score) * step / steps
        best = max(best, log_likelihood(counts, (1 - score - draws / 2, draws, score - draws / 2)))
    return best


@pytest.mark.parametrize("counts", [(3, 5, 8), (1, 0, 9), (20, 30, 10), (0, 4, 1)])
def test_interval_and_ratio_agree_with_the_slow_reference(counts: tuple[int, int, int]) -> None:
    total = sum(counts)
    most = log_likelihood(counts, [count / total for count in counts])
    rating = rate(counts)
    for end in (rating.elo_low, rating.elo_high):
        assert most - best_with_mean(counts, expected_score(end)) == pytest.approx(LOST, abs=1e-3)
    test = Sprt(-30, 70)
    ratio = best_with_mean(counts, expected_score(70)) - best_with_mean(counts, expected_score(-30))
    assert test.log_likelihood_ratio(counts) == pytest.approx(ratio, abs=1e-3)


def test_rating_is_finite_ordered_and_symmetric_whatever_the_counts() -> None:
    for counts in product(range(3), repeat=5):
        if sum(counts):
            rating, mirrored = rate(counts), rate(counts[::-1])
            assert -ELO_LIMIT <= rating.elo_low <= rating.elo <= rating.elo_high <= ELO_LIMIT
            assert rating.elo_high - rating.elo_low > 1
            assert mirrored.elo_low == pytest.approx(-rating.elo_high, abs=1e-6)
            assert json.loads(json.dumps(asdict(rating), allow_nan=False)) == asdict(rating)


def test_pairs_that_balance_out_make_the_interval_narrower_than_single_games() -> None:
    pairs, games = rate([0, 0, 100, 0, 0]), rate([100, 0, 100])
    assert pairs.elo == games.elo == 0
    assert pairs.elo_high < games.elo_high / 5


def test_rating_reads_as_a_line() -> None:
    assert str(rate([96, 111, 136])) == "score 55.8%, Elo +41 (95 %: +10 to +71)"
    assert str(rate([0, 0, 100])) == "score 100.0%, Elo +1200 or more (95 %: +685 to +1200 or more)"


@pytest.mark.parametrize("counts", [[], [0, 0, 0], [1, 2], [1, -1, 2], [0, 0, 0, 0, 0]])
def test_counts_that_say_nothing_are_refused(counts: Sequence[int]) -> None:
    with pytest.raises(ConfigError, match="counts"):
        rate(counts)


# Published: the first four by fastchess (its sprt_test.cpp), the next two by fishtest (STC and LTC of Stockfish's pull
# request 3273), the last by ShogiHome (its tests of calculateSPRT).
@pytest.mark.parametrize(
    ("elo0", "elo1", "counts", "ratio"),
    [
        (0.5, 2.5, [21184, 40708, 21404], -1.57),
        (0, 2, [57030, 106593, 57433], -2.59),
        (0.5, 2.5, [223, 9863, 21279, 10037, 246], -3.07),
        (0, 2, [871, 26175, 55983, 26678, 821], -4.98),
        (-0.25, 1.25, [292, 5905, 28939, 6129, 299], 2.95),
        (0.25, 1.25, [5, 418, 6043, 506, 12], 2.92),
        (-1.75, 0.25, [0, 0, 0, 0, 3], 0.02),
    ],
)
def test_log_likelihood_ratio_is_the_published_one(
    elo0: float, elo1: float, counts: Sequence[int], ratio: float
) -> None:
    assert Sprt(elo0, elo1).log_likelihood_ratio(counts) == pytest.approx(ratio, abs=0.006)


def test_bounds_are_walds() -> None:
    assert Sprt(0, 5).bounds == pytest.approx((-2.9444390, 2.9444390))
    assert Sprt(0, 5, alpha=0.05, beta=0.1).bounds == pytest.approx((-2.2512918, 2.8903718))


def test_decision_by_hand() -> None:
    # 200 Elo are a score of 0.7597. A pair won twice counts log(0.7597 / 0.5) = 0.418 for it, so the eighth decides.
    # A pair that is shared counts log(0.2403 / 0.5) = -0.733: the fifth decides.
    test = Sprt(0, 200)
    assert [test.decide([0, 0, 0, 0, pairs]) for pairs in range(1, 9)] == [None] * 7 + ["H1"]
    assert [test.decide([0, 0, pairs, 0, 0]) for pairs in range(1, 6)] == [None] * 4 + ["H0"]
    assert test.decide([3, 0, 0, 0, 3]) is None


@pytest.mark.parametrize(
    ("elo0", "elo1", "alpha", "beta"),
    [(5, 5, 0.05, 0.05), (5, 0, 0.05, 0.05), (0, 5, 0, 0.05), (0, 5, 0.5, 0.5), (0, 9999, 0.05, 0.05)],
)
def test_test_that_cannot_be_is_refused(elo0: float, elo1: float, alpha: float, beta: float) -> None:
    with pytest.raises(ConfigError, match="sprt: expected"):
        Sprt(elo0, elo1, alpha, beta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elo1", "shares"), [(100, (25, 0, 50, 0, 25)), (50, (2, 20, 56, 20, 2)), (300, (1, 1, 1, 1, 1))]
)
def test_sprt_errs_as_seldom_as_it_says(elo1: float, shares: Sequence[int]) -> None:
    generator = random.Random(0)
    test = Sprt(0, elo1)
    wrong = 0
    for _ in range(400):
        counts = [0] * 5
        decision = None
        while decision is None:
            counts[generator.choices(range(5), shares)[0]] += 1
            decision = test.decide(counts)
        wrong += decision == "H1"
    assert wrong <= 0.075 * 400  # two and a quarter standard errors above 5 %
