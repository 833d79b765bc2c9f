"""A world for several agents, behind the environment contract: each is shown a number and is paid for saying it.

Whoever says it gains 1, and every other agent of its world loses a little. An episode is cut off after a few turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keisei.environment import PASS, Array, Group, Int64, Observation, Step, UInt8
from keisei.opponents import uniform_words

NUMBERS, TURNS = 3, 5


class EchoWorld:
    """Lane `world · agents + seat` belongs to that agent of that world."""

    def __init__(self, copies: int, agents: int, seed: int = 0, first_lane: int = 0) -> None:
        self.copies, self.agents, self.lanes = copies, agents, copies * agents
        self.seats = tuple(f"agent {seat}" for seat in range(agents))
        self.reasons = ("going on", "end of time")
        lanes = np.arange(self.lanes, dtype=np.int32)
        self.groups = (Group(lanes, (NUMBERS,), np.dtype(np.uint8), NUMBERS, "mask", NUMBERS),)
        self.state_bytes = 8
        self._seed, self._first = seed, first_lane
        self.turn: Int64 = np.zeros(copies, np.int64)

    def _shown(self) -> Int64:
        lanes = np.arange(self.lanes) + self._first
        words = uniform_words(self._seed, lanes, np.repeat(self.turn, self.agents), 0, 0x6563686F)
        return (words % np.uint64(NUMBERS)).astype(np.int64)

    def reset(self, observation: Sequence[Observation]) -> None:
        self.turn[:] = 0
        self.observe(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        observation[0].values[...] = self._seen()
        observation[0].legal.actions[...] = 1
        observation[0].seat[...] = np.tile(np.arange(self.agents), self.copies)

    def _seen(self) -> UInt8:
        return np.eye(NUMBERS, dtype=np.uint8)[self._shown()]

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        plays = (actions[0] != PASS).reshape(self.copies, self.agents).any(1)
        right = (actions[0] == self._shown()).reshape(self.copies, self.agents)
        others = right.sum(1, keepdims=True) - right
        step.reward[...] = (right - 0.1 * others).ravel()
        self.turn += plays
        over = np.repeat(plays & (self.turn % TURNS == 0), self.agents)
        step.discount[...], step.ended[...], step.cut_off[...] = 1, over, over
        step.reason[...], step.length[...] = over, np.where(over, TURNS, 0)
        step.final[0][over] = self._seen()[over]
        self.observe(observation)

    def save_state(self, out: UInt8) -> None:
        out[...] = self.turn.view(np.uint8).reshape(self.copies, 8)

    def load_state(self, saved: UInt8) -> None:
        self.turn[...] = saved.reshape(-1).view(np.int64)

    def close(self) -> None:
        pass
