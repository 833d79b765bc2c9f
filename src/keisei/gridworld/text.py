"""One world as text: two characters per cell, each with a colour of its own and that of the ground below it."""

from __future__ import annotations

from dataclasses import dataclass

from keisei.gridworld.place import FINISHED
from keisei.gridworld.render import Scene
from keisei.gridworld.sprites import AGENT, INK, WHITE, Colour, seat_colours, shade
from keisei.gridworld.world import Kind, WorldFile

_ARROWS = "^>v<"
_GROUND = ("square", "brick", "water", "slime", "leaves", "sand", "veil")  # shapes that fill their cell


@dataclass(frozen=True)
class Glyph:
    """One cell: its two characters, and their colours."""

    text: str
    ink: Colour
    paper: Colour


def glyphs(file: WorldFile, seen: Scene) -> list[list[Glyph]]:
    """The cells of a scene, line by line; without colours, their letters still say what is where."""
    kinds = file.world.kinds
    blank = Glyph("  ", INK, kinds[0].colour)
    lines = [[blank] * seen.cells.shape[2] for _ in range(seen.cells.shape[1])]
    for layer in seen.cells.tolist():
        for line, row in zip(lines, layer, strict=True):
            for column, kind in enumerate(row):
                if kind > 0:
                    line[column] = _over(line[column], kinds[kind])
    _stand(file, seen, lines)
    return lines


def _over(below: Glyph, kind: Kind) -> Glyph:
    if kind.shape == "veil":
        return Glyph(below.text, below.ink, shade(below.paper, 0.5, kind.colour))
    if kind.shape in _GROUND:
        return Glyph(
            "##" if kind.blocks else "~~" if kind.shape == "slime" else "  ", shade(kind.colour, 0.3), kind.colour
        )
    return Glyph(f"{kind.name.split()[-1][:1]} ", shade(kind.colour, 0.15), below.paper)


def _stand(file: WorldFile, seen: Scene, lines: list[list[Glyph]]) -> None:
    kinds, seats = file.world.kinds, seat_colours(len(seen.row))
    usual = [kind.name for kind in kinds].index(file.world.agent)
    for agent, (row, column) in enumerate(zip(seen.row.tolist(), seen.column.tolist(), strict=True)):
        looks = int(seen.looks[agent])
        if seen.status[agent] != FINISHED and kinds[looks].shape == AGENT:
            text = f"{agent}{_ARROWS[int(seen.heading[agent])]}"[:2] if agent < 10 else str(agent)[-2:]
            lines[row][column] = Glyph(text, WHITE, seats[agent] if looks == usual else kinds[looks].colour)
