"""What agents do in many worlds: walk, turn, be frozen or leave. World files call these."""

from __future__ import annotations

from keisei.gridworld.chance import below
from keisei.gridworld.place import FINISHED, Place

UP, RIGHT, DOWN, LEFT = range(4)

BAD_KIND, BAD_CELL, BAD_REWARD = 1, 2, 3
"""Faults that can be told at once; the engine has more."""

LARGEST_REWARD = 3.0e38
"""Rewards must fit into 32 bits."""


def row_step(direction: int) -> int:
    """How a step in a direction changes the row."""
    return int(direction == DOWN) - int(direction == UP)


def column_step(direction: int) -> int:
    """How a step in a direction changes the column."""
    return int(direction == RIGHT) - int(direction == LEFT)


def inside(place: Place, row: int, column: int) -> bool:
    """Whether there is such a cell."""
    return bool(0 <= row < place.cells.shape[1] and 0 <= column < place.cells.shape[2])


def put(place: Place, layer: int, row: int, column: int, kind: int) -> None:
    """Write one cell; a cell or kind that does not exist is a fault of the world."""
    place.fault_row, place.fault_column = row, column
    if not inside(place, row, column) or not 0 <= layer < place.cells.shape[0]:
        place.fault = BAD_CELL
    elif not 0 <= kind < place.blocks.shape[0]:
        place.fault = BAD_KIND
    else:
        place.cells[layer, row, column] = kind


def wall_around(place: Place, wall: int) -> None:
    """Put a wall on the outermost cells of the layer in which agents stand."""
    height, width = place.cells.shape[1], place.cells.shape[2]
    for row in range(height):
        for column in range(width):
            if row in (0, height - 1) or column in (0, width - 1):
                place.cells[place.layer, row, column] = wall


def stand(place: Place, agent: int, row: int, column: int) -> None:
    """Put an agent that stands nowhere on a cell."""
    place.row[agent], place.column[agent] = row, column
    place.cells[place.layer, row, column] = place.looks[agent]
    place.who[row, column] = agent


def lift(place: Place, agent: int) -> None:
    """Take an agent off the map; its cell is empty."""
    row, column = place.row[agent], place.column[agent]
    place.cells[place.layer, row, column] = 0
    place.who[row, column] = -1


def move_to(place: Place, agent: int, row: int, column: int) -> None:
    """Move an agent to another cell, whatever is there."""
    lift(place, agent)
    stand(place, agent, row, column)


def look_like(place: Place, agent: int, kind: int) -> None:
    """Change what others see where an agent stands."""
    place.looks[agent] = kind
    place.cells[place.layer, place.row[agent], place.column[agent]] = kind


def pay(place: Place, agent: int, amount: float) -> None:
    """Pay an agent; it counts for its last decision."""
    if not abs(amount) <= LARGEST_REWARD:
        place.fault, place.doer = BAD_REWARD, agent
    place.paid[agent] += amount


def walk(place: Place, agent: int, direction: int) -> int:
    """Turn an agent and move it by one cell, unless that is blocked; pays what is there. Gives the kind that was."""
    place.heading[agent] = direction
    row = place.row[agent] + row_step(direction)
    column = place.column[agent] + column_step(direction)
    if not inside(place, row, column):
        return int(place.outside[place.layer])
    kind = int(place.cells[place.layer, row, column])
    place.paid[agent] += place.worth[kind]
    if not place.blocks[kind]:
        place.taken[agent, kind] += 1
        move_to(place, agent, row, column)
    return kind


def freeze(place: Place, agent: int, turns: int) -> None:
    """Let an agent miss so many turns."""
    if place.status[agent] != FINISHED:
        place.status[agent] = turns


def finish(place: Place, agent: int) -> None:
    """End the episode for one agent, and take it off the map; the world goes on for the others."""
    if place.status[agent] != FINISHED:
        place.status[agent] = FINISHED
        lift(place, agent)


def end_episode(place: Place) -> None:
    """End the episode for all."""
    place.over = 1


def empty_cells(place: Place) -> int:
    """How many cells of the layer in which agents stand are empty."""
    count = 0
    for row in range(place.cells.shape[1]):
        for column in range(place.cells.shape[2]):
            count += place.cells[place.layer, row, column] == 0
    return count


def random_empty_cell(place: Place) -> tuple[int, int]:
    """One of the empty cells of the layer in which agents stand, in reading order, equally likely; or (-1, -1)."""
    left = empty_cells(place)
    if left == 0:
        return -1, -1
    left = below(place, left)
    for row in range(place.cells.shape[1]):
        for column in range(place.cells.shape[2]):
            if place.cells[place.layer, row, column] == 0:
                if left == 0:
                    return row, column
                left -= 1
    return -1, -1
