"""Tag: one agent is It, and everybody else is paid for not being caught."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from keisei.environment import Array, Int32
from keisei.gridworld.chance import below
from keisei.gridworld.moves import look_like, pay, walk, wall_around
from keisei.gridworld.place import Place, array, number, variable
from keisei.gridworld.view import View
from keisei.gridworld.world import Kind, Sense, World

NOTHING, WALL, AGENT, IT = range(4)


class Tag(Place):
    """The numbers of this world, each a key of its configuration, and what it holds besides cells and agents."""

    height: int = number(11, "rows", least=3, most=1000)
    width: int = number(11, "columns", least=3, most=1000)
    agents: int = number(5, "agents in each world", least=1, most=128)
    max_turns: int = number(20, "turns of an episode, which then is cut off", least=1, most=2**31 - 1)
    free: float = number(10.0, "what not being It pays, each turn")

    it: int = variable(int)  # the agent
    was_it: int = variable(int)  # in the turn before; -1 in the first
    turns_it: Int32 = array(np.int32, "agents")  # so many turns it ended as It


def lay_out(place: Tag) -> None:
    """An outer wall."""
    wall_around(place, WALL)


def furnish(place: Tag) -> None:
    """One agent is It."""
    place.it, place.was_it = below(place, place.agents), -1
    look_like(place, place.it, IT)


def act(place: Tag, agent: int, action: int) -> None:
    """The four actions are the four directions."""
    walk(place, agent, action)


def after(place: Tag) -> None:
    """It catches the first of its neighbours, but not the one that was It in the turn before."""
    before = place.it
    for agent in range(place.agents):
        away = abs(place.row[agent] - place.row[before]) + abs(place.column[agent] - place.column[before])
        if away == 1 and agent != place.was_it:
            look_like(place, before, AGENT)
            look_like(place, agent, IT)
            place.it = agent
            break
    place.was_it = before
    place.turns_it[place.it] += 1
    for agent in range(place.agents):
        if agent != place.it:
            pay(place, agent, place.free)


def sense(place: Tag, agent: int, which: int) -> int:
    """I am It."""
    return int(agent == place.it)


def report(place: Tag) -> Mapping[str, float | Array]:
    """Who was It at the end of how many turns."""
    return {"turns it": place.turns_it.copy()}


WORLD = World(
    place=Tag,
    kinds=(
        Kind("nothing", (236, 232, 220)),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 112, 190), blocks=True, shape="agent"),
        Kind("it", (214, 62, 58), blocks=True, shape="agent"),
    ),
    agent="agent",
    lay_out=lay_out,
    furnish=furnish,
    act=act,
    after=after,
    sense=sense,
    senses=(Sense("I am It"),),
    report=report,
    view=View(radius=4),
)
