"""The planner for tag: it goes where somebody will be when it is It, and where It will not be when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from keisei.bench.tag_planner import TagPlanner, around, ends
from keisei.environment import Float32, UInt8
from keisei.gridworld import GridworldEnvironment
from keisei.policy import LegalChoices, choices_of_mask

UP, RIGHT, DOWN, LEFT = range(4)
KINDS = ".#ai"


def planned(*rows: str, uniform: float = 0.0) -> int:
    """What the planner does in one window, drawn without its empty margin."""
    encoding = GridworldEnvironment("tag", observation="packed", debug=True).encodings[0]
    window: UInt8 = np.zeros((9, 9), np.uint8)
    first = 4 - len(rows) // 2
    window[first : first + len(rows), first : first + len(rows)] = [[KINDS.index(cell) for cell in row] for row in rows]
    seen: UInt8 = np.zeros((1, encoding.packed_bytes), np.uint8)
    seen[0, :81] = window.ravel()
    legal: LegalChoices = choices_of_mask(np.ones((1, 4), np.bool_))
    drawn: Float32 = np.full(1, uniform, np.float32)
    return int(TagPlanner(encoding)(seen, legal, drawn)[0])


@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.6, 0.9])
def test_it_goes_to_the_nearest(uniform: float) -> None:
    empty = (".......",) * 3
    assert planned(*empty, "a..i.a.", *empty, uniform=uniform) == RIGHT
    assert planned(*empty, "a..i...", *empty, uniform=uniform) == LEFT


@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.6, 0.9])
def test_others_go_away_from_it(uniform: float) -> None:
    assert planned(".....", ".....", "..ai.", ".....", ".....", uniform=uniform) == LEFT
    assert planned(".....", ".###.", ".#ai.", ".#.#.", ".....", uniform=uniform) == DOWN


def test_where_nobody_is_in_sight_any_way_is_as_good() -> None:
    rows = (".....", ".....", "..a..", ".....", ".....")
    assert [planned(*rows, uniform=uniform) for uniform in (0.0, 0.3, 0.6, 0.9)] == [UP, RIGHT, DOWN, LEFT]


def test_who_cannot_go_on_stays() -> None:
    others, free = np.zeros((5, 5), np.bool_), np.ones((5, 5), np.bool_)
    others[2, 2], free[2, 3], free[2, 1] = True, False, False
    chance = ends(others, free)
    assert chance[[2, 1, 3], 2].tolist() == [0.5, 0.25, 0.25]
    assert chance.sum() == 1
    assert around(chance, 2, 3) == 0.5
    assert around(chance, 1, 2) == 0.75  # who wants to come here stays beside
