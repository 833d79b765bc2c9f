"""A planner for tag: what somebody makes of a window who needs not learn.

It looks one turn ahead, and expects everybody else to move at random: as It it goes where somebody most likely ends
beside it, otherwise where It least likely does. Among equals it goes nearer to the nearest, or farther from It.
"""

from __future__ import annotations

import numpy as np

from keisei.environment import Array, Bool, Float32, Float64, Int64
from keisei.gridworld import Encoding
from keisei.policy import LegalChoices

_STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down, left: how an action changes row and column."""

_NEARER = 1e-3
"""What a step nearer counts beside the chance of a catch."""


class TagPlanner:
    """Plans in packed windows of one frame; it keeps nothing, and may run after one that cannot be caught just now."""

    def __init__(self, encoding: Encoding) -> None:
        self._size = encoding.size
        self._agent, self._it = (encoding.names.index(name) + 1 for name in ("agent", "it"))

    def __call__(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Int64:
        """One action per lane; `uniform` says which of several that are as good."""
        size = self._size
        windows = seen[:, : size**2].reshape(-1, size, size)
        return np.array([self._planned(*both) for both in zip(windows, uniform, strict=True)], np.int64)

    def _planned(self, window: Array, uniform: float) -> int:
        middle = self._size // 2
        is_it = window[middle, middle] == self._it
        others: Bool = window == (self._agent if is_it else self._it)
        others[middle, middle] = False
        if not others.any():
            return int(4 * uniform)
        free = window == 0
        free[middle, middle] = True  # it goes away, and if it does not, who bumps into it ends beside it
        soon, there = ends(others, free), np.argwhere(others)
        wanted = np.zeros(4)
        for action, (down, right) in enumerate(_STEPS):
            row, column = (middle + down, middle + right) if free[middle + down, middle + right] else (middle, middle)
            distance = np.abs(there - (row, column)).sum(1).min()
            wanted[action] = around(soon, row, column) - _NEARER * distance
        order = np.roll(np.arange(4), int(4 * uniform))
        return int(order[(wanted if is_it else -wanted)[order].argmax()])


def ends(others: Bool, free: Bool) -> Float64:
    """How many of the others end in each cell `[size, size]`, on average, if all move at random from where they are."""
    chance = np.zeros(others.shape)
    for row, column in np.argwhere(others):
        for down, right in _STEPS:
            to = row + down, column + right
            if not all(0 <= at < len(others) for at in to):
                continue  # out of sight
            chance[to if free[to] else (row, column)] += 1 / len(_STEPS)
    return chance


def around(chance: Float64, row: int, column: int) -> float:
    """How many of them end beside a cell; who would end in it finds it taken, and stays beside it."""
    return float(chance[row, column] + sum(chance[row + down, column + right] for down, right in _STEPS))
