"""Tic-tac-toe behind the environment contract, in plain NumPy: small, complete, and fit to be broken on purpose.

The first three in a row of nine squares wins. A random opening and a move limit give it chance and cut-offs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from keisei.environment import (
    PASS,
    Array,
    Bool,
    Group,
    Int8,
    Int64,
    LegalForm,
    Observation,
    Step,
    UInt8,
)
from keisei.errors import ActionError, StateError

ROWS = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
STATE_BYTES = 24  # 9 squares, turn, plies, 1 unused, 4 games played, 4 unused, 4 checksum


class TicTacToe:
    """Many games of tic-tac-toe; the side to move sees its own stones in plane 0 and the other's in plane 1."""

    def __init__(
        self,
        copies: int = 4,
        seed: int = 0,
        *,
        legal: LegalForm = "list",
        dtype: type[np.generic] = np.uint8,
        random_plies: int = 0,
        move_limit: int = 9,
        first_lane: int = 0,
    ) -> None:
        self.copies = self.lanes = copies
        self.seats: tuple[str, ...] = ("cross", "nought")
        self.reasons: tuple[str, ...] = ("going on", "three", "full", "move limit")
        lanes = np.arange(copies, dtype=np.int32)
        self.groups: tuple[Group, ...] = (Group(lanes, (2, 3, 3), np.dtype(dtype), 9, legal, 9),)
        self.state_bytes = STATE_BYTES
        self.seed, self.first_lane = seed, first_lane
        self.random_plies, self.move_limit = random_plies, move_limit
        self.closed = 0
        self._restart_all()

    def _restart_all(self) -> None:
        self.board: Int8 = np.zeros((self.copies, 9), np.int8)  # 0 empty, 1 cross, 2 nought
        self.turn: Int8 = np.zeros(self.copies, np.int8)
        self.plies: Int64 = np.zeros(self.copies, np.int64)
        self.games: Int64 = np.zeros(self.copies, np.int64)
        for lane in range(self.copies):
            self._restart(lane)

    def _restart(self, lane: int) -> None:
        counter = [0, 0, 0, int(self.games[lane])]
        key = self.seed + (self.first_lane + lane << 64)
        generator = np.random.Generator(np.random.Philox(key=key, counter=counter))
        self.board[lane], self.turn[lane], self.plies[lane] = 0, 0, 0
        self.games[lane] += 1
        for square in generator.permutation(9)[: self.random_plies]:
            self._play(lane, int(square))

    def _play(self, lane: int, square: int) -> None:
        self.board[lane, square] = self.turn[lane] + 1
        self.turn[lane] ^= 1
        self.plies[lane] += 1

    def _views(self) -> Int8:
        own = self.board == self.turn[:, None] + 1
        other = self.board == 2 - self.turn[:, None]
        return np.stack([own, other], axis=1).reshape(-1, 2, 3, 3).astype(np.int8)

    def reset(self, observation: Sequence[Observation]) -> None:
        self._restart_all()
        self.observe(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        (seen,) = observation
        seen.values[:] = self._views()
        seen.seat[:] = self.turn
        mask = self.board == 0
        if self.groups[0].legal == "list":
            actions = np.nonzero(mask)[1]
            seen.legal.actions[: len(actions)] = actions
            seen.legal.offsets[:] = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        else:
            bits = self.groups[0].legal == "bits"
            seen.legal.actions[:] = np.packbits(mask, axis=1, bitorder="little") if bits else mask

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        squares, plays = self._checked(actions)
        step.reward[:], step.discount[:] = 0, np.where(plays, -1, 1)
        step.ended[:], step.cut_off[:] = False, False
        step.reason[:], step.length[:] = 0, 0
        for lane in np.flatnonzero(plays):
            self._play(int(lane), int(squares[lane]))
        reason = np.where(plays, self._reasons(), 0)
        step.reason[:] = reason
        step.ended[:] = reason > 0
        step.cut_off[:] = reason == 3
        step.reward[reason == 1] = 1
        step.discount[(reason == 1) | (reason == 2)] = 0
        step.length[reason > 0] = self.plies[reason > 0]
        step.final[0][reason > 0] = self._views()[reason > 0]
        for lane in np.flatnonzero(reason):
            self._restart(int(lane))
        self.observe(observation)

    def _reasons(self) -> Int64:
        mover = 2 - self.turn[:, None, None]
        three = (self.board[:, ROWS] == mover).all(axis=2).any(axis=1)
        full = (self.board != 0).all(axis=1)
        return np.select([three, full, self.plies >= self.move_limit], [1, 2, 3], 0)

    def _checked(self, actions: Sequence[Array]) -> tuple[Int64, Bool]:
        """The squares to play, and the lanes that do."""
        if len(actions) != 1 or actions[0].shape != (self.lanes,) or actions[0].dtype.kind not in "iu":
            raise ActionError(f"expected one array of {self.lanes} integers")
        squares = actions[0].astype(np.int64)
        plays = squares != PASS
        wrong = plays & ((squares < 0) | (squares > 8))
        wrong |= plays & (self.board[np.arange(self.lanes), np.clip(squares, 0, 8)] != 0)
        if wrong.any():
            lane = int(wrong.argmax())
            raise ActionError(f"illegal action {squares[lane]} in lane {lane}")
        return squares, plays

    def save_state(self, out: UInt8) -> None:
        out[:] = 0
        out[:, :9], out[:, 9], out[:, 10] = self.board, self.turn, self.plies
        out[:, 12:16] = self.games.astype("<u4").view(np.uint8).reshape(-1, 4)
        for row in out:
            row[20:] = _checksum(row[:20])

    def load_state(self, saved: UInt8) -> None:
        if saved.shape != (self.copies, STATE_BYTES) or saved.dtype != np.uint8:
            raise StateError(f"expected a state of {self.copies} copies, {STATE_BYTES} bytes each")
        if not all((row[20:] == _checksum(row[:20])).all() for row in saved):
            raise StateError("a saved state is damaged")
        self.board[:], self.turn[:], self.plies[:] = saved[:, :9], saved[:, 9], saved[:, 10]
        self.games[:] = np.ascontiguousarray(saved[:, 12:16]).view("<u4")[:, 0]

    def close(self) -> None:
        self.closed += 1


def _checksum(row: UInt8) -> UInt8:
    return np.array([zlib.crc32(row.tobytes())], "<u4").view(np.uint8)
