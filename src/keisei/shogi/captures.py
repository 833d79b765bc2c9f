"""What the legal moves of many games take, read from what a network sees: all that a greedy opponent knows of Shogi."""

from __future__ import annotations

import numpy as np

from keisei.environment import Array, Int64
from keisei.shogi.actions import PACKED_BYTES

_SQUARES = 81
_BOARD_ACTIONS = _SQUARES * 80 * 2

PIECE_VALUES = np.array([1, 3, 3, 5, 6, 8, 10, 0, 7, 6, 6, 6, 12, 13], np.int64)
"""P L N S G B R K, then +P +L +N +S +B +R: in the order of the planes. A king is never taken."""

_BY_CODE = np.zeros(256, np.int64)
_BY_CODE[15:29] = PIECE_VALUES


def capture_values(seen: Array, rows: Int64, actions: Int64) -> Int64:
    """The worth of what each action takes, 0 for a drop or a quiet move `[n]`.

    `seen` is what `G` sides to move see: `[G, 46, 9, 9]` planes of either dtype, or `[G, 99]` packed positions.
    `actions[i]` is a legal action in `seen[rows[i]]`.
    """
    return _worth_by_square(seen)[rows, destinations(actions)]


def destinations(actions: Int64) -> Int64:
    """The square where each action ends `[n]`: `9·row + column` as the mover sees the board."""
    origin, target = actions // 160, actions % 160 // 2
    return np.where(actions < _BOARD_ACTIONS, target + (target >= origin), (actions - _BOARD_ACTIONS) // 7)


def _worth_by_square(seen: Array) -> Int64:
    """What it is worth to take what stands on each square `[G, 81]`."""
    if seen.shape[1:] == (PACKED_BYTES,):
        return _BY_CODE[seen[:, :_SQUARES].astype(np.intp)]
    theirs = seen[:, 14:28].reshape(len(seen), 14, _SQUARES)
    worth: Int64 = np.einsum("gks,k->gs", theirs != 0, PIECE_VALUES)
    return worth
