"""A greedy planner for treasure hunt: what somebody makes of a window who needs not learn.

It goes to the item that pays most per step of the way, around walls, bones and others as far as one step looks ahead;
where it sees none, it walks on as it did, and turns where it cannot.
"""

from __future__ import annotations

import numpy as np

from keisei.environment import Array, Bool, Float32, Float64, Int64
from keisei.gridworld import Encoding
from keisei.policy import LegalChoices

PAYS = {"gem": 10.0, "food": 5.0}
IN_THE_WAY = ("wall", "agent", "bone")

_STEPS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
"""Up, right, down, left: how an action changes row and column."""


class GreedyPlanner:
    """Plans in the newest frame of packed windows."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        paying, blocking = ([encoding.names.index(name) + 1 for name in names] for names in (PAYS, IN_THE_WAY))
        self._worth: Float64 = np.zeros(256)
        self._worth[paying] = list(PAYS.values())
        self._blocked: Bool = np.isin(np.arange(256), blocking)
        self._heading: Int64 = np.zeros(0, np.int64)  # of each lane, its last action
        middle = encoding.size // 2
        rows, columns = np.mgrid[: encoding.size, : encoding.size] - middle
        self._away = np.stack([rows.ravel(), columns.ravel()], 1)
        self._distance = np.maximum(1, np.abs(self._away).sum(1))

    def __call__(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Int64:
        """One action per lane."""
        if len(self._heading) != len(seen):
            self._heading = np.arange(len(seen)) % 4
        how = self._encoding
        end = how.frames * how.layers * how.size**2
        window = seen[:, end - how.size**2 : end].astype(np.int64)  # the newest frame
        gain = self._worth[window] / self._distance
        target = gain.argmax(1)
        away = self._away[target]
        nearer = np.einsum("ld,ad->la", np.sign(away) * (np.abs(away) + 10), _STEPS).astype(np.float64)
        nearer[gain.max(1) == 0] = 0
        nearer[np.arange(len(seen)), self._heading] += 0.5  # on, where nothing calls
        nearer[np.arange(len(seen)), (self._heading + 1) % 4] += 0.25 + 0.2 * (uniform < 0.5)
        nearer[np.arange(len(seen)), (self._heading + 3) % 4] += 0.35
        middle = how.size // 2
        beside = (middle + _STEPS[:, 0]) * how.size + middle + _STEPS[:, 1]
        nearer[self._blocked[window[:, beside]]] -= 1000
        self._heading = nearer.argmax(1)
        return self._heading
