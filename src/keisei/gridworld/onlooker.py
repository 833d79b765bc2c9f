"""What somebody knows of a world who is not one of its agents: how it looks, and who has left it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from keisei.environment import Bool, UInt8
from keisei.gridworld.engine import GridworldEnvironment
from keisei.gridworld.place import FINISHED
from keisei.gridworld.render import Painter, Scene, scene
from keisei.gridworld.text import glyphs


class Onlooker:
    """Looks at the first of an environment's worlds; `over`: as its last episode ended."""

    def __init__(self, environment: GridworldEnvironment) -> None:
        self._environment = environment

    def finished(self, *, over: bool) -> Bool:
        """Which agents have come to their own end `[agents]`."""
        found: Bool = self._place(over)["status"] == FINISHED
        return found

    def picture(self, *, over: bool) -> UInt8:
        """The world as `[height, width, 3]`."""
        return self._painter.paint(self._scene(over))

    def text(self, *, over: bool) -> str:
        """The world in lines, two characters for each cell."""
        lines = glyphs(self._environment.file, self._scene(over))
        return "\n".join("".join(glyph.text for glyph in line) for line in lines)

    @cached_property
    def _painter(self) -> Painter:
        _, height, width = self._environment.worlds.now["who"].shape
        return Painter(self._environment.file, height, width, len(self._environment.seats))

    def _scene(self, over: bool) -> Scene:
        return scene(self._place(over))

    def _place(self, over: bool) -> np.void:
        worlds = self._environment.worlds
        place: np.void = (worlds.last if over else worlds.now)[0]
        return place
