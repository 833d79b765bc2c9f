"""A single world that is played again with the actions of another, to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from keisei.environment import PASS, Array, Environment, UInt8, new_observation, new_step
from keisei.gridworld.engine import GridworldEnvironment
from keisei.gridworld.render import Scene, cell_colours, scene

P = TypeVar("P")


class FollowedWorld(Generic[P]):
    """One copy of a run's world; `show` makes something of its small picture and a line about it."""

    def __init__(self, environment: Environment, world: GridworldEnvironment, show: Callable[[UInt8, str], P]) -> None:
        """`environment` is the world as its agents know it: the world itself, or what it is inside of."""
        self.lanes = environment.lanes
        self._environment, self._world, self._show = environment, world, show
        self._seen, self._step = new_observation(environment), new_step(environment)
        environment.reset(self._seen)

    def load(self, state: UInt8) -> None:
        """Go on from a saved state."""
        self._environment.load_state(np.ascontiguousarray(state)[None])
        self._environment.observe(self._seen)

    def play(self, actions: Array) -> P:
        """Play an action per lane; gives how it looks before."""
        seen = scene(self._world.worlds.now[0])
        deciding = self._seen[0].seat >= 0
        self._environment.step([np.where(deciding, actions, PASS)], self._step, self._seen)
        return self._show(cell_colours(self._world.file, seen), _about(seen))


def _about(seen: Scene) -> str:
    returns = " ".join(f"{earned:g}" for earned in seen.returns.tolist()[:12])
    return f"turn {seen.turn}/{seen.max_turns} · {returns}"
