"""Letters and digits of 3 × 5 points (a few are wider), for small print in pictures of worlds."""

from __future__ import annotations

from functools import cache

import numpy as np

from keisei.environment import Bool

_ROWS = {
    "0": "### #.# #.# #.# ###",
    "1": ".#. ##. .#. .#. ###",
    "2": "### ..# ### #.. ###",
    "3": "### ..# .## ..# ###",
    "4": "#.# #.# ### ..# ..#",
    "5": "### #.. ### ..# ###",
    "6": "### #.. ### #.# ###",
    "7": "### ..# ..# .#. .#.",
    "8": "### #.# ### #.# ###",
    "9": "### #.# ### ..# ###",
    "A": ".#. #.# ### #.# #.#",
    "B": "##. #.# ##. #.# ##.",
    "C": ".## #.. #.. #.. .##",
    "D": "##. #.# #.# #.# ##.",
    "E": "### #.. ##. #.. ###",
    "F": "### #.. ##. #.. #..",
    "G": ".## #.. #.# #.# .##",
    "H": "#.# #.# ### #.# #.#",
    "I": "### .#. .#. .#. ###",
    "J": "..# ..# ..# #.# .#.",
    "K": "#.# #.# ##. #.# #.#",
    "L": "#.. #.. #.. #.. ###",
    "M": "#...# ##.## #.#.# #...# #...#",
    "N": "#..# ##.# #.## #..# #..#",
    "O": ".#. #.# #.# #.# .#.",
    "P": "##. #.# ##. #.. #..",
    "Q": ".#. #.# #.# ### .##",
    "R": "##. #.# ##. #.# #.#",
    "S": ".## #.. .#. ..# ##.",
    "T": "### .#. .#. .#. .#.",
    "U": "#.# #.# #.# #.# ###",
    "V": "#.# #.# #.# #.# .#.",
    "W": "#...# #...# #.#.# ##.## #...#",
    "X": "#.# #.# .#. #.# #.#",
    "Y": "#.# #.# .#. .#. .#.",
    "Z": "### ..# .#. #.. ###",
    " ": "... ... ... ... ...",
    ".": ". . . . #",
    ",": ".. .. .. .# #.",
    ":": ". # . # .",
    "-": "... ... ### ... ...",
    "+": "... .#. ### .#. ...",
    "/": "..# ..# .#. #.. #..",
    "%": "#.# ..# .#. #.. #.#",
}
_UNKNOWN = "### #.# #.# #.# ###"


@cache
def letter(character: str) -> Bool:
    """The points of a letter `[5, width]`; small letters look like capitals."""
    rows = _ROWS.get(character.upper(), _UNKNOWN).split(" ")
    return np.array([[point == "#" for point in row] for row in rows], np.bool_)


def written(text: str) -> Bool:
    """The points of a text `[5, width]`, its letters one point apart."""
    if not text:
        return np.zeros((5, 0), np.bool_)
    gap = np.zeros((5, 1), np.bool_)
    parts = [part for character in text for part in (letter(character), gap)]
    return np.concatenate(parts[:-1], axis=1)
