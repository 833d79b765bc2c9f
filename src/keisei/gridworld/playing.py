"""Episodes played to be looked at: scene by scene for one world, or as a table of what every agent did in many.

Who acts is handed in: `random_choice`, or whatever has learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keisei.environment import (
    NO_SEAT,
    PASS,
    Array,
    Bool,
    Environment,
    Int64,
    Observation,
    legal_list,
    new_observation,
    new_step,
    pick_legal,
)
from keisei.gridworld.engine import GridworldEnvironment
from keisei.gridworld.render import Scene, scene

Choose = Callable[[Sequence[Observation]], Sequence[Array]]
"""From what all groups see to an action per lane of each."""


@dataclass(frozen=True)
class Stage:
    """Worlds to be looked at, and who acts in them."""

    environment: Environment  # as those who act know it
    world: GridworldEnvironment  # the same, or what is inside it
    choose: Choose


def random_choice(environment: Environment, seed: int) -> Choose:
    """Agents that act at random among what is allowed."""
    generator = np.random.default_rng(seed)

    def choose(seen: Sequence[Observation]) -> list[Array]:
        return [
            pick_legal(legal_list(group, some.legal), generator.random(len(group.lanes)))
            for group, some in zip(environment.groups, seen, strict=True)
        ]

    return choose


def scenes(stage: Stage, episodes: int = 1) -> Iterator[Scene]:
    """The scenes of so many episodes of the first world, from its start to its end."""
    worlds = stage.world.worlds
    seen, step = new_observation(stage.environment), new_step(stage.environment)
    stage.environment.reset(seen)
    for _ in range(episodes):
        yield scene(worlds.now[0])
        step.ended[0] = False
        while not step.ended[0]:
            stage.environment.step(stage.choose(seen), step, seen)
            yield scene((worlds.last if step.ended[0] else worlds.now)[0])


@dataclass(frozen=True)
class Lived:
    """What all agents did, a row for each agent and step; columns are of equal length."""

    columns: dict[str, Array]
    actions: tuple[str, ...]  # what the numbers in `action` mean

    def __len__(self) -> int:
        return len(self.columns["world"])


_PLACED = ("row", "column", "heading")


def lived(stage: Stage) -> Lived:
    """One episode of every world. Positions are those in which an agent decided; the reward is what came of it.

    `action` is -1 where an agent did not decide: it was frozen, finished, or not on turn.
    """
    environment, now = stage.environment, stage.world.worlds.now
    copies, agents = environment.copies, len(environment.seats)
    seen, step = new_observation(environment), new_step(environment)
    environment.reset(seen)
    over: Bool = np.zeros(copies, np.bool_)
    parts: list[dict[str, Array]] = []
    while not over.all():
        before = {name: now[name].reshape(-1).astype(np.int32) for name in _PLACED}
        turn = np.repeat(now["turn"], agents).astype(np.int32)
        actions, deciding = _actions(environment, stage.choose(seen), seen, over)
        environment.step([actions[group.lanes] for group in environment.groups], step, seen)
        kept = np.repeat(~over, agents)
        part: dict[str, Array] = {
            "world": np.repeat(now["world"], agents).astype(np.int64),
            "turn": turn,
            "seat": np.tile(np.arange(agents, dtype=np.int16), copies),
            **before,
            "action": np.where(deciding, actions, PASS).astype(np.int16),
            "reward": step.reward.copy(),
            "ended": step.ended.copy(),
        }
        parts.append({name: column[kept] for name, column in part.items()})
        over |= step.ended.reshape(copies, agents)[:, 0]
    whole: dict[str, Array] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(whole["world"], kind="stable")
    return Lived({name: column[order] for name, column in whole.items()}, stage.world.file.world.actions)


def _actions(
    environment: Environment, chosen: Sequence[Array], seen: Sequence[Observation], over: Bool
) -> tuple[Int64, Bool]:
    """The actions of all lanes, where a world that is over passes, and who decides."""
    actions: Int64 = np.full(environment.lanes, PASS, np.int64)
    deciding: Bool = np.zeros(environment.lanes, np.bool_)
    for group, some, own in zip(environment.groups, seen, chosen, strict=True):
        actions[group.lanes] = own
        deciding[group.lanes] = some.seat != NO_SEAT
    actions[np.repeat(over, len(environment.seats))] = PASS
    return actions, deciding
