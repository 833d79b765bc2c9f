"""The numbers of the action space and the forms of the observation, from the perspective of the side to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from keisei.environment import Array, Float32, Int32, Int64, UInt8, UInt32
from keisei.errors import ConfigError
from keisei.shogi import _native
from keisei.shogi.arguments import checked_text

Turn = Literal["black", "white"]

ACTIONS = _native.ACTIONS
_BOARD_ACTIONS = 81 * 80 * 2
MOST_LEGAL = _native.MOST_LEGAL
PLANES = _native.PLANES
PACKED_BYTES = _native.PACKED_BYTES
SCALE: Float32 = np.array(_native.scale(), np.float32)
"""What one count is worth in each float plane: `float32 == uint8 * SCALE[:, None, None]`."""


def action_to_usi(action: int, turn: Turn) -> str:
    """The move, in USI, that the number means when `turn` is to move."""
    return _native.action_to_usi(action, _is_white(turn))


def usi_to_action(usi: str, turn: Turn) -> int:
    """The number of a move, given in USI, when `turn` is to move."""
    return _native.usi_to_action(checked_text(usi), _is_white(turn))


def _is_white(turn: str) -> bool:
    if turn not in ("black", "white"):
        raise ConfigError(f"turn: expected 'black' or 'white', found {turn!r}")
    return turn == "white"


def expand(packed: UInt8, move_limit: int, dtype: npt.DTypeLike = np.uint8) -> Array:
    """The planes `[N, 46, 9, 9]`, uint8 or float32, of packed positions `[N, 99]`."""
    planes: Array = np.empty((len(packed), PLANES, 9, 9), dtype)
    _native.expand(packed, move_limit, planes)
    return planes


def write_planes(packed: UInt8, planes: Float32, *, move_limit: int) -> None:
    """Fill `planes [N, 9, 9, 46]` from packed positions `[N, 99]`: the form that a convolution on a CPU likes best."""
    _native.expand_channels_last(packed, move_limit, planes)


def draw_actions(
    cells: Float32, parts: UInt32, legal: Array, offsets: Int32, uniform: Float32, temperature: float
) -> tuple[Int64, Int64, Float32]:
    """One legal action per lane, its place in the lane's list, and its log-probability, `[B]` each.

    An action's logit is the sum of the cells `[B, C]` that its `parts [13527, 2]` name; numbers from C on name none.
    Lists lie one behind the other: `offsets [B + 1]` says where, `uniform [B]` in [0, 1) decides.
    """
    lanes = len(cells)
    action, choice, log_probability = np.empty(lanes, np.int64), np.empty(lanes, np.int64), np.empty(lanes, np.float32)
    _native.draw(cells, parts, legal, offsets, uniform, temperature, action, choice, log_probability)
    return action, choice, log_probability


@dataclass(frozen=True)
class FullPlanes:
    """How the planes behind those of the pieces are counted: each holds one number throughout.

    `min(most, multiplied · (low + 256 · high) // divided)`, times SCALE; of `low` only the masked bits, as 0 or 1.
    """

    low: Int64  # which byte
    high: Int64  # which byte, or -1
    mask: Int64  # 255: the whole byte
    multiplied: Int64
    divided: Int64
    most: Int64


PIECE_PLANES = 28


def full_planes(move_limit: int) -> FullPlanes:
    """The hands, the side to move, plies, occurrences and check, as a table over the packed bytes."""
    full = PLANES - PIECE_PLANES
    low: Int64 = np.array([*range(81, 95), 95, 97, 96, 95], np.int64)
    high, mask = np.full(full, -1, np.int64), np.full(full, 255, np.int64)
    high[15] = 98
    mask[[14, 17]] = 1, 2
    multiplied, divided = np.ones(full, np.int64), np.ones(full, np.int64)
    multiplied[15], divided[15] = 255, move_limit
    return FullPlanes(low, high, mask, multiplied, divided, np.full(full, 255, np.int64))


POLICY_PLANES = 47
"""Planes of a convolutional policy head: what arrives (20), what departs (20), what is dropped (7)."""

_DIRECTIONS = {
    **{
        (row, column): number
        for number, (row, column) in enumerate(
            (row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)
        )
    },
    (-2, -1): 8,
    (-2, 1): 9,
}


def policy_parts() -> Int64:
    """Which cells of the policy planes make up each action's logit: `[13527, 2]`, `81 · plane + square`; -1: none.

    A move is an arrival on one square from a direction, and a departure from another in that direction. No two legal
    moves of a position share both, and what is learnt of a move on one square holds on all.
    """
    parts: Int64 = np.full((ACTIONS, 2), -1, np.int64)
    for action in range(_BOARD_ACTIONS):
        start, skipped, promotes = action // 160, action % 160 // 2, action % 2
        target = skipped + (skipped >= start)
        direction = _direction(target // 9 - start // 9, target % 9 - start % 9)
        if direction is not None:
            plane = 2 * direction + promotes
            parts[action] = 81 * plane + target, 81 * (20 + plane) + start
    for drop in range(ACTIONS - _BOARD_ACTIONS):
        parts[_BOARD_ACTIONS + drop, 0] = 81 * (40 + drop % 7) + drop // 7
    return parts


def _direction(rows: int, columns: int) -> int | None:
    """The number of a direction in which pieces move; None for leaps that no piece makes."""
    if (rows, columns) in _DIRECTIONS:
        return _DIRECTIONS[rows, columns]
    if rows and columns and abs(rows) != abs(columns):
        return None
    return _DIRECTIONS[(rows > 0) - (rows < 0), (columns > 0) - (columns < 0)]
