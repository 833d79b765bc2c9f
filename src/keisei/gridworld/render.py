"""One world as a picture: `[height, width, 3]` uint8, with a line below that says the turn and what agents have earned.

What things look like is in `sprites.py`. A picture is made from a world's place, and changes nothing in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keisei.environment import Float32, Float64, Int32, UInt8
from keisei.errors import WorldError
from keisei.gridworld.letters import written
from keisei.gridworld.place import FINISHED
from keisei.gridworld.sprites import AGENT, SHAPES, Colour, agent_sprite, blend, light, seat_colours, shade, sprite
from keisei.gridworld.world import AnyWorld, Kind, WorldFile

_PIXELS, _SMALLEST, _LARGEST = 500, 24, 40  # of a map's longer side, and of a cell
_MOST_PIXELS = 1000

_PAPER, _FAINT = (250, 248, 243), (140, 134, 128)
_SLOT = 38  # dots of the small print that an agent's return takes
_TURN_SLOTS = 2  # so much room as for two of them
_MOST_LINES = 4
_NOTHING: Float32 = np.zeros(4, np.float32)


@dataclass(frozen=True)
class Scene:
    """What there is to draw of one world at one moment; the arrays are its own."""

    cells: UInt8  # [layers, height, width]
    row: Int32  # [agents]
    column: Int32  # [agents]
    heading: Int32  # [agents]
    looks: UInt8  # [agents] the kind that an agent looks like
    status: Int32  # [agents]
    returns: Float64  # [agents] in this episode
    turn: int
    max_turns: int


def scene(place: np.void) -> Scene:
    """The scene of a place as it stands."""
    fields = {name: place[name].copy() for name in ("cells", "row", "column", "heading", "looks", "status", "returns")}
    return Scene(**fields, turn=int(place["turn"]), max_turns=int(place["max_turns"]))


class Painter:
    """Draws scenes of one kind of world."""

    def __init__(self, file: WorldFile, height: int, width: int, agents: int, cell: int | None = None) -> None:
        """`cell` is how many pixels wide a cell is; unless it is said, 24 to 40, and fewer where the map is large."""
        self._kinds = file.world.kinds
        self._agent = _agent_kind(file.world)
        _check_shapes(file)
        self.cell = cell or _cell_size(max(height, width))
        self._seats = seat_colours(agents)
        self._floor = _floor(self._kinds[0].colour, height, width, self.cell)
        self._sprites = np.stack([_kind_sprite(kind, self.cell) for kind in self._kinds])

    def paint(self, seen: Scene) -> UInt8:
        """The picture of a scene."""
        canvas = self._floor.copy()
        for layer in seen.cells:
            if layer.any():
                blend(canvas, self._sprites[layer].transpose(0, 2, 1, 3, 4))
            self._paint_agents(canvas, seen, layer)
        rows, size, columns, _, _ = canvas.shape
        whole = canvas.reshape(rows * size, columns * size, 3)
        picture: UInt8 = (whole * 255 + 0.5).astype(np.uint8)
        return np.concatenate([picture, self._caption(seen, columns * size)])

    def _paint_agents(self, canvas: Float32, seen: Scene, layer: UInt8) -> None:
        """The agents that stand in a layer."""
        for agent, (row, column) in enumerate(zip(seen.row.tolist(), seen.column.tolist(), strict=True)):
            looks = int(seen.looks[agent])
            if seen.status[agent] == FINISHED or layer[row, column] != looks or self._kinds[looks].shape != AGENT:
                continue
            drawn = agent_sprite(
                agent,
                self._seats[agent],
                int(seen.heading[agent]),
                self.cell,
                marked=None if looks == self._agent else self._kinds[looks].colour,
                asleep=bool(seen.status[agent] > 0),
            )
            blend(canvas[row, :, column], drawn)

    def _caption(self, seen: Scene, width: int) -> UInt8:
        """The turn, and what each agent has earned; every agent has its place, as far as there is room."""
        dot = max(1, self.cell // 12)
        edge, step = 4 * dot, _SLOT * dot
        columns = max(1, (width - 2 * edge) // step)
        lines = min(_MOST_LINES, -(-(len(seen.returns) + _TURN_SLOTS) // columns))
        sheet: UInt8 = np.full((lines * 9 * dot + edge, width, 3), _PAPER, np.uint8)
        _write(sheet, f"turn {min(seen.turn, seen.max_turns)}/{seen.max_turns}", edge, edge, dot, _FAINT)
        for agent, earned in enumerate(seen.returns.tolist()[: lines * columns - _TURN_SLOTS]):
            line, column = divmod(agent + _TURN_SLOTS, columns)
            left, top = edge + column * step, edge + line * 9 * dot
            sheet[top - 2 * dot : top + 7 * dot - dot // 2, left : left + step - 2 * dot] = light(
                self._seats[agent], 0.82
            )
            _write(sheet, f"{agent}:{_short(earned)}", left + 2 * dot, top, dot, shade(self._seats[agent], 0.25))
        return sheet


def cell_colours(file: WorldFile, seen: Scene) -> UInt8:
    """A colour for each cell `[height, width, 3]`: of what is on top, agents in their own. For small pictures."""
    kinds = file.world.kinds
    table = np.array([kind.colour for kind in kinds], np.uint8)
    veils = np.array([kind.shape == "veil" for kind in kinds])
    drawn = np.broadcast_to(table[0], (*seen.cells.shape[1:], 3)).copy()
    seats, agent_kind = seat_colours(len(seen.row)), _agent_kind(file.world)
    for layer in seen.cells:
        veiled = veils[layer]
        solid = (layer > 0) & ~veiled
        drawn[solid] = table[layer[solid]]
        drawn[veiled] = drawn[veiled] // 2 + table[layer[veiled]] // 2
        for agent, (row, column) in enumerate(zip(seen.row.tolist(), seen.column.tolist(), strict=True)):
            if seen.status[agent] != FINISHED and layer[row, column] == seen.looks[agent]:
                same = seen.looks[agent] == agent_kind
                drawn[row, column] = seats[agent] if same else table[seen.looks[agent]]
    return drawn


def _cell_size(longer_side: int) -> int:
    wanted = min(_LARGEST, max(_SMALLEST, _PIXELS // longer_side))
    return max(4, min(wanted, _MOST_PIXELS // longer_side))


def _short(number: float) -> str:
    """A return in at most six characters."""
    return f"{number:.0f}" if abs(number) >= 1000 or number == round(number) else f"{number:.1f}"


def _agent_kind(world: AnyWorld) -> int:
    return [kind.name for kind in world.kinds].index(world.agent)


def _check_shapes(file: WorldFile) -> None:
    for kind in file.world.kinds:
        if kind.shape not in SHAPES:
            raise WorldError(f"{file.name}: '{kind.name}' has the shape '{kind.shape}', expected {', '.join(SHAPES)}")


def _kind_sprite(kind: Kind, size: int) -> Float32:
    """What a cell of a kind looks like; agents are drawn on their own."""
    if kind.shape == AGENT or kind.name == "nothing":
        return np.broadcast_to(_NOTHING, (size, size, 4))
    return sprite(kind.shape, kind.colour, size, kind.name.split()[-1][:1])


def _floor(colour: Colour, height: int, width: int, size: int) -> Float32:
    """The bare map `[height, size, width, size, 3]`: two shades in turn, so that cells can be counted."""
    even, odd = np.array(colour, np.float32) / 255, np.array(shade(colour, 0.035), np.float32) / 255
    checker = (np.add.outer(np.arange(height), np.arange(width)) % 2)[:, None, :, None, None]
    return np.broadcast_to(np.where(checker, odd, even), (height, size, width, size, 3)).astype(np.float32)


def _write(line: UInt8, text: str, left: int, top: int, dot: int, colour: Colour) -> int:
    """Write a text into a picture; gives how wide it is."""
    points = written(text).repeat(dot, 0).repeat(dot, 1)
    points = points[:, : max(0, line.shape[1] - left)]
    line[top : top + points.shape[0], left : left + points.shape[1]][points] = colour
    return int(points.shape[1])
