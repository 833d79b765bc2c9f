"""A relay of three agents behind the environment contract: what a society of agents asks of it, and no more.

They take turns; each adds to a number that starts at random. Who makes it ten wins for all; twelve turns cut it off.
The first two see and act alike (a mask of two actions), the third differently (a list of three): two groups of lanes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from keisei.environment import NO_SEAT, PASS, Array, Group, Int64, LegalForm, Observation, Step, UInt8
from keisei.errors import ActionError, StateError

AGENTS, GOAL, TURNS, STATE_BYTES = 3, 10, 12, 8


def _group(lanes: Array, shape: tuple[int, ...], dtype: type[np.generic], actions: int, legal: LegalForm) -> Group:
    return Group(lanes.astype(np.int32), shape, np.dtype(dtype), actions, legal, actions)


class Relay:
    """Worlds of three lanes each; the lanes whose turn it is not have no seat to decide for."""

    def __init__(self, copies: int = 3, seed: int = 0) -> None:
        self.copies, self.lanes, self.seed = copies, AGENTS * copies, seed
        self.seats = ("first", "second", "third")
        self.reasons = ("going on", "goal", "time")
        self.state_bytes = STATE_BYTES
        lanes = np.arange(self.lanes).reshape(copies, AGENTS)
        self.groups = (
            _group(lanes[:, :2].ravel(), (2,), np.float32, 2, "mask"),
            _group(lanes[:, 2], (1, 3), np.uint8, 3, "list"),
        )
        self.worlds: Int64 = np.zeros((copies, 3), np.int64)  # number, turns, games
        self._restart(np.arange(copies), from_the_first=True)

    def _restart(self, copies: Int64, *, from_the_first: bool = False) -> None:
        for copy in copies:
            games = 0 if from_the_first else int(self.worlds[copy, 2]) + 1
            start = np.random.Generator(np.random.Philox(key=self.seed, counter=[copy, games, 0, 0])).integers(5)
            self.worlds[copy] = start, 0, games

    def reset(self, observation: Sequence[Observation]) -> None:
        self._restart(np.arange(self.copies), from_the_first=True)
        self.observe(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        pair, single = observation
        number, turns, _ = self.worlds.T
        turn = turns % AGENTS
        self._show(pair.values, single.values)
        decides = turn[:, None] == np.arange(AGENTS)
        pair.seat[:] = np.where(decides[:, :2], [0, 1], NO_SEAT).ravel()
        single.seat[:] = np.where(decides[:, 2], 2, NO_SEAT)
        pair.legal.actions[:] = decides[:, :2].reshape(-1, 1)
        single.legal.offsets[:] = np.concatenate([[0], np.cumsum(3 * decides[:, 2])])
        single.legal.actions[: single.legal.offsets[-1]] = np.tile([2, 0, 1], decides[:, 2].sum())
        assert (number < GOAL).all()

    def _show(self, pair: Array, single: Array) -> None:
        number, turns, _ = self.worlds.T
        pair[:] = np.repeat(np.stack([number / GOAL, turns / TURNS], axis=1), 2, axis=0)
        single[:] = np.stack([number, turns, number + turns], axis=1)[:, None]

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        added = self._checked(actions)
        moves = added != PASS
        self.worlds[:, 0] += np.where(moves, added, 0)
        self.worlds[:, 1] += moves
        won = self.worlds[:, 0] >= GOAL
        over = won | (self.worlds[:, 1] == TURNS)
        step.reward[:] = np.repeat(won, AGENTS)
        step.discount[:] = np.repeat(~won, AGENTS)
        step.ended[:], step.cut_off[:] = np.repeat(over, AGENTS), np.repeat(over & ~won, AGENTS)
        step.reason[:] = np.repeat(np.where(won, 1, 2) * over, AGENTS)
        step.length[:] = np.repeat(self.worlds[:, 1] * over, AGENTS)
        pair, single = (np.zeros_like(final) for final in step.final)
        self._show(pair, single)
        step.final[0][np.repeat(over, 2)], step.final[1][over] = pair[np.repeat(over, 2)], single[over]
        self._restart(np.flatnonzero(over))
        self.observe(observation)

    def _checked(self, actions: Sequence[Array]) -> Int64:
        """What each world's agent on turn adds [copies], or PASS."""
        for group, array in zip(self.groups, actions, strict=False):
            if array.shape != group.lanes.shape or array.dtype.kind not in "iu":
                raise ActionError(f"expected {len(group.lanes)} integers, found {array.dtype} {list(array.shape)}")
        if len(actions) != len(self.groups):
            raise ActionError(f"expected {len(self.groups)} arrays, found {len(actions)}")
        chosen = np.concatenate([actions[0].reshape(-1, 2), actions[1][:, None]], axis=1).astype(np.int64)
        turn = self.worlds[:, 1] % AGENTS
        added = chosen[np.arange(self.copies), turn]
        wrong = (added < PASS) | (added >= np.where(turn == 2, 3, 2))
        if wrong.any():
            raise ActionError(f"illegal action {added[wrong.argmax()]} in copy {wrong.argmax()}")
        return added

    def save_state(self, out: UInt8) -> None:
        out[:, :4] = np.concatenate([self.worlds[:, :2], self.worlds[:, 2:] % 256, self.worlds[:, 2:] // 256], axis=1)
        for row in out:
            row[4:] = np.array([zlib.crc32(row[:4].tobytes())], "<u4").view(np.uint8)

    def load_state(self, saved: UInt8) -> None:
        if saved.shape != (self.copies, STATE_BYTES) or saved.dtype != np.uint8:
            raise StateError(f"expected {self.copies} states of {STATE_BYTES} bytes")
        if any(zlib.crc32(row[:4].tobytes()) != row[4:].view("<u4")[0] for row in saved.copy()):
            raise StateError("a saved state is damaged")
        self.worlds[:, :2] = saved[:, :2]
        self.worlds[:, 2] = saved[:, 2] + 256 * saved[:, 3].astype(np.int64)

    def close(self) -> None:
        """Nothing is held."""
