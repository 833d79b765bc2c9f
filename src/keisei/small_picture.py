"""A picture of a game in a terminal, beside other lines: two points to a character, one above the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from keisei.environment import UInt8

GAP = 3
ROOM_BESIDE = 46  # characters that must be left for what stands beside the picture


@dataclass(frozen=True)
class Picture:
    """A small picture of a game, and a line about it."""

    colours: UInt8  # [height, width, 3]
    caption: str


@dataclass(frozen=True)
class SmallPicture:
    """A picture as text."""

    lines: Text
    width: int

    def beside(self, rows: Sequence[RenderableType], width: int) -> Table:
        """Other rows with the picture to their right."""
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(width=width - self.width - GAP)
        table.add_column(width=self.width)
        table.add_row(Group(*rows), self.lines)
        return table


def picture_text(picture: Picture | None, width: int, height: int, ascii_only: bool) -> SmallPicture | None:
    """A picture as text, where there is one, and room for it."""
    if picture is None:
        return None
    rows, columns, _ = picture.colours.shape
    wide, high = (2 * columns, rows) if ascii_only else (columns, -(-rows // 2))
    if width - wide - GAP < ROOM_BESIDE or high + 1 > height:
        return None
    text = _spaces(picture) if ascii_only else _half_blocks(picture)
    text.append(f"{picture.caption:.{wide}}", "dim")
    return SmallPicture(text, wide)


def _spaces(picture: Picture) -> Text:
    text = Text(no_wrap=True)
    for row in picture.colours.tolist():
        for colour in row:
            text.append("  ", f"on {_hexadecimal(colour)}")
        text.append("\n")
    return text


def _half_blocks(picture: Picture) -> Text:
    text = Text(no_wrap=True)
    lines = picture.colours.tolist()
    for upper, lower in zip_longest(lines[::2], lines[1::2]):
        for column, above in enumerate(upper):
            below = f" on {_hexadecimal(lower[column])}" if lower else ""
            text.append("▀", f"{_hexadecimal(above)}{below}")
        text.append("\n")
    return text


def _hexadecimal(colour: Sequence[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
