"""What holds in every world: where agents start, who decides next, and what a world's functions may not do.

These functions are compiled with each world; the ones that call a world's own functions are in `kernel.py`.
"""

from __future__ import annotations

from keisei.gridworld.moves import BAD_KIND, BAD_REWARD, LARGEST_REWARD, random_empty_cell, stand
from keisei.gridworld.place import FINISHED, Place

NO_ROOM, OFF_THE_MAP, NOT_THERE, NOTHING_ALLOWED, BAD_SENSE = range(4, 9)
"""Faults, after those of `moves`."""


def place_agents(place: Place) -> None:
    """Let the agents stand on different empty cells, drawn in seat order."""
    for agent in range(place.row.shape[0]):
        row, column = random_empty_cell(place)
        if row < 0:
            place.fault = NO_ROOM
            return
        stand(place, agent, row, column)


def at_fault(place: Place) -> bool:
    """Whether a rule was broken."""
    return place.fault != 0


def is_over(place: Place) -> bool:
    """Whether the world has ended the episode, or all agents have finished."""
    left = 0
    for agent in range(place.row.shape[0]):
        left += int(place.status[agent] != FINISHED)
    return place.over != 0 or left == 0


def decide_all(place: Place) -> bool:
    """A turn of all begins: who is neither frozen nor finished decides. Gives whether anybody does."""
    anybody = False
    for agent in range(place.row.shape[0]):
        status = place.status[agent]
        place.deciding[agent] = status == 0
        if status == 0:
            anybody = True
        elif status > 0:
            place.status[agent] = status - 1
    return anybody


def decide_next(place: Place) -> bool:
    """The turn passes to the next seat that is neither frozen nor finished; false where this turn has no more."""
    for seat in range(place.seat + 1, place.row.shape[0]):
        status = place.status[seat]
        if status == 0:
            place.seat = seat
            place.deciding[seat] = 1
            return True
        if status > 0:
            place.status[seat] = status - 1
    place.seat = -1
    return False


def check_agent(place: Place, agent: int) -> None:
    """Find fault with where an agent stands, or with what it was paid."""
    row, column = place.row[agent], place.column[agent]
    place.fault_row, place.fault_column = row, column
    if not abs(place.paid[agent]) <= LARGEST_REWARD:
        place.fault = BAD_REWARD
    if place.status[agent] == FINISHED:
        return
    if not (0 <= row < place.cells.shape[1] and 0 <= column < place.cells.shape[2]):
        place.fault = OFF_THE_MAP
    elif place.who[row, column] != agent or place.cells[place.layer, row, column] != place.looks[agent]:
        place.fault = NOT_THERE


def check_all(place: Place) -> None:
    """Find fault with what is written in any cell, then with any agent; where there is one already, that counts."""
    if place.fault == 0:
        check_cells(place)
    for agent in range(place.row.shape[0]):
        if place.fault != 0:
            return
        check_agent(place, agent)
        if place.fault != 0:
            place.doer = agent


def check_cells(place: Place) -> None:
    """Find fault with kinds that do not exist."""
    highest = 0
    for layer in range(place.cells.shape[0]):
        for row in range(place.cells.shape[1]):
            for column in range(place.cells.shape[2]):
                highest = max(highest, place.cells[layer, row, column])
    if highest >= place.blocks.shape[0]:
        _find_cell(place)


def _find_cell(place: Place) -> None:
    place.fault = BAD_KIND
    for layer in range(place.cells.shape[0]):
        for row in range(place.cells.shape[1]):
            for column in range(place.cells.shape[2]):
                if place.cells[layer, row, column] >= place.blocks.shape[0]:
                    place.fault_row, place.fault_column = row, column
