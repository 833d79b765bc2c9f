"""An empty world: agents walk around, and nothing happens. The file to copy."""

from __future__ import annotations

from keisei.gridworld.moves import walk, wall_around
from keisei.gridworld.place import Place, number
from keisei.gridworld.world import Kind, World

NOTHING, WALL, AGENT = range(3)


class Empty(Place):
    """The numbers of this world, each a key of its configuration."""

    wall_pays: float = number(0.0, "what bumping into a wall pays")


def lay_out(place: Empty) -> None:
    """Draw the map, and say what things pay."""
    wall_around(place, WALL)
    place.worth[WALL] = place.wall_pays


def act(place: Empty, agent: int, action: int) -> None:
    """The four actions are the four directions."""
    walk(place, agent, action)


WORLD = World(
    place=Empty,
    kinds=(
        Kind("nothing", (236, 232, 220)),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 112, 190), blocks=True, shape="agent"),
    ),
    agent="agent",
    lay_out=lay_out,
    act=act,
)
