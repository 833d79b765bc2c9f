"""What a world did wrong, in words: the function, the agent, the cell and the turn."""

from __future__ import annotations

from keisei.errors import WorldError
from keisei.gridworld import kernel, moves, rules
from keisei.gridworld.running import Structured
from keisei.gridworld.world import WorldFile

_SAYS = {
    moves.BAD_KIND: "there is no such kind as the one written there",
    moves.BAD_CELL: "there is no such cell or layer to write to",
    rules.NO_ROOM: "there is no empty cell left for an agent to start on",
    rules.OFF_THE_MAP: "the agent is off the map",
    rules.NOT_THERE: "the agent's row and column do not say where it stands: use move_to(), finish() or look_like()",
    moves.BAD_REWARD: "the reward is not a finite number",
    rules.NOTHING_ALLOWED: "the agent decides, but no action is allowed",
    rules.BAD_SENSE: "what the agent feels is not in 0..255",
}


def fault(file: WorldFile, places: Structured, number: int, said: str = "") -> WorldError:
    """The error for what went wrong in one world; `said` where Python or Numba said it."""
    place = places[number]
    doing, doer, code = kernel.DOING[int(place["doing"])], int(place["doer"]), int(place["fault"])
    where = [doing]
    row, column = int(place["fault_row"]), int(place["fault_column"])
    if doer >= 0:
        where.append(f"agent {doer}")
        if not code:
            row, column = int(place["row"][doer]), int(place["column"][doer])
    where += [f"cell ({row}, {column})", f"turn {int(place['turn'])}", f"world {int(place['world'])}"]
    return WorldError(f"{file.name}: {_SAYS.get(code, said)}, in {', '.join(where)}")
