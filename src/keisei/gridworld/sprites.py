"""What things look like in a cell: small pictures made of discs, boxes and polygons, drawn here and nowhere loaded.

A sprite is `[size, size, 4]` float32: red, green and blue from 0 to 1, times how much of what lies below is covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from keisei.environment import Bool, Float32
from keisei.gridworld.letters import letter

Colour = tuple[int, int, int]
Point = tuple[float, float]
Paint = Callable[["Brush", Colour], None]

_FINE = 4  # points in each direction that a pixel is the mean of

WHITE, INK = (255, 255, 255), (32, 30, 34)
_HEADINGS = ((0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0))  # up, right, down, left, as x and y


def shade(colour: Colour, share: float, towards: Colour = (0, 0, 0)) -> Colour:
    """A colour mixed with a share of another one."""
    mixed = (round(a + (b - a) * share) for a, b in zip(colour, towards, strict=True))
    red, green, blue = mixed
    return red, green, blue


def light(colour: Colour, share: float) -> Colour:
    """A colour nearer to white."""
    return shade(colour, share, WHITE)


class Brush:
    """A cell to paint on, its sides from 0 to 1; later strokes cover earlier ones."""

    def __init__(self, size: int) -> None:
        points = (np.arange(size * _FINE, dtype=np.float32) + 0.5) / (size * _FINE)
        self.x, self.y = points[None, :], points[:, None]
        self._size = size
        self._canvas: Float32 = np.zeros((size * _FINE, size * _FINE, 4), np.float32)

    def paint(self, where: Bool, colour: Colour, cover: float = 1.0) -> None:
        """Paint where a mask says."""
        self._canvas[where] *= 1 - cover
        self._canvas[where] += np.array([*(channel / 255 * cover for channel in colour), cover], np.float32)

    def everywhere(self) -> Bool:
        """The whole cell."""
        return np.ones(self._canvas.shape[:2], np.bool_)

    def disc(self, x: float, y: float, radius: float, flat: float = 1.0) -> Bool:
        """A disc, or an ellipse `flat` times as high as wide."""
        inside: Bool = (self.x - x) ** 2 + ((self.y - y) / flat) ** 2 <= radius**2
        return inside

    def box(self, left: float, top: float, right: float, bottom: float, round_by: float = 0.0) -> Bool:
        """A box with rounded corners."""
        across = np.maximum(np.abs(self.x - (left + right) / 2) - (right - left) / 2 + round_by, 0)
        along = np.maximum(np.abs(self.y - (top + bottom) / 2) - (bottom - top) / 2 + round_by, 0)
        if round_by == 0:
            inside: Bool = (across <= 0) & (along <= 0)
            return inside
        rounded: Bool = across**2 + along**2 <= round_by**2
        return rounded

    def line(self, start: Point, end: Point, width: float) -> Bool:
        """A straight stroke with round ends."""
        (x, y), (to_x, to_y) = start, end
        along_x, along_y = to_x - x, to_y - y
        share = ((self.x - x) * along_x + (self.y - y) * along_y) / max(1e-9, along_x**2 + along_y**2)
        share = np.clip(share, 0, 1)
        near: Bool = (self.x - x - share * along_x) ** 2 + (self.y - y - share * along_y) ** 2 <= (width / 2) ** 2
        return near

    def polygon(self, *points: Point) -> Bool:
        """A polygon whose corners are given in order."""
        inside: Bool = np.zeros(self._canvas.shape[:2], np.bool_)
        for (x, y), (to_x, to_y) in zip(points, [*points[1:], points[0]], strict=True):
            crosses = (y > self.y) != (to_y > self.y)
            with np.errstate(divide="ignore", invalid="ignore"):
                at = (to_x - x) * (self.y - y) / np.float32(to_y - y if to_y != y else math.inf) + x
            inside ^= crosses & (self.x < at)
        return inside

    def text(self, character: str, left: float, top: float, height: float) -> Bool:
        """A letter or digit of `letters.py`, 3 × 5 points, of some height."""
        shape = letter(character)
        dot = height / shape.shape[0]
        row, column = np.floor((self.y - top) / dot).astype(int), np.floor((self.x - left) / dot).astype(int)
        inside = (row >= 0) & (row < shape.shape[0]) & (column >= 0) & (column < shape.shape[1])
        found: Bool = inside & shape[np.clip(row, 0, shape.shape[0] - 1), np.clip(column, 0, shape.shape[1] - 1)]
        return found

    def sprite(self) -> Float32:
        """What was painted, in pixels."""
        size = self._size
        mean: Float32 = self._canvas.reshape(size, _FINE, size, _FINE, 4).mean((1, 3))
        return mean


# --- shapes that kinds name ------------------------------------------------------------------------------------------


def _square(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), colour)


def _brick(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), shade(colour, 0.18))
    for left, top, right in ((-0.3, 0, 0.22), (0.26, 0, 0.97), (-0.3, 0.5, 0.6), (0.64, 0.5, 1.3)):
        brush.paint(brush.box(left, top + 0.02, right, top + 0.47, 0.05), colour)
        brush.paint(brush.box(left + 0.04, top + 0.04, right - 0.04, top + 0.11, 0.03), light(colour, 0.1))


def _disc(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.disc(0.5, 0.86, 0.3, 0.3), INK, 0.14)
    brush.paint(brush.disc(0.5, 0.53, 0.33), shade(colour, 0.25))
    brush.paint(brush.disc(0.5, 0.52, 0.29), colour)
    brush.paint(brush.disc(0.4, 0.42, 0.08), light(colour, 0.6))


def _apple(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.disc(0.5, 0.88, 0.26, 0.3), INK, 0.16)
    brush.paint(brush.disc(0.38, 0.57, 0.25, 1.1) | brush.disc(0.62, 0.57, 0.25, 1.1), shade(colour, 0.3))
    brush.paint(brush.disc(0.38, 0.56, 0.22, 1.1) | brush.disc(0.62, 0.56, 0.22, 1.1), colour)
    brush.paint(brush.disc(0.34, 0.46, 0.07), light(colour, 0.65))
    brush.paint(brush.line((0.5, 0.4), (0.54, 0.2), 0.07), (92, 64, 44))
    brush.paint(brush.polygon((0.54, 0.28), (0.68, 0.13), (0.83, 0.15), (0.7, 0.28)), (104, 162, 74))


def _diamond(brush: Brush, colour: Colour) -> None:
    left, right, middle = (0.12, 0.4), (0.88, 0.4), (0.5, 0.88)
    outline = brush.polygon((0.3, 0.16), (0.7, 0.16), right, middle, left)
    brush.paint(brush.disc(0.5, 0.9, 0.24, 0.26), INK, 0.16)
    brush.paint(outline, shade(colour, 0.2))
    brush.paint(brush.polygon((0.3, 0.16), (0.7, 0.16), (0.64, 0.4), (0.36, 0.4)), light(colour, 0.55))
    brush.paint(brush.polygon((0.3, 0.16), (0.36, 0.4), left), light(colour, 0.3))
    brush.paint(brush.polygon((0.7, 0.16), right, (0.64, 0.4)), colour)
    brush.paint(brush.polygon((0.36, 0.4), (0.64, 0.4), middle), light(colour, 0.18))
    brush.paint(brush.polygon(left, (0.36, 0.4), middle), colour)


def _bone(brush: Brush, colour: Colour) -> None:
    ends = ((0.22, 0.66), (0.34, 0.78), (0.66, 0.22), (0.78, 0.34))
    for width, paint in ((0.07, shade(colour, 0.45, (96, 84, 70))), (0.0, colour)):
        shape = brush.line((0.28, 0.72), (0.72, 0.28), 0.16 + width)
        for x, y in ends:
            shape = shape | brush.disc(x, y, 0.115 + width / 2)
        brush.paint(shape, paint)
    brush.paint(brush.line((0.38, 0.6), (0.6, 0.38), 0.04), WHITE, 0.8)


def _card(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.box(0.2, 0.12, 0.84, 0.96, 0.08), INK, 0.2)
    brush.paint(brush.box(0.16, 0.06, 0.82, 0.92, 0.09), shade(colour, 0.35))
    brush.paint(brush.box(0.2, 0.1, 0.78, 0.88, 0.06), (250, 247, 238))
    brush.paint(brush.box(0.25, 0.15, 0.73, 0.83, 0.04), colour)


def _water(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), colour)
    for x, y in ((0.12, 0.28), (0.58, 0.68)):
        brush.paint(_wave(brush, x, y), light(colour, 0.3))


def _wave(brush: Brush, x: float, y: float) -> Bool:
    crest = y - 0.05 * np.sin((brush.x - x) / 0.3 * 2 * np.pi)
    inside: Bool = (np.abs(brush.y - crest) < 0.035) & (brush.x > x) & (brush.x < x + 0.3)
    return inside


def _slime(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), colour)
    brush.paint(brush.disc(0.3, 0.32, 0.19) | brush.disc(0.52, 0.4, 0.12), shade(colour, 0.3))
    brush.paint(brush.disc(0.7, 0.74, 0.16) | brush.disc(0.55, 0.8, 0.09), shade(colour, 0.25))
    for x, y, radius in ((0.26, 0.26, 0.06), (0.73, 0.7, 0.05), (0.24, 0.78, 0.05), (0.8, 0.24, 0.05)):
        brush.paint(brush.disc(x, y, radius), light(colour, 0.3))


def _leaves(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), colour)
    for x, y in ((0.2, 0.24), (0.64, 0.18), (0.42, 0.56), (0.84, 0.6), (0.16, 0.84), (0.66, 0.88)):
        for lean in (-0.08, 0.0, 0.08):
            brush.paint(brush.line((x, y), (x + lean, y - 0.12), 0.045), shade(colour, 0.22))


def _sand(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), colour)
    for x, y in ((0.22, 0.3), (0.7, 0.2), (0.48, 0.62), (0.84, 0.74), (0.18, 0.82)):
        brush.paint(brush.disc(x, y, 0.03), shade(colour, 0.12))


def _stag(brush: Brush, colour: Colour) -> None:
    dark = shade(colour, 0.35)
    for side in (-1, 1):
        brush.paint(brush.line((0.5 + side * 0.1, 0.4), (0.5 + side * 0.28, 0.1), 0.06), dark)
        brush.paint(brush.line((0.5 + side * 0.2, 0.24), (0.5 + side * 0.4, 0.2), 0.055), dark)
        brush.paint(brush.line((0.5 + side * 0.16, 0.3), (0.5 + side * 0.1, 0.1), 0.05), dark)
        brush.paint(brush.polygon((0.5 + side * 0.14, 0.46), (0.5 + side * 0.4, 0.38), (0.5 + side * 0.2, 0.56)), dark)
    brush.paint(brush.disc(0.5, 0.62, 0.23, 1.35), dark)
    brush.paint(brush.disc(0.5, 0.61, 0.19, 1.38), colour)
    brush.paint(brush.disc(0.5, 0.8, 0.12, 0.9), light(colour, 0.45))
    for side in (-1, 1):
        brush.paint(brush.disc(0.5 + side * 0.1, 0.56, 0.04), INK)
    brush.paint(brush.disc(0.5, 0.77, 0.05, 0.7), INK)


def _hare(brush: Brush, colour: Colour) -> None:
    dark = shade(colour, 0.35)
    for side in (-1, 1):
        brush.paint(brush.line((0.5 + side * 0.1, 0.46), (0.5 + side * 0.16, 0.14), 0.19), dark)
        brush.paint(brush.line((0.5 + side * 0.1, 0.46), (0.5 + side * 0.16, 0.15), 0.13), colour)
        brush.paint(brush.line((0.5 + side * 0.12, 0.4), (0.5 + side * 0.15, 0.18), 0.05), (226, 168, 160))
    brush.paint(brush.disc(0.5, 0.65, 0.28, 0.95), dark)
    brush.paint(brush.disc(0.5, 0.64, 0.245, 0.95), colour)
    for side in (-1, 1):
        brush.paint(brush.disc(0.5 + side * 0.11, 0.6, 0.04), INK)
        brush.paint(brush.disc(0.5 + side * 0.07, 0.74, 0.075), light(colour, 0.55))
    brush.paint(brush.disc(0.5, 0.69, 0.035, 0.8), (190, 104, 104))


def _veil(brush: Brush, colour: Colour) -> None:
    brush.paint(brush.everywhere(), colour, 0.42)
    brush.paint(brush.box(0.1, 0.1, 0.9, 0.9, 0.22), light(colour, 0.5), 0.4)


_SHAPES: dict[str, Paint] = {
    "square": _square,
    "brick": _brick,
    "disc": _disc,
    "apple": _apple,
    "diamond": _diamond,
    "bone": _bone,
    "card": _card,
    "water": _water,
    "slime": _slime,
    "leaves": _leaves,
    "sand": _sand,
    "stag": _stag,
    "hare": _hare,
    "veil": _veil,
}
AGENT = "agent"
SHAPES: tuple[str, ...] = (*_SHAPES, AGENT)
"""How a kind may be drawn. Agents are drawn by `agent_sprite`: they have a number, and look somewhere."""


@cache
def sprite(shape: str, colour: Colour, size: int, mark: str = "") -> Float32:
    """What a kind looks like; a card has a letter as its mark."""
    brush = Brush(size)
    _SHAPES[shape](brush, colour)
    if shape == "card":
        brush.paint(brush.text(mark, 0.37, 0.29, 0.4), WHITE)
    return brush.sprite()


@cache
def agent_sprite(
    number: int, colour: Colour, heading: int, size: int, *, marked: Colour | None, asleep: bool
) -> Float32:
    """An agent: a round body with its number on it and eyes that look where it is heading.

    `marked` rings it, for one that looks different from others; one that misses turns is grey and has its eyes shut.
    """
    brush = Brush(size)
    body = shade(colour, 0.7, (150, 150, 150)) if asleep else colour
    brush.paint(brush.disc(0.5, 0.9, 0.34, 0.25), INK, 0.2)
    if marked is not None:
        brush.paint(brush.disc(0.5, 0.5, 0.5), marked)
        brush.paint(brush.disc(0.5, 0.5, 0.415), WHITE)
    brush.paint(brush.disc(0.5, 0.5, 0.45 if marked is None else 0.39), shade(body, 0.4))
    brush.paint(brush.disc(0.5, 0.5, 0.4 if marked is None else 0.355), body)
    x, y = _HEADINGS[heading]
    for side in (-1, 1):
        eye_x, eye_y = 0.5 + 0.27 * x - side * 0.16 * y, 0.5 + 0.27 * y + side * 0.16 * x
        if asleep:
            brush.paint(brush.line((eye_x - 0.07, eye_y), (eye_x + 0.07, eye_y), 0.05), INK)
        else:
            brush.paint(brush.disc(eye_x, eye_y, 0.105), WHITE)
            brush.paint(brush.disc(eye_x + 0.035 * x, eye_y + 0.035 * y, 0.06), INK)
    digits = str(number)
    height = 0.36 if len(digits) == 1 else 0.3
    wide = height / 5
    left = 0.5 - 0.1 * x - wide * (4 * len(digits) - 1) / 2
    for at, digit in enumerate(digits):
        brush.paint(brush.text(digit, left + 4 * wide * at, 0.5 - 0.12 * y - height / 2, height), WHITE)
    return brush.sprite()


def blend(canvas: npt.NDArray[np.float32], sprites: Float32) -> None:
    """Lay sprites `[…, 4]` over a canvas `[…, 3]`."""
    canvas *= 1 - sprites[..., 3:]
    canvas += sprites[..., :3]


def seat_colours(count: int) -> Sequence[Colour]:
    """Colours by which agents are told apart: twelve that differ, then the same in darker and lighter."""
    return [_seat_colour(seat) for seat in range(count)]


_SEATS: tuple[Colour, ...] = (
    (47, 111, 181),
    (214, 104, 38),
    (58, 138, 84),
    (138, 84, 178),
    (200, 62, 84),
    (34, 142, 150),
    (168, 130, 30),
    (112, 88, 72),
    (206, 92, 160),
    (88, 102, 206),
    (116, 148, 46),
    (78, 86, 100),
)


def _seat_colour(seat: int) -> Colour:
    turn, colour = seat // len(_SEATS), _SEATS[seat % len(_SEATS)]
    return colour if turn == 0 else shade(colour, 0.3) if turn % 2 else light(colour, 0.25)
