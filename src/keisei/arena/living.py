"""Evaluation in worlds: how agents fare in fresh ones, from which nobody learns, beside agents that act at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from keisei.arena.player import Play
from keisei.collect.loop import action_noise
from keisei.environment import (
    Bool,
    Environment,
    Float32,
    Float64,
    Int64,
    Telling,
    longest_game,
    new_observation,
    new_step,
)
from keisei.figures import numbers_of
from keisei.policy import Actor, LegalChoices, legal_choices
from keisei.stopping import StopRequest

Choose = Callable[[np.ndarray[tuple[int, ...], np.dtype[np.generic]], LegalChoices, Float32], Int64]
"""From what all lanes see, what is legal, and numbers in [0, 1) to an action for each."""

MOST_AT_ONCE = 32


@dataclass(frozen=True)
class LivingEvaluator:
    """Lets agents live so many episodes; nothing else of a run changes by it."""

    build_environment: Callable[[int, int], Environment]  # from copies and first lane
    build_actor: Callable[[int], Actor]  # from copies
    play: Play
    compared: bool  # whether agents that act at random live, too
    seed: int
    stop: StopRequest

    def evaluate(self, iteration: int, games: int) -> Mapping[str, float]:
        """Numbers to record, such as `evaluate/world/return`. Raises Stopped where the run is asked to stop."""
        numbers = self.lived(games, self.chooser(games), "evaluate/")
        return numbers | (self.lived(games, at_random, "evaluate/random/") if self.compared else {})

    def chooser(self, games: int) -> Choose:
        """How the agents choose their actions in so many episodes."""
        actor = self.build_actor(min(games, MOST_AT_ONCE))
        if self.play == "greedy":
            return lambda seen, legal, uniform: actor.act_greedily(seen, legal).action
        return lambda seen, legal, uniform: actor.act(seen, legal, uniform).action

    def lived(self, games: int, choose: Choose, prefix: str) -> dict[str, float]:
        """What so many episodes tell."""
        copies, told = min(games, MOST_AT_ONCE), list[Float32]()
        names: tuple[str, ...] = ()
        for first in range(0, games, copies):
            environment = self.build_environment(copies, first)
            names = environment.groups[0].figures
            told.append(self._episodes(environment, choose, first)[: games - first])
            environment.close()
        figures = np.concatenate(told)
        return numbers_of({name: figures[..., i] for i, name in enumerate(names)}, prefix)

    def _episodes(self, environment: Environment, choose: Choose, first: int) -> Float32:
        """One episode of every copy; gives its figures `[copies, agents, figures]`."""
        (group,) = environment.groups
        assert isinstance(environment, Telling)
        seen, step = new_observation(environment), new_step(environment)
        steps, lanes = longest_game(environment), np.arange(environment.lanes) + first * len(environment.seats)
        noise = action_noise(self.seed, lanes, 0, steps)
        told: Float32 = np.full((environment.lanes, len(group.figures)), np.nan, np.float32)
        over: Bool = np.zeros(environment.lanes, np.bool_)
        environment.reset(seen)
        for t in range(steps):
            self.stop.check()
            actions = choose(seen[0].values, legal_choices(group, seen[0].legal), noise[t])
            environment.step((actions,), step, seen)
            now = step.ended & ~over
            if now.any():
                figures = np.zeros_like(told)
                environment.tell(step.ended, figures)
                told[now] = figures[now]
                over |= now
            if over.all():
                break
        return told.reshape(environment.copies, -1, len(group.figures))


def at_random(seen: object, legal: LegalChoices, uniform: Float32) -> Int64:
    """Any legal action."""
    mask = legal.mask.numpy()
    drawn: Float64 = uniform * mask.sum(1)
    action: Int64 = (mask.cumsum(1) <= drawn[:, None]).sum(1)
    return action
