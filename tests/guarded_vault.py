"""A vault: a thief cannot turn round at once, is frozen when it bumps into a wall, and leaves through the door."""

from __future__ import annotations

import numpy as np

from keisei.environment import Int32
from keisei.gridworld.moves import finish, freeze, walk, wall_around
from keisei.gridworld.place import Place, array, number
from keisei.gridworld.world import Kind, World

NOTHING, WALL, AGENT, DOOR = range(4)


class Vault(Place):
    """The numbers of this world."""

    height: int = number(6, "rows", least=4, most=100)
    width: int = number(6, "columns", least=4, most=100)
    agents: int = number(3, "agents in each world", least=1, most=16)
    way_out: float = number(1.0, "what leaving pays")

    acted: Int32 = array(np.int32, "agents")  # times


def lay_out(place: Vault) -> None:
    """A wall with a door in it."""
    wall_around(place, WALL)
    place.cells[0, 0, 2] = DOOR
    place.worth[DOOR] = place.way_out


def act(place: Vault, agent: int, action: int) -> None:
    """Four moves."""
    place.acted[agent] += 1
    kind = walk(place, agent, action)
    if kind == WALL:
        freeze(place, agent, 2)
    if kind == DOOR:
        finish(place, agent)
        place.cells[0, 0, 2] = DOOR


def allowed(place: Vault, agent: int, action: int) -> bool:
    """Nobody turns round at once."""
    return bool(place.acted[agent] == 0 or action != (place.heading[agent] + 2) % 4)


WORLD = World(
    place=Vault,
    kinds=(
        Kind("nothing", (236, 232, 220)),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 112, 190), blocks=True, shape="agent"),
        Kind("door", (180, 120, 60), shape="square"),
    ),
    agent="agent",
    lay_out=lay_out,
    act=act,
    allowed=allowed,
)
