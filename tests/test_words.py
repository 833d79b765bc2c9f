"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from keisei.history import Evaluation
from keisei.words import amount, condensed, duration, elo, memory, number, portions, sparkline


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0:00"), (7.4, "0:07"), (252, "4:12"), (3599.6, "1:00:00"), (3723, "1:02:03"), (273_600, "3 d 04 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (417, "417"), (999.6, "1 k"), (41_234, "41.2 k"), (1_250_000, "1.25 M"), (3e9, "3 G"), (-2000, "-2 k")],
)
def test_amounts(value: float, text: str) -> None:
    assert amount(value) == text


def test_memory() -> None:
    assert memory(412 * 2**20) == "412 MiB"
    assert memory(1.25 * 2**30) == "1.2 GiB"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0125, "−0.0125"),
        (3e-4, "0.0003"),
        (-0.00995512, "−0.00996"),
        (0.00021345, "0.000213"),
        (-0.00021345, "−2.13e−4"),
        (-3.6371e-7, "−3.64e−7"),
        (3.52371, "3.524"),
        (-1234.56, "−1235"),
        (25_000, "25 k"),
        (0, "0"),
        (math.inf, "∞"),
        (math.nan, "nan"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text
    assert len(text) <= 8


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((402.4, 349.6, 470.1), "+402 Elo, 350 to 470"),
        ((-12.0, -40.2, 16.0), "−12 Elo, −40 to 16"),
        ((math.inf, 402.4, math.inf), "+∞ Elo, 402 to ∞"),
        ((-math.inf, -math.inf, -402.4), "−∞ Elo, −∞ to −402"),
        ((0.0, math.nan, math.nan), "0 Elo"),
        ((math.nan, 1.0, 2.0), ""),
    ],
)
def test_elo(given: tuple[float, float, float], text: str) -> None:
    assert elo(Evaluation("random", 0.5, *given)) == text


def test_sparkline_rises_with_its_values() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 10) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5, 5], 10) == "▁▁▁"
    assert sparkline([0, math.nan, 1], 10) == "▁ █"
    assert sparkline([math.nan, math.inf], 10) == ""
    assert sparkline([], 10) == ""


def test_sparkline_shows_all_values_in_the_width_there_is() -> None:
    assert sparkline(list(range(800)), 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, 2, 3], 0) == ""


def test_condensed_values_are_means_of_what_is_finite() -> None:
    assert condensed([1, 3, 5, math.nan], 2) == [2, 5]
    assert condensed([1, 2], 5) == [1, 2]
    assert math.isnan(condensed([math.nan, math.nan, 1, 1], 2)[0])


@pytest.mark.parametrize("width", [0, 1, 7, 30])
@pytest.mark.parametrize("shares", [[1], [1, 1, 1], [97, 2, 1], [0, 5, 0], [1e-9, 1]])
def test_portions_fill_the_width(shares: list[float], width: int) -> None:
    widths = portions(shares, width)
    assert sum(widths) == width
    assert all(abs(each - share / sum(shares) * width) < 1 for each, share in zip(widths, shares, strict=True))


def test_portions_of_nothing_are_nothing() -> None:
    assert portions([0, 0], 10) == [0, 0]
    assert portions([], 10) == []
