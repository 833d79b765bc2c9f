"""Cleanup: apples grow only while somebody keeps the river clean, which pays nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from keisei.environment import Array, Int32
from keisei.gridworld.chance import below, gap, keep_rate
from keisei.gridworld.moves import column_step, inside, pay, row_step, walk, wall_around
from keisei.gridworld.place import Int16, Place, array, number, probability, variable
from keisei.gridworld.view import View
from keisei.gridworld.world import MOVES, Kind, World

GROUND, THINGS, BEAMS = range(3)
NOTHING, SAND, RIVER, POLLUTED, TREE, WALL, AGENT, APPLE, CLEANING, ZAPPING = range(10)
CLEAN, ZAP = 4, 5


class Cleanup(Place):
    """The numbers of this world, each a key of its configuration, and what it holds besides cells and agents."""

    height: int = number(21, "rows", least=16, most=1000)
    width: int = number(31, "columns", least=6, most=1000)
    agents: int = number(10, "agents in each world", least=1, most=128)
    river_rows: int = number(6, "inner rows at the top that are river", least=1, most=400)
    channel_rows: int = number(6, "rows below them in which a channel is river", least=0, most=400)
    channel_columns: int = number(2, "columns that the channel is wide, at most all inner ones", least=1, most=998)
    orchard_rows: int = number(6, "inner rows at the bottom that are orchard", least=1, most=400)
    pollution: float = probability(0.009, "of a river cell becoming polluted, each turn")
    growth: float = probability(0.002, "of an apple growing on an empty tree cell, each turn")
    threshold: float = probability(0.5, "the share of polluted river cells above which no apple grows")
    first_apples: int = number(20, "apples at the start", least=0, most=10000)
    apple: float = number(1.0, "what an apple pays")
    beam_length: int = number(3, "cells that each of a beam's three rays covers", least=1, most=10)
    zap_penalty: float = number(-1.0, "what being zapped pays")
    zap_cost: float = number(0.0, "what zapping pays")

    polluted: int = variable(int)  # river cells that are
    polluted_sum: float = variable(float)  # of the share of polluted cells after each turn
    beam_of: Int16 = array(np.int16, "height", "width")  # the agent whose beam it is, counted from 1; 0 for none
    cleaned: Int32 = array(np.int32, "agents")  # cells
    zaps: Int32 = array(np.int32, "agents")  # times it zapped
    zapped: Int32 = array(np.int32, "agents")  # times it was zapped


def river_cells(place: Cleanup) -> int:
    """How many cells are river, clean or not."""
    return int(place.river_rows * (place.width - 2) + channel_width(place) * place.channel_rows)


def channel_width(place: Cleanup) -> int:
    """How many columns the channel has."""
    return int(min(place.channel_columns, place.width - 2))


def river_cell(place: Cleanup, index: int) -> tuple[int, int]:
    """The river's cells in reading order."""
    columns = place.width - 2
    in_rows = place.river_rows * columns
    if index < in_rows:
        return 1 + index // columns, 1 + index % columns
    index -= in_rows
    wide = channel_width(place)
    first = min(place.width // 2 - (wide - 1) // 2, place.width - 1 - wide)
    return 1 + place.river_rows + index // wide, first + index % wide


def tree_cell(place: Cleanup, index: int) -> tuple[int, int]:
    """The orchard's cells in reading order."""
    columns = place.width - 2
    return place.height - 1 - place.orchard_rows + index // columns, 1 + index % columns


def lay_out(place: Cleanup) -> None:
    """River at the top, a channel down from it, sand, and the orchard at the bottom."""
    wall_around(place, WALL)
    for row in range(1, place.height - 1):
        for column in range(1, place.width - 1):
            place.cells[GROUND, row, column] = SAND
    for index in range(place.orchard_rows * (place.width - 2)):
        row, column = tree_cell(place, index)
        place.cells[GROUND, row, column] = TREE
    for index in range(river_cells(place)):
        row, column = river_cell(place, index)
        place.cells[GROUND, row, column] = RIVER
    place.worth[APPLE] = place.apple


def furnish(place: Cleanup) -> None:
    """The first apples, on different empty cells of the orchard, drawn uniformly."""
    trees = place.orchard_rows * (place.width - 2)
    empty = 0
    for index in range(trees):
        row, column = tree_cell(place, index)
        empty += int(place.cells[THINGS, row, column] == NOTHING)
    for left in range(empty, max(0, empty - place.first_apples), -1):
        chosen = below(place, left)
        for index in range(trees):
            row, column = tree_cell(place, index)
            if place.cells[THINGS, row, column] == NOTHING:
                if chosen == 0:
                    place.cells[THINGS, row, column] = APPLE
                chosen -= 1


def change(place: Cleanup) -> None:
    """The river gets dirty; then apples grow, unless it is too dirty."""
    rate = keep_rate(place.pollution)
    index, count = gap(place, rate), river_cells(place)
    while index < count:
        row, column = river_cell(place, index)
        if place.cells[GROUND, row, column] == RIVER:
            place.cells[GROUND, row, column] = POLLUTED
            place.polluted += 1
        index += 1 + gap(place, rate)
    if place.polluted / count > place.threshold:
        return
    rate = keep_rate(place.growth)
    index, count = gap(place, rate), place.orchard_rows * (place.width - 2)
    while index < count:
        row, column = tree_cell(place, index)
        if place.cells[THINGS, row, column] == NOTHING:
            place.cells[THINGS, row, column] = APPLE
        index += 1 + gap(place, rate)


def act(place: Cleanup, agent: int, action: int) -> None:
    """Four moves, clean, zap."""
    fade(place, agent)
    if action == CLEAN:
        beam(place, agent, CLEANING)
    elif action == ZAP:
        place.zaps[agent] += 1
        pay(place, agent, place.zap_cost)
        beam(place, agent, ZAPPING)
    else:
        walk(place, agent, action)


def beam(place: Cleanup, agent: int, kind: int) -> None:
    """Three rays: in front of the agent, and in front of its two neighbours to the sides."""
    down, right = row_step(place.heading[agent]), column_step(place.heading[agent])
    for side in range(-1, 2):
        row, column = place.row[agent] + side * right, place.column[agent] + side * down
        for _ in range(place.beam_length):
            row, column = row + down, column + right
            if not inside(place, row, column) or place.cells[THINGS, row, column] == WALL:
                break
            shine(place, agent, kind, row, column)


def shine(place: Cleanup, agent: int, kind: int, row: int, column: int) -> None:
    """What a beam does in one cell."""
    place.cells[BEAMS, row, column] = kind
    place.beam_of[row, column] = agent + 1
    if kind == CLEANING and place.cells[GROUND, row, column] == POLLUTED:
        place.cells[GROUND, row, column] = RIVER
        place.polluted -= 1
        place.cleaned[agent] += 1
    other = place.who[row, column]
    if kind == ZAPPING and other >= 0 and other != agent:
        pay(place, other, place.zap_penalty)
        place.zapped[other] += 1


def fade(place: Cleanup, agent: int) -> None:
    """Take an agent's last beam away: it is near the cell in which the agent made it, and there the agent still is."""
    reach = place.beam_length
    for row in range(max(0, place.row[agent] - reach), min(place.height, place.row[agent] + reach + 1)):
        for column in range(max(0, place.column[agent] - reach), min(place.width, place.column[agent] + reach + 1)):
            if place.beam_of[row, column] == agent + 1:
                place.beam_of[row, column] = 0
                place.cells[BEAMS, row, column] = NOTHING


def after(place: Cleanup) -> None:
    """Keep the books of pollution."""
    place.polluted_sum += place.polluted / river_cells(place)


def report(place: Cleanup) -> Mapping[str, float | Array]:
    """What a researcher reads besides: how dirty the river was on the average, and who cleaned and zapped."""
    return {
        "pollution": float(place.polluted_sum) / max(1, int(place.turn)),
        "cleaned": place.cleaned.copy(),
        "zaps": place.zaps.copy(),
        "zapped": place.zapped.copy(),
    }


WORLD = World(
    place=Cleanup,
    kinds=(
        Kind("nothing", (40, 40, 44)),
        Kind("sand", (228, 212, 170), layer="ground", shape="sand"),
        Kind("river", (96, 168, 222), layer="ground", shape="water"),
        Kind("polluted", (112, 112, 84), layer="ground", shape="slime"),
        Kind("tree", (150, 188, 120), layer="ground", shape="leaves"),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 62, 140), blocks=True, shape="agent"),
        Kind("apple", (206, 58, 54), item=True, shape="apple"),
        Kind("cleaning beam", (170, 236, 246), layer="beams", shape="veil"),
        Kind("zapping beam", (246, 214, 78), layer="beams", shape="veil"),
    ),
    layers=("ground", "things", "beams"),
    agent="agent",
    actions=(*MOVES, "clean", "zap"),
    lay_out=lay_out,
    furnish=furnish,
    change=change,
    act=act,
    after=after,
    report=report,
    view=View(radius=5, position=True),
)
