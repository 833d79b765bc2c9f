"""Actions drawn natively from the cells of a policy head are those that the definition says."""

from __future__ import annotations

import numpy as np
import pytest

from keisei.environment import Array, Float32, Float64, Int32, Int64, UInt32
from keisei.policy import CellPolicy, ListedChoices, Policy
from keisei.shogi.actions import ACTIONS, MOST_LEGAL, draw_actions
from shogi_table import Table
from small_shogi import MOST_MOVES, small_game, small_policy

ALMOST_ONE = float(np.float32(1 - 2**-23))
NO_CELL = 2**32 - 1
INFINITY = float("inf")
MOST = float(np.finfo(np.float32).max)


def parts(*, cells: int) -> UInt32:
    """Action a is the sum of cells a and 7·a, as far as there are so many; the others are of one cell, or of none."""
    numbers = np.arange(ACTIONS, dtype=np.uint32)
    both = np.stack([numbers, 7 * numbers], axis=1)
    both[both >= cells] = NO_CELL
    return both


def logits(cells: Array, of: UInt32, legal: Array) -> Float64:
    """By definition, in double precision."""
    padded = np.append(cells.astype(np.float64), 0.0)
    places = np.minimum(of[legal], len(cells))
    found: Float64 = padded[places].sum(axis=1)
    return found


def log_softmax(numbers: Float64) -> Float64:
    shifted = numbers - numbers.max()
    found: Float64 = shifted - np.log(np.exp(shifted).sum())
    return found


def lists(generator: np.random.Generator, lengths: Array) -> tuple[Array, Int32]:
    """Lists of different actions, and where they lie; the first offset is not 0."""
    listed = [generator.choice(ACTIONS, size=length, replace=False) for length in lengths]
    offsets = 5 + np.concatenate([[0], np.cumsum(lengths)])
    return np.concatenate(listed).astype(np.uint16), offsets.astype(np.int32)


