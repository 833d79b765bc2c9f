"""Worlds of a few lines, written to a file and read from there; and random play in gridworlds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keisei.environment import NO_SEAT, Array, Int64, Observation, Step, UInt8, new_observation, new_state, new_step
from keisei.gridworld import GridworldEnvironment

HEAD = '''"""A small world."""

import numpy as np

from keisei.gridworld.chance import below
from keisei.gridworld.moves import (
    end_episode, finish, freeze, lift, look_like, move_to, pay, put, stand, walk, wall_around,
)
from keisei.gridworld.place import Place, array, number, variable
from keisei.gridworld.view import View
from keisei.gridworld.world import Kind, Sense, World


class Small(Place):
    height: int = number(5, "rows", least=3, most=9)
    width: int = number(6, "columns", least=3, most=9)
    agents: int = number(2, "agents", least=1, most=9)
    max_turns: int = number(10, "turns", least=1, most=99)
    level: float = number(0.5, "any number")

    count: int = variable(int)
    seen: np.ndarray = array(np.int32, "agents", 2)


def lay_out(place):
    wall_around(place, 1)


def act(place, agent, action):
    walk(place, agent, action)

'''
TAIL = """

KINDS = (Kind("nothing", (0, 0, 0)), Kind("wall", (9, 9, 9), blocks=True), Kind("agent", (0, 0, 9), blocks=True))
"""


def write_world(folder: Path, code: str = "", world: str = "", name: str = "small") -> Path:
    """A world's file: functions in `code` take the place of the ones before, `world` is more arguments of `World`."""
    path = folder / f"{name}.py"
    more = f", {world}" if world else ""
    made = f'WORLD = World(place=Small, kinds=KINDS, agent="agent", lay_out=lay_out, act=act{more})\n'
    path.write_text(HEAD + code + TAIL + made)
    return path


class Player:
    """Plays an environment and keeps what it writes."""

    def __init__(self, environment: GridworldEnvironment) -> None:
        self.environment = environment
        self.seen: list[Observation] = list(new_observation(environment))
        self.outcome: Step = new_step(environment)
        environment.reset(self.seen)

    def play(self, actions: Sequence[int] | Int64) -> Step:
        """One action for each lane."""
        every = np.asarray(actions, np.int64)
        chosen = [every[group.lanes] for group in self.environment.groups]
        self.environment.step(chosen, self.outcome, self.seen)
        return self.outcome

    def play_all(self, action: int = 0) -> Step:
        """The same action in each lane."""
        return self.play([action] * self.environment.lanes)

    @property
    def deciding(self) -> list[int]:
        """The lanes in which somebody decides."""
        pairs = zip(self.environment.groups, self.seen, strict=True)
        found = [group.lanes[seen.seat != NO_SEAT] for group, seen in pairs]
        return sorted(int(lane) for lanes in found for lane in lanes)

    @property
    def state(self) -> UInt8:
        """The worlds' states."""
        state = new_state(self.environment)
        self.environment.save_state(state)
        return state

    def written(self) -> list[Array]:
        """Everything that the last step wrote, by lanes, and the states by copies."""
        step, arrays = self.outcome, list[Array]([self.state])
        arrays += [step.reward, step.discount, step.ended, step.cut_off, step.reason, step.length]
        for seen, final in zip(self.seen, step.final, strict=True):
            arrays += [seen.values.copy(), seen.legal.actions.copy(), seen.seat.copy(), final]
        return [array.copy() for array in arrays]


def random_actions(environment: GridworldEnvironment, steps: int, seed: int = 0) -> Int64:
    """Actions of all lanes, `[steps, lanes]`; every one is allowed in worlds that forbid nothing."""
    count = len(environment.file.world.actions)
    return np.random.default_rng(seed).integers(count, size=(steps, environment.lanes))


def same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Whether arrays are the same, bit for bit."""
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
