"""Seats that see differently, as one group: rows of packed observations, filled up to the longest.

A run has one rollout for all agents of a block; each agent's own network reads as much of its rows as it understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keisei.environment import Array, Bool, Float32, Observation, Step, UInt8, new_observation
from keisei.errors import ConfigError
from keisei.gridworld.engine import GridworldEnvironment


class TogetherEnvironment:
    """A world of several groups with all its lanes in one."""

    def __init__(self, world: GridworldEnvironment) -> None:
        if any(len(group.shape) != 1 or group.dtype != np.uint8 for group in world.groups):
            raise ConfigError("'environment.observation' must be packed where agents have different windows")
        self.world = world
        self.copies, self.lanes, self.seats = world.copies, world.lanes, world.seats
        self.reasons, self.state_bytes, self.longest_game = world.reasons, world.state_bytes, world.longest_game
        longest = max(group.shape[0] for group in world.groups)
        lanes = np.arange(world.lanes, dtype=np.int32)
        self.groups = (replace(world.groups[0], lanes=lanes, shape=(longest,)),)
        self._seen = new_observation(world)
        self._final = tuple(np.zeros((len(group.lanes), *group.shape), np.uint8) for group in world.groups)

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every world anew, and write what is seen."""
        self.world.reset(self._seen)
        self._show(observation[0])

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what the agents see now."""
        self.world.observe(self._seen)
        self._show(observation[0])

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per lane, then write what came of it and what is seen next."""
        of_groups = [actions[0][group.lanes] for group in self.world.groups]
        self.world.step(of_groups, replace(step, final=self._final), self._seen)
        for group, final in zip(self.world.groups, self._final, strict=True):
            over = step.ended[group.lanes]
            _write(step.final[0], group.lanes[over], final[over])
        self._show(observation[0])

    def tell(self, ended: Bool, out: Float32) -> None:
        """Write the figures of the episodes that have just ended."""
        self.world.tell(ended, out)

    def save_state(self, out: UInt8) -> None:
        """Write the worlds' states."""
        self.world.save_state(out)

    def load_state(self, saved: UInt8) -> None:
        """Go back to saved states."""
        self.world.load_state(saved)

    def close(self) -> None:
        """Give back the threads; may be called twice."""
        self.world.close()

    def _show(self, out: Observation) -> None:
        for group, seen in zip(self.world.groups, self._seen, strict=True):
            _write(out.values, group.lanes, seen.values)
            out.legal.actions[group.lanes] = seen.legal.actions
            out.seat[group.lanes] = seen.seat


def _write(out: Array, lanes: Array, rows: Array) -> None:
    """Write rows to the front of those of some lanes, and nothing behind them."""
    out[lanes, : rows.shape[1]] = rows
    out[lanes, rows.shape[1] :] = 0
