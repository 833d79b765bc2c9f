"""Treasure hunt: gems, food and bones grow, and belong to whoever gets there first."""

from __future__ import annotations

from keisei.gridworld.chance import below, gap, keep_rate
from keisei.gridworld.moves import walk, wall_around
from keisei.gridworld.place import Place, number, probability
from keisei.gridworld.view import View
from keisei.gridworld.world import Kind, World

NOTHING, WALL, AGENT, GEM, FOOD, BONE = range(6)


class TreasureHunt(Place):
    """The numbers of this world, each a key of its configuration."""

    height: int = number(21, "rows", least=3, most=1000)
    width: int = number(21, "columns", least=3, most=1000)
    agents: int = number(2, "agents in each world", least=1, most=128)
    growth: float = probability(0.005, "of an item growing in an empty inner cell, each turn")
    gem: float = number(10.0, "what a gem pays")
    food: float = number(5.0, "what food pays")
    bone: float = number(-10.0, "what a bone pays")
    wall: float = number(-1.0, "what bumping into a wall pays")


def lay_out(place: TreasureHunt) -> None:
    """An outer wall, and nothing inside."""
    wall_around(place, WALL)
    place.worth[WALL] = place.wall
    place.worth[GEM], place.worth[FOOD], place.worth[BONE] = place.gem, place.food, place.bone


def change(place: TreasureHunt) -> None:
    """Items grow: from cell to cell that changes, in reading order; what is not empty stays as it is."""
    columns = place.cells.shape[2] - 2
    inner = (place.cells.shape[1] - 2) * columns
    rate = keep_rate(place.growth)
    cell = gap(place, rate)
    while cell < inner:
        row, column = 1 + cell // columns, 1 + cell % columns
        if place.cells[0, row, column] == NOTHING:
            place.cells[0, row, column] = GEM + below(place, 3)
        cell += 1 + gap(place, rate)


def act(place: TreasureHunt, agent: int, action: int) -> None:
    """The four actions are the four directions."""
    walk(place, agent, action)


WORLD = World(
    place=TreasureHunt,
    kinds=(
        Kind("nothing", (236, 232, 220)),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 112, 190), blocks=True, shape="agent"),
        Kind("gem", (66, 190, 165), item=True, shape="diamond"),
        Kind("food", (222, 96, 72), item=True, shape="apple"),
        Kind("bone", (250, 250, 244), item=True, shape="bone"),
    ),
    agent="agent",
    lay_out=lay_out,
    change=change,
    act=act,
    view=View(radius=2, frames=5),
)
