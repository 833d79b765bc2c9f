"""Any PettingZoo environment with discrete actions brought in: each game a lane, or each of its seats.

A game of two seats whose gains are the other's losses is one lane, in which the seats take turns. Whatever else there
is, more seats, other payments, or all who decide at once, has a lane for each seat: its own rewards, from its own side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from keisei.adapters.foreign import ForeignCopies, built
from keisei.adapters.pettingzoo_worlds import Agent, TurnsWorld, World
from keisei.adapters.spaces import common_form
from keisei.environment import NO_SEAT, PASS, Bool, Environment, Float32, Step
from keisei.errors import ConfigError, ContractError

Lanes = Literal["auto", "game", "seat"]


def pettingzoo_games(
    build: Callable[[], World], *, lanes: Lanes = "auto", copies: int = 1, seed: int = 0, first_lane: int = 0
) -> Environment:
    """Copies of an environment. `auto`: a lane for each game of two seats that take turns, else one for each seat."""
    worlds = built(build, copies)
    turns = [world for world in worlds if isinstance(world, TurnsWorld) and len(world.agents) == 2]
    if turns and lanes != "seat":
        return GameLanes(turns, seed=seed, first_lane=first_lane)
    if lanes == "game":
        found = "take turns" if isinstance(worlds[0], TurnsWorld) else "decide at once"
        raise ConfigError(
            "'environment.lanes' can be 'game' only where two seats take turns: "
            f"in {worlds[0]} {len(worlds[0].agents)} seats {found}"
        )
    return SeatLanes(worlds, seed=seed, first_lane=first_lane)


class _Worlds(ForeignCopies):
    """What both ways have in common: the seats are the agents, in the order of `possible_agents`."""

    def __init__(self, worlds: list[World], *, lanes: int, seed: int, first_lane: int) -> None:
        names = [(f"{agent!r} of copy {i}", world, agent) for i, world in enumerate(worlds) for agent in world.agents]
        form = common_form((name, *world.spaces(agent)) for name, world, agent in names)
        self._worlds = worlds
        self._agents = worlds[0].agents
        seats = tuple(map(str, self._agents))
        super().__init__(worlds, form, seats, lanes=lanes, seed=seed, first_lane=first_lane)

    def _show(self, world: World, lane: int, agent: Agent, seat: int) -> None:
        """Keep what an agent sees and may do who decides in a lane."""
        seen = world.seen(agent)
        method = (lambda: world.mask(agent)) if world.has_masks else None
        self._keep(lane, self._form.values(seen), self._form.mask(seen, method, world.info(agent)))
        self._seat[lane] = seat


class GameLanes(_Worlds):
    """Each game of two seats is a lane; what one gains the other must lose. Both ends of it come together."""

    def __init__(self, worlds: list[TurnsWorld], *, seed: int, first_lane: int) -> None:
        self._games = worlds
        super().__init__(list(worlds), lanes=1, seed=seed, first_lane=first_lane)

    def _begin(self, copy: int, seed: int | None) -> None:
        self._games[copy].reset(seed)
        self._steps[copy] = 0
        self._look(copy)

    def _look(self, copy: int) -> None:
        game = self._games[copy]
        if len(game.living) != 2:
            raise ContractError(f"agents: expected both of {list(self.seats)} to play on, found {list(game.living)}")
        agent = game.deciding[0]
        self._show(game, copy, agent, self._agents.index(agent))

    def _play(self, copy: int, actions: list[int], step: Step) -> None:
        game = self._games[copy]
        (mover,) = game.deciding
        game.act({mover: actions[copy] + self._form.first_action})
        step.reward[copy] = self._reward(game, mover)
        if not game.died:
            self._look(copy)
            step.discount[copy] = self._sign(game, mover, game.deciding[0])
            return
        if game.living:
            raise ContractError(f"terminations: expected both seats to end together, found {list(game.died)}")
        over = any(game.died.values())
        next_one = game.would_decide if game.would_decide in self._agents else mover
        last = self._form.values(game.seen(next_one))
        self._end(step, copy, over=over, sign=self._sign(game, mover, next_one), length=self._steps[copy], last=last)
        self._begin(copy, None)

    def _sign(self, game: TurnsWorld, mover: Agent, next_one: Agent) -> int:
        return 1 if next_one == mover else -1

    def _reward(self, game: TurnsWorld, mover: Agent) -> float:
        """What the one who moved gets, which the other must lose."""
        mine, other = game.rewards[mover], sum(game.rewards.values()) - game.rewards[mover]
        if not math.isclose(mine, -other, rel_tol=1e-6):
            raise ContractError(
                f"rewards: expected what one seat gains to be what the other loses, found {game.rewards}; "
                "with 'environment.lanes' as 'seat', each seat learns from its own"
            )
        return mine


class SeatLanes(_Worlds):
    """Each seat of each copy is a lane. Nobody decides in it off turn, before its agent comes, and after it died.

    An agent's lane ends when it dies. What it is paid off turn is in the rows in between. The return of each
    life is told.
    """

    def __init__(self, worlds: list[World], *, seed: int, first_lane: int) -> None:
        self._came = [-1] * (len(worlds) * len(worlds[0].agents))  # in which step its agent came [L], or -1
        self._earned = np.zeros(len(self._came), np.float64)  # since its agent came [L]
        self._told = np.zeros(len(self._came), np.float32)  # in the last life that is over [L]
        super().__init__(worlds, lanes=len(worlds[0].agents), seed=seed, first_lane=first_lane)
        self.groups = (replace(self.groups[0], figures=("return",)),)

    def tell(self, ended: Bool, out: Float32) -> None:
        """Write the returns of the agents that have just died."""
        out[ended, 0] = self._told[ended]

    def _begin(self, copy: int, seed: int | None) -> None:
        self._worlds[copy].reset(seed)
        self._steps[copy] = 0
        first = copy * len(self._agents)
        self._earned[first : first + len(self._agents)] = 0.0
        self._look(copy)

    def _look(self, copy: int) -> None:
        world = self._worlds[copy]
        for seat, agent in enumerate(self._agents):
            lane = copy * len(self._agents) + seat
            lives = agent in world.living
            if not lives:
                self._came[lane] = -1
            elif self._came[lane] < 0:
                self._came[lane] = self._steps[copy]
            if agent in world.deciding:
                self._show(world, lane, agent, seat)
            else:
                self._values[lane] = self._form.values(world.seen(agent)) if lives else 0
                self._mask[lane], self._seat[lane] = 0, NO_SEAT

    def _play(self, copy: int, actions: list[int], step: Step) -> None:
        world, first = self._worlds[copy], copy * len(self._agents)
        lanes = {agent: first + seat for seat, agent in enumerate(self._agents)}
        chosen = {agent: actions[lane] for agent, lane in lanes.items() if actions[lane] != PASS}
        world.act({agent: action + self._form.first_action for agent, action in chosen.items()})
        for agent, reward in world.rewards.items():
            step.reward[lanes[agent]] = reward
            self._earned[lanes[agent]] += reward
        for agent, over in world.died.items():
            lane = lanes[agent]
            last = self._form.values(world.seen(agent))
            self._end(step, lane, over=over, sign=1, length=self._steps[copy] - self._came[lane], last=last)
            self._came[lane] = -1
            self._told[lane], self._earned[lane] = self._earned[lane], 0.0
        if world.living:
            self._look(copy)
        else:
            self._begin(copy, None)
