"""What ended episodes tell of all agents together, computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keisei.gridworld.figures import gini, sustainability


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ([3.0, 3.0, 3.0, 3.0], 0.0),
        ([0.0, 10.0], 1 / 2),  # all for one of two: (n - 1) / n
        ([0.0, 0.0, 0.0, 8.0], 3 / 4),
        ([1.0, 3.0], 1 / 4),  # they are 2 apart, both ways: 4 / (2 · 2 · 4)
        ([1.0, 2.0, 3.0], 2 / 9),  # 1, 2 and 1 apart, both ways: 8 / (2 · 3 · 6)
        ([5.0], 0.0),
        ([0.0, 0.0], math.nan),  # nobody has anything
        ([-1.0, 5.0], math.nan),  # somebody lost
        ([-2.0, -2.0], math.nan),
    ],
)
def test_gini_says_how_unequal_returns_are(returns: list[float], expected: float) -> None:
    assert gini(np.array([returns])).tolist() == pytest.approx([expected], nan_ok=True)


def test_gini_does_not_ask_in_which_coin_one_is_paid() -> None:
    returns = np.array([[1.0, 4.0, 7.0], [100.0, 400.0, 700.0], [7.0, 1.0, 4.0]])
    assert gini(returns).tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("gains", "turns", "expected"),
    [
        ([1, 1], [3, 3], 3.0),
        ([2, 1], [2 + 4, 9], 6.0),  # on the average in turns 3 and 9
        ([3, 0], [1 + 2 + 6, 0], 3.0),  # who gained nothing does not count
        ([0, 0], [0, 0], math.nan),
    ],
)
def test_sustainability_is_the_mean_turn_of_gains(gains: list[int], turns: list[int], expected: float) -> None:
    found = sustainability(np.array([gains], np.int32), np.array([turns], np.float64))
    assert found.tolist() == pytest.approx([expected], nan_ok=True)


def test_worlds_are_told_apart() -> None:
    assert gini(np.array([[0.0, 1.0], [-1.0, 1.0], [2.0, 2.0]])).tolist() == pytest.approx(
        [0.5, math.nan, 0.0], nan_ok=True
    )
    gains, turns = np.array([[0, 0], [1, 2]], np.int32), np.array([[0.0, 0.0], [4.0, 4.0]])
    assert sustainability(gains, turns).tolist() == pytest.approx([math.nan, 3.0], nan_ok=True)
