"""A game of Shogi to look at and play: positions, moves and results in USI words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from keisei.environment import Array, UInt8, UInt16
from keisei.errors import ConfigError, IllegalMoveError, NotationError
from keisei.shogi import _native, drawing
from keisei.shogi.actions import PACKED_BYTES, Turn, expand
from keisei.shogi.arguments import checked_number, checked_text

Declaration = Literal["27", "24", "none"]
GivenDeclaration = Declaration | Literal[27, 24]
"""A declaration rule as people write it: two of them read like numbers."""
Reason = Literal["checkmate", "stalemate", "sennichite", "perpetual_check", "declaration", "move_limit"]

_SIDES: tuple[Turn, Turn] = ("black", "white")
_RULES: tuple[Declaration, ...] = ("27", "24", "none")
_MOST_PLIES = 65535
MOST_DEPTH = 100
"""So deep a tree may be counted; nobody lives to see it, and the native code's stack holds it."""


@dataclass(frozen=True)
class Outcome:
    """How a game ended: `winner` is None for a draw."""

    winner: Turn | None
    reason: Reason


class Board:
    """A game with its history. Keeps the default rules (declaration 27, 512 plies) unless told otherwise."""

    def __init__(
        self,
        sfen: str | None = None,
        *,
        declaration: GivenDeclaration = "27",
        move_limit: int = 512,
        handicap: bool = False,
    ) -> None:
        """`handicap`: the points of the pieces missing from the set count for White in a declaration."""
        move_limit = checked_number("move_limit", move_limit, 1, _MOST_PLIES)
        self._start = "startpos" if sfen is None else checked_text(sfen)
        self._declaration, self._move_limit, self._handicap = _rule(declaration), move_limit, handicap
        self._game = _native.Game(self._start, self._declaration, move_limit, handicap)

    @classmethod
    def from_usi(cls, text: str, *, declaration: GivenDeclaration = "27", move_limit: int = 512) -> Self:
        """The game of a USI position: `startpos moves 7g7f 3c3d`, `sfen … moves …`, with or without `position`."""
        words = checked_text(text).split()
        words = words[1:] if words[:1] == ["position"] else words
        at = words.index("moves") if "moves" in words else len(words)
        board = cls(_start_of(words[:at], text), declaration=declaration, move_limit=move_limit)
        for usi in words[at + 1 :]:
            board.push(usi)
        return board

    @classmethod
    def from_handicap(cls, name: str, *, declaration: GivenDeclaration = "27", move_limit: int = 512) -> Self:
        """A named handicap (`lance` to `ten_piece`); the missing pieces' points count for White."""
        names = _native.handicap_names()
        if name not in names:
            raise NotationError(f"unknown handicap {name!r}: expected one of {', '.join(names)}")
        return cls(name, declaration=declaration, move_limit=move_limit)

    @property
    def turn(self) -> Turn:
        """Who moves next."""
        return _SIDES[self._game.turn()]

    @property
    def ply(self) -> int:
        """How many moves have been played."""
        return self._game.plies()

    @property
    def moves(self) -> list[str]:
        """The moves played so far."""
        return self._game.moves()

    def legal_moves(self) -> list[str]:
        """What the move rules allow, sorted; whether or not the game is over."""
        return self._game.legal_moves()

    def is_legal(self, usi: str) -> bool:
        """Whether the move may be played; raises `NotationError` where the text is no move at all."""
        return self._game.is_legal(checked_text(usi))

    def push(self, usi: str) -> None:
        """Play a move; raises `IllegalMoveError`, or `NotationError` where the text is no move at all."""
        if self.ply >= _MOST_PLIES:
            raise IllegalMoveError(f"no move {usi!r} after {_MOST_PLIES} plies")
        self._game.push(checked_text(usi))

    def pop(self) -> str:
        """Take back the last move and return it; raises `IndexError` where there is none."""
        return self._game.pop()

    def sfen(self) -> str:
        """The position; its move number goes on from the start's."""
        return self._game.sfen()

    def in_check(self) -> bool:
        """Whether the king of the side to move is attacked."""
        return self._game.in_check()

    def can_declare(self) -> bool:
        """Whether the side to move meets the declaration rule, be it for a win or a draw."""
        return self._game.can_declare()

    def occurrences(self) -> int:
        """How often the present position (board, side, hands) has stood in this game, this time included."""
        return self._game.occurrences()

    def outcome(self) -> Outcome | None:
        """How the game ended, None while it goes on. The move limit is a draw here."""
        reason, winner = self._game.outcome()
        if not reason:
            return None
        return Outcome(_SIDES[winner] if winner >= 0 else None, reason)  # type: ignore[arg-type]

    def perft(self, depth: int) -> int:
        """How many sequences of `depth` legal moves there are."""
        return self._game.perft(checked_number("depth", depth, 0, MOST_DEPTH))

    def divide(self, depth: int) -> dict[str, int]:
        """`perft`, split by the first move."""
        return dict(self._game.divide(checked_number("depth", depth, 1, MOST_DEPTH)))

    def observation(self, form: Literal["packed", "uint8", "float32"] = "uint8") -> Array:
        """What a network sees, from the perspective of the side to move: `[46, 9, 9]`, or packed `[99]`."""
        if form not in ("packed", "uint8", "float32"):
            raise ConfigError(f"form: expected 'packed', 'uint8' or 'float32', found {form!r}")
        packed: UInt8 = np.empty(PACKED_BYTES, np.uint8)
        self._game.pack(packed)
        if form == "packed":
            return packed
        planes: Array = expand(packed[None], self._move_limit, form)[0]
        return planes

    def legal_actions(self) -> UInt16:
        """The numbers of the legal moves, in the order in which the environment lists them."""
        return np.array(self._game.legal_actions(), np.uint16)

    def svg(self) -> str:
        """The board as a picture."""
        return drawing.svg(self.sfen(), self.moves)

    def __str__(self) -> str:
        return drawing.text(self.sfen())

    def __repr__(self) -> str:
        return f"Board({self.sfen()!r})"

    def _repr_svg_(self) -> str:
        return self.svg()

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, _game=self._game.copy())
        return twin

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def copy(self) -> Self:
        """The same game, to go on by itself."""
        return self.__copy__()

    def __getstate__(self) -> tuple[str, Declaration, int, bool, list[str]]:
        return self._start, self._declaration, self._move_limit, self._handicap, self.moves

    def __setstate__(self, state: tuple[str, Declaration, int, bool, Sequence[str]]) -> None:
        start, declaration, move_limit, handicap, moves = state
        Board.__init__(self, start, declaration=declaration, move_limit=move_limit, handicap=handicap)
        for usi in moves:
            self.push(usi)

    def __eq__(self, other: object) -> bool:
        """Equal are games with the same rules and the same positions from start to end."""
        return isinstance(other, Board) and self._game.equals(other._game)

    def __hash__(self) -> int:
        """Of the present position and the number of plies: it changes with `push` and `pop`."""
        return hash((self._game.key(), self.ply))


def _rule(declaration: GivenDeclaration) -> Declaration:
    for rule in _RULES:
        if str(declaration) == rule:
            return rule
    raise ConfigError(f"declaration: expected '27', '24' or 'none', found {declaration!r}")


def _start_of(words: list[str], text: str) -> str | None:
    if words == ["startpos"]:
        return None
    if words[:1] == ["sfen"]:
        return " ".join(words[1:])
    raise NotationError(f"expected 'startpos' or 'sfen …', then 'moves …', found {text[:120]!r}")
