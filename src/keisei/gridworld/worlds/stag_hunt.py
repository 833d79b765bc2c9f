"""Stag hunt: a hare can be caught alone, a stag only together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from keisei.environment import Array, Int32, UInt8
from keisei.gridworld.chance import gap, happens, keep_rate
from keisei.gridworld.moves import column_step, pay, row_step, walk, wall_around
from keisei.gridworld.place import Place, array, number, probability
from keisei.gridworld.view import View
from keisei.gridworld.world import MOVES, Kind, World

NOTHING, WALL, AGENT, STAG, HARE = range(5)
HUNT = 4


class StagHunt(Place):
    """The numbers of this world, each a key of its configuration, and what it holds besides cells and agents."""

    height: int = number(11, "rows", least=3, most=1000)
    width: int = number(11, "columns", least=3, most=1000)
    agents: int = number(2, "agents in each world", least=1, most=128)
    growth: float = probability(0.002, "of prey appearing in an empty inner cell, each turn")
    stags: float = probability(0.5, "of prey being a stag")
    stag: float = number(5.0, "what a stag pays to each of its hunters")
    hare: float = number(1.0, "what a hare pays to each of those that it takes")
    stag_hunters: int = number(2, "hunters beside it that a stag takes, at least", least=1, most=4)
    hare_hunters: int = number(1, "hunters beside it that a hare takes", least=1, most=4)

    hunting: UInt8 = array(np.uint8, "agents")  # 1: hunts in this turn, and has caught nothing yet
    hunts: Int32 = array(np.int32, "agents")  # times it hunted
    stags_caught: Int32 = array(np.int32, "agents")  # it had a share in
    hares_caught: Int32 = array(np.int32, "agents")


def lay_out(place: StagHunt) -> None:
    """An outer wall."""
    wall_around(place, WALL)


def change(place: StagHunt) -> None:
    """Prey appears: from cell to cell that changes, in reading order; what is not empty stays as it is."""
    columns = place.width - 2
    inner = (place.height - 2) * columns
    rate = keep_rate(place.growth)
    cell = gap(place, rate)
    while cell < inner:
        row, column = 1 + cell // columns, 1 + cell % columns
        if place.cells[0, row, column] == NOTHING:
            place.cells[0, row, column] = STAG if happens(place, place.stags) else HARE
        cell += 1 + gap(place, rate)


def act(place: StagHunt, agent: int, action: int) -> None:
    """Four moves and hunt."""
    if action == HUNT:
        place.hunting[agent] = 1
        place.hunts[agent] += 1
    else:
        walk(place, agent, action)


def after(place: StagHunt) -> None:
    """Catch stags, then hares, in reading order; an agent takes part in one catch a turn."""
    anybody = 0
    for agent in range(place.agents):
        anybody += place.hunting[agent]
    if anybody >= place.stag_hunters:
        catch_all(place, STAG, place.stag_hunters)
    if anybody >= place.hare_hunters:
        catch_all(place, HARE, place.hare_hunters)
    for agent in range(place.agents):
        place.hunting[agent] = 0


def catch_all(place: StagHunt, prey: int, needed: int) -> None:
    """Catch all prey of a kind that enough agents hunt."""
    for row in range(1, place.height - 1):
        for column in range(1, place.width - 1):
            if place.cells[0, row, column] == prey and hunters(place, row, column) >= needed:
                catch(place, prey, row, column)


def hunters(place: StagHunt, row: int, column: int) -> int:
    """How many agents beside a cell hunt."""
    count = 0
    for direction in range(4):
        agent = place.who[row + row_step(direction), column + column_step(direction)]
        if agent >= 0:
            count += place.hunting[agent]
    return count


def catch(place: StagHunt, prey: int, row: int, column: int) -> None:
    """Pay for one catch: a stag to all its hunters, a hare to as many as it takes, of lowest seat numbers."""
    place.cells[0, row, column] = NOTHING
    left = place.agents if prey == STAG else place.hare_hunters
    for agent in range(place.agents):
        away = abs(place.row[agent] - row) + abs(place.column[agent] - column)
        if left > 0 and away == 1 and place.hunting[agent]:
            place.hunting[agent] = 0
            left -= 1
            if prey == STAG:
                pay(place, agent, place.stag)
                place.stags_caught[agent] += 1
            else:
                pay(place, agent, place.hare)
                place.hares_caught[agent] += 1


def report(place: StagHunt) -> Mapping[str, float | Array]:
    """Who hunted how often, and what came of it."""
    return {
        "hunts": place.hunts.copy(),
        "stags": place.stags_caught.copy(),
        "hares": place.hares_caught.copy(),
    }


WORLD = World(
    place=StagHunt,
    kinds=(
        Kind("nothing", (226, 232, 212)),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 112, 190), blocks=True, shape="agent"),
        Kind("stag", (150, 96, 52), blocks=True, shape="stag"),
        Kind("hare", (186, 176, 160), blocks=True, shape="hare"),
    ),
    agent="agent",
    actions=(*MOVES, "hunt"),
    lay_out=lay_out,
    change=change,
    act=act,
    after=after,
    report=report,
    view=View(radius=2),
)