def draw(
    cells: Array, of: UInt32, listed: Array, offsets: Int32, uniform: Array | float, temperature: float = 1.0
) -> tuple[Int64, Int64, Float32]:
    numbers = np.broadcast_to(np.asarray(uniform, np.float32), len(cells)).copy()
    return draw_actions(cells.astype(np.float32), of, listed, offsets, numbers, temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 4.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_drawn_actions_are_those_of_the_definition(spread: float, temperature: float) -> None:
    generator = np.random.default_rng(5)
    lengths = np.array([1, 2, 3, 17, 80, 128, 200, MOST_LEGAL, 1, 40])
    cells = (generator.normal(size=(len(lengths), 900)) * spread).astype(np.float32)
    listed, offsets = lists(generator, lengths)
    of = parts(cells=900)
    for number in (0.0, 0.1, 0.5, 0.9, ALMOST_ONE):
        action, choice, log_probability = draw(cells, of, listed, offsets, number, temperature)
        for lane, start in enumerate(offsets[:-1] - offsets[0]):
            legal = listed[start : start + lengths[lane]]
            expected = log_softmax(logits(cells[lane], of, legal) / temperature)
            place = choice[lane]
            assert action[lane] == legal[place]
            assert log_probability[lane] == pytest.approx(expected[place], rel=1e-5, abs=1e-5)
            cumulated = np.cumsum(np.exp(expected))
            before = cumulated[place - 1] if place else 0.0
            assert before - 1e-5 <= number <= cumulated[place] + 1e-5
            assert np.exp(expected[place]) > 0


def test_numbers_divide_the_unit_interval_as_the_probabilities_say() -> None:
    rows, probabilities = 8000, np.array([0.125, 0.5, 0.25, 0.125])
    cells = np.tile(np.log(probabilities), (rows, 1))
    of = np.full((ACTIONS, 2), NO_CELL, np.uint32)
    of[100:104, 1] = range(4)
    listed, offsets = np.tile(np.arange(100, 104, dtype=np.uint16), rows), np.arange(0, 4 * rows + 1, 4, dtype=np.int32)
    action, choice, _ = draw(cells, of, listed, offsets, (np.arange(rows) + 0.5) / rows)
    assert (action == 100 + choice).all()
    assert (np.diff(choice) >= 0).all()
    assert np.abs(np.bincount(choice) - rows * probabilities).max() <= 1


@pytest.mark.parametrize("logit", [0.0, -80.0, 1e4, MOST, -MOST, INFINITY, -INFINITY])
def test_only_legal_move_is_certain_whatever_its_logit(logit: float) -> None:
    of = np.full((ACTIONS, 2), NO_CELL, np.uint32)
    of[9, 0] = 0
    for number in (0.0, 0.5, ALMOST_ONE):
        drawn = draw(np.array([[logit]]), of, np.array([9], np.uint16), np.array([0, 1], np.int32), number)
        assert [found.tolist() for found in drawn] == [[9], [0], [0.0]]


@pytest.mark.parametrize(
    "cells", [[-INFINITY, 0, 1], [-INFINITY] * 3, [MOST, -MOST, 0], [INFINITY, 0, 0], [INFINITY] * 3, [200, 0, -200]]
)
@pytest.mark.parametrize("number", [0.0, 0.4, ALMOST_ONE])
def test_what_is_impossible_is_never_drawn(cells: list[float], number: float) -> None:
    of = np.full((ACTIONS, 2), NO_CELL, np.uint32)
    of[:3, 0] = range(3)
    offsets = np.array([0, 3], np.int32)
    _, choice, log_probability = draw(np.array([cells]), of, np.arange(3, dtype=np.uint16), offsets, number)
    bounded = np.clip(np.array(cells), -1e30, 1e30)
    assert log_probability[0] == pytest.approx(log_softmax(bounded)[choice[0]], rel=1e-6)
    assert log_probability[0] > -100


def test_cell_that_is_not_a_number_shows() -> None:
    of = parts(cells=4)
    for place in range(3):
        cells = np.zeros((1, 4))
        cells[0, place] = np.nan
        *_, log_probability = draw(cells, of, np.arange(3, dtype=np.uint16), np.array([0, 3], np.int32), 0.5)
        assert np.isnan(log_probability[0])


def test_each_of_593_moves_has_its_share_of_the_unit_interval() -> None:
    table = Table(593, observation="packed", openings=(MOST_MOVES,), move_limit=1)
    legal = table.observation[0].legal
    listed = np.asarray(legal.actions[: legal.offsets[-1]])
    numbers = (np.arange(593) + 0.5) / 593
    action, choice, log_probability = draw(np.zeros((593, 4)), parts(cells=4), listed, legal.offsets, numbers)
    assert choice.tolist() == list(range(593))
    assert sorted(action.tolist()) == table.legal(0)
    np.testing.assert_allclose(log_probability, -np.log(593), rtol=1e-5)


def test_lane_in_which_nothing_is_legal_spoils_nothing() -> None:
    offsets = np.array([0, 2, 2, 3], np.int32)
    drawn = draw(np.ones((3, 4)), parts(cells=4), np.array([1, 3, 2], np.uint16), offsets, 0.7)
    assert [found.tolist() for found in drawn[:2]] == [[3, 0, 2], [1, 0, 0]]
    assert drawn[2].tolist() == [pytest.approx(np.log(0.5)), 0, 0]


@pytest.mark.parametrize(
    ("listed", "offsets", "wrong"),
    [
        ([1, 2], [0, 3], "legal: expected a C-contiguous uint16 array \\[3\\]"),
        ([1, ACTIONS], [0, 2], "legal: expected actions from 0 to 13526"),
        ([1, 2], [2, 0], "offsets: expected lists of 0 to 593 actions"),
        ([1, 2], [0, 1, 2], "offsets: expected a C-contiguous int32 array \\[2\\]"),
        ([1] * (MOST_LEGAL + 1), [0, MOST_LEGAL + 1], "offsets: expected lists of 0 to 593 actions"),
    ],
)
def test_lists_that_are_none_are_refused(listed: list[int], offsets: list[int], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        draw(np.zeros((1, 4)), parts(cells=4), np.array(listed, np.uint16), np.array(offsets, np.int32), 0.5)


@pytest.mark.parametrize("kind", ["convolutional", "residual"])
def test_network_acts_by_its_cells_as_by_its_logits(kind: str) -> None:
    table = Table(32, seed=3, observation="packed", random_plies=60)
    native = small_policy(kind, game=small_game(block_size=32))
    assert isinstance(native, CellPolicy)
    padded = Policy(native.network, native.encode)
    generator = np.random.default_rng(1)
    differences = 0
    for _ in range(8):
        legal = table.observation[0].legal
        choices = ListedChoices(legal.actions[: legal.offsets[-1]], legal.offsets)
        uniform = generator.random(32, np.float32) * np.float32(ALMOST_ONE)
        one, other = native.act(table.values, choices, uniform), padded.act(table.values, choices, uniform)
        same = one.choice == other.choice  # but where a number lies on the border of two actions
        differences += int(np.count_nonzero(~same))
        assert (one.action[same] == other.action[same]).all()
        assert (one.value == other.value).all()
        np.testing.assert_allclose(one.log_probability[same], other.log_probability[same], rtol=1e-5, atol=1e-5)
        table.play(one.action.tolist())
    assert differences <= 2
