"""Playing one block of a run: a pure function of its state, the weights, the run's seed and the iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keisei.collect.collector import BuildEnvironment
from keisei.collect.loop import Beat, Frozen, action_noise, play, silent
from keisei.environment import Environment, Int64, UInt8
from keisei.errors import StateError
from keisei.policy import Policy
from keisei.rollout import Rollout
from keisei.threads import torch_threads

ChooseFrozen = Callable[[int, int], Frozen | None]
"""From block and iteration to the frozen opponent that plays along, if any."""


def nobody(block: int, iteration: int) -> Frozen | None:
    """No frozen opponent."""
    return None


@dataclass(frozen=True)
class BlockRules:
    """What playing blocks needs beside weights and states. It can be pickled."""

    build_environment: BuildEnvironment
    build_policy: Callable[[], Policy]
    build_frozen: Callable[[], ChooseFrozen]
    steps: int
    seed: int


class BlockPlayer:
    """Plays whichever block it is given. Environments without saved states are kept, one for each block it met."""

    def __init__(
        self, build_environment: BuildEnvironment, policy: Policy, choose_frozen: ChooseFrozen, steps: int, seed: int
    ) -> None:
        self.policy = policy
        self._build_environment = build_environment
        self._choose_frozen = choose_frozen
        self._steps = steps
        self._seed = seed
        self._first = build_environment(0)
        self._kept: dict[int, Environment] = {0: self._first}

    @classmethod
    def of(cls, rules: BlockRules) -> BlockPlayer:
        """A player by rules."""
        return cls(rules.build_environment, rules.build_policy(), rules.build_frozen(), rules.steps, rules.seed)

    @property
    def environment(self) -> Environment:
        """The environment of a block."""
        return self._first

    def first_state(self, block: int) -> UInt8:
        """The state in which a block begins, `[copies, state_bytes]`."""
        state = np.zeros((self._first.copies, self._first.state_bytes), np.uint8)
        if state.size:
            environment = self._build_environment(block * self._first.lanes)
            environment.save_state(state)
            environment.close()
        return state

    def play(self, block: int, iteration: int, start: UInt8, end: UInt8, rollout: Rollout, beat: Beat = silent) -> None:
        """Play a block on from `start`; fills `end` and the block's share of the rollout. Calls `beat` at each step."""
        environment = self._at(block, start)
        noise = action_noise(self._seed, self._lanes(block), iteration, self._steps)
        with torch_threads(1):
            play(environment, self.policy, self._choose_frozen(block, iteration), rollout, noise, beat)
        if end.size:
            environment.save_state(end)

    def _at(self, block: int, start: UInt8) -> Environment:
        if start.size:
            self._first.load_state(start)
            return self._first
        if block not in self._kept:
            self._kept[block] = self._build_environment(block * self._first.lanes)
        return self._kept[block]

    def _lanes(self, block: int) -> Int64:
        lanes = self._first.lanes
        return np.arange(block * lanes, (block + 1) * lanes)

    def close(self) -> None:
        """Give the environments back; may be called twice."""
        for environment in self._kept.values():
            environment.close()


def check_states(expected: UInt8, saved: UInt8) -> None:
    """Raise StateError where saved states are not of the same blocks."""
    if saved.shape != expected.shape or saved.dtype != expected.dtype:
        raise StateError(f"expected block states {list(expected.shape)}, found {saved.dtype} {list(saved.shape)}")
