"""Shogi written twice: a slow, obvious reference in pure Python, from the rules and not from the engine.

Positions are plain tuples, moves are tried one by one, history is a list that is searched from the start. Nothing here
imports `keisei`. Squares are `(row, column)` as Black sees the board: row 0 is rank a, column 0 is file 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

Side = Literal["black", "white"]
Square = tuple[int, int]

START = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
HAND = "PLNSGBR"
FULL_SET = {"P": 18, "L": 4, "N": 4, "S": 4, "G": 4, "B": 2, "R": 2, "K": 2}
# White gave ten pieces, takes few, and declares at the end: only with the points of the missing pieces.
TEN_PIECE_GAME = (
    "5a4b 4g4f 3c3d 2h6h 3d3e 5i5h 4c4d 3i2h 4b3c 9g9f 3c3d 4f4e 3d4e 4i5i 5c5d 8h9g 4e4f 2h3i 2c2d 9g5c 2d2e 5c6b "
    "1c1d 5h4i 4f5g 3i3h 1d1e 6i7h 5d5e 6h6i 4d4e 3g3f 3e3f 4i3i 3f3g+ 1g1f P*3f 6b4d 1e1f 2i1g 1f1g+ 9i9g P*1h 9f9e "
    "N*4g 3i4i 3g2g 4d3c+ 3f3g 3h2i 1h1i+ 7g7f P*1h 2i2h L*9h 9e9d 9c9d 7h7g 2g2h 3c3b S*2g 6i6h 9d9e 9g9f 9e9f 6h3h "
    "L*8h 7g8f 9f9g+ 3b4c"
)
SQUARES: list[Square] = [(row, column) for row in range(9) for column in range(9)]

FORWARD = [(-1, 0)]
STRAIGHT = [(-1, 0), (1, 0), (0, -1), (0, 1)]
DIAGONAL = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
GOLD = [*STRAIGHT, (-1, -1), (-1, 1)]
STEPS = {
    "P": FORWARD, "N": [(-2, -1), (-2, 1)], "S": [*DIAGONAL, (-1, 0)], "G": GOLD, "K": STRAIGHT + DIAGONAL,
    "+P": GOLD, "+L": GOLD, "+N": GOLD, "+S": GOLD, "+B": STRAIGHT, "+R": DIAGONAL,
}  # fmt: skip
SLIDES = {"L": FORWARD, "B": DIAGONAL, "R": STRAIGHT, "+B": DIAGONAL, "+R": STRAIGHT}


class Move(NamedTuple):
    origin: Square | None  # None: a drop
    to: Square
    promotes: bool = False
    drop: str = ""


class Position(NamedTuple):
    """What counts for repetition: the board, the side to move, the hands. A piece is spelled as in SFEN, "" is none."""

    board: tuple[tuple[str, ...], ...]  # [row][column]
    turn: Side
    hands: tuple[tuple[int, ...], tuple[int, ...]]  # Black's and White's, in the order of HAND


def other(side: Side) -> Side:
    return "white" if side == "black" else "black"


def owner(piece: str) -> Side:
    return "black" if piece.isupper() else "white"


def hand_of(position: Position, side: Side) -> tuple[int, ...]:
    return position.hands[0 if side == "black" else 1]


def row_seen_by(side: Side, row: int) -> int:
    """0 is the farthest row from that side."""
    return row if side == "black" else 8 - row


def turned(position: Position) -> Position:
    """The same position with the board turned by 180° and the sides exchanged."""
    board = tuple(tuple(piece.swapcase() for piece in reversed(row)) for row in reversed(position.board))
    return Position(board, other(position.turn), (position.hands[1], position.hands[0]))


def turned_usi(usi: str) -> str:
    """The same move on the board turned by 180°."""
    move = from_usi(usi)
    origin = None if move.origin is None else (8 - move.origin[0], 8 - move.origin[1])
    return to_usi(Move(origin, (8 - move.to[0], 8 - move.to[1]), move.promotes, move.drop))


# --- SFEN and USI


def parse_sfen(sfen: str) -> tuple[Position, int]:
    """The position and the move number; ValueError where the text is no SFEN. Impossible positions are let through."""
    board_text, side, hands_text, number = [*sfen.split(" "), "1"][:4] if sfen.count(" ") == 2 else sfen.split(" ")
    board = []
    for line in board_text.split("/"):
        row: list[str] = []
        if not re.fullmatch(r"([1-9]|\+?[PLNSBRplnsbr]|[GKgk])+", line):
            raise ValueError(f"no rank: {line!r}")
        for part in re.findall(r"[1-9]|\+?[A-Za-z]", line):
            row += [""] * int(part) if part.isdigit() else [part]
        board.append(tuple(row))
    if [len(row) for row in board] != [9] * 9:
        raise ValueError(f"not nine ranks of nine squares: {board_text!r}")
    if side not in ("b", "w"):
        raise ValueError(f"no side: {side!r}")
    if not re.fullmatch(r"-|(([1-9][0-9]?)?[PLNSGBRplnsgbr])+", hands_text):
        raise ValueError(f"no hands: {hands_text!r}")
    counts = dict.fromkeys(HAND + HAND.lower(), 0)
    for count, piece in re.findall(r"([0-9]*)([A-Za-z])", hands_text):
        counts[piece] += int(count or "1")
    if not re.fullmatch(r"[0-9]{1,5}", number):
        raise ValueError(f"no move number: {number!r}")
    hands = (tuple(counts[p] for p in HAND), tuple(counts[p] for p in HAND.lower()))
    return Position(tuple(board), "black" if side == "b" else "white", hands), int(number)


def write_sfen(position: Position, number: int) -> str:
    """Hands in the usual order: R B G S N L P, Black's first."""
    ranks = []
    for row in position.board:
        text = "".join(piece or "." for piece in row)
        ranks.append(re.sub(r"\.+", lambda gap: str(len(gap.group())), text))
    hands = ""
    for side, letters in (("black", HAND), ("white", HAND.lower())):
        counts = position.hands[0 if side == "black" else 1]
        for letter, count in reversed(list(zip(letters, counts, strict=True))):
            hands += "" if count == 0 else letter if count == 1 else f"{count}{letter}"
    # R B G S N L P is the order of HAND turned round: P L N S G B R.
    return f"{'/'.join(ranks)} {position.turn[0]} {hands or '-'} {number}"


def square_name(square: Square) -> str:
    return f"{9 - square[1]}{'abcdefghi'[square[0]]}"


def square_named(name: str) -> Square:
    return "abcdefghi".index(name[1]), 9 - int(name[0])


def to_usi(move: Move) -> str:
    if move.origin is None:
        return f"{move.drop}*{square_name(move.to)}"
    return square_name(move.origin) + square_name(move.to) + "+" * move.promotes


def from_usi(usi: str) -> Move:
    if usi[1] == "*":
        return Move(None, square_named(usi[2:4]), drop=usi[0])
    return Move(square_named(usi[:2]), square_named(usi[2:4]), promotes=usi.endswith("+"))


# --- how pieces move


def reach(position: Position, square: Square) -> Iterator[Square]:
    """Where the piece on `square` could go, its own king's safety set aside."""
    piece = position.board[square[0]][square[1]]
    side = owner(piece)
    forward = 1 if side == "black" else -1
    for dr, dc in STEPS.get(piece.upper(), []):
        yield from walk(position, square, dr * forward, dc * forward, 1)
    for dr, dc in SLIDES.get(piece.upper(), []):
        yield from walk(position, square, dr * forward, dc * forward, 8)


def walk(position: Position, start: Square, dr: int, dc: int, most: int) -> Iterator[Square]:
    side = owner(position.board[start[0]][start[1]])
    row, column = start
    for _ in range(most):
        row, column = row + dr, column + dc
        if not (0 <= row < 9 and 0 <= column < 9):
            return
        met = position.board[row][column]
        if not met or owner(met) != side:
            yield row, column
        if met:
            return


def in_check(position: Position, side: Side) -> bool:
    """Whether some piece of the other side could take that side's king; never where that king is missing."""
    king = "K" if side == "black" else "k"
    enemies = [(r, c) for r, c in SQUARES if position.board[r][c] and owner(position.board[r][c]) != side]
    return any(position.board[row][column] == king for enemy in enemies for row, column in reach(position, enemy))


def never_moves(piece: str, row: int) -> bool:
    """A pawn or lance on the last row, a knight on the last two."""
    seen = row_seen_by(owner(piece), row)
    return (piece.upper() in ("P", "L") and seen == 0) or (piece.upper() == "N" and seen <= 1)


def candidate_moves(position: Position) -> Iterator[Move]:
    """Every move that fits how the pieces move; the king may still be left in check."""
    for row, column in SQUARES:
        piece = position.board[row][column]
        if piece and owner(piece) == position.turn:
            for to in reach(position, (row, column)):
                if not never_moves(piece, to[0]):
                    yield Move((row, column), to)
                camp = min(row_seen_by(position.turn, row), row_seen_by(position.turn, to[0])) < 3
                if camp and piece.upper() in "PLNSBR":
                    yield Move((row, column), to, promotes=True)
        elif not piece:
            yield from candidate_drops(position, (row, column))


def candidate_drops(position: Position, to: Square) -> Iterator[Move]:
    pawn = "P" if position.turn == "black" else "p"
    for letter, count in zip(HAND, hand_of(position, position.turn), strict=True):
        piece = letter if position.turn == "black" else letter.lower()
        nifu = piece == pawn and any(position.board[row][to[1]] == pawn for row in range(9))
        if count and not nifu and not never_moves(piece, to[0]):
            yield Move(None, to, drop=letter)


def after(position: Position, move: Move) -> Position:
    board = [list(row) for row in position.board]
    hand = list(hand_of(position, position.turn))
    if move.origin is None:
        piece = move.drop if position.turn == "black" else move.drop.lower()
        hand[HAND.index(move.drop)] -= 1
    else:
        piece = board[move.origin[0]][move.origin[1]]
        board[move.origin[0]][move.origin[1]] = ""
        taken = board[move.to[0]][move.to[1]].upper().removeprefix("+")
        if taken:
            hand[HAND.index(taken)] += 1
    board[move.to[0]][move.to[1]] = "+" + piece if move.promotes else piece
    hands = (tuple(hand), position.hands[1]) if position.turn == "black" else (position.hands[0], tuple(hand))
    return Position(tuple(tuple(row) for row in board), other(position.turn), hands)


def is_legal(position: Position, move: Move) -> bool:
    """Whether a candidate move keeps the own king safe and is no mate by a dropped pawn."""
    result = after(position, move)
    if in_check(result, position.turn):
        return False
    drops_pawn_with_check = move.drop == "P" and in_check(result, result.turn)
    return not (drops_pawn_with_check and not legal_moves(result))


@lru_cache(maxsize=1000)  # a test asks several times about one position
def legal_moves(position: Position) -> tuple[Move, ...]:
    return tuple(move for move in candidate_moves(position) if is_legal(position, move))


def legal_usi(position: Position) -> list[str]:
    return sorted(to_usi(move) for move in legal_moves(position))


def perft(position: Position, depth: int) -> int:
    return 1 if depth == 0 else sum(perft(after(position, move), depth - 1) for move in legal_moves(position))


def is_refused(position: Position) -> bool:
    """Whether no board may stand like this: too many pieces, a piece that can never move, a king left to be taken."""
    pieces = [position.board[row][column] for row, column in SQUARES]
    held = {letter: position.hands[0][i] + position.hands[1][i] for i, letter in enumerate(HAND)}
    for kind, most in FULL_SET.items():
        if sum(piece.upper().removeprefix("+") == kind for piece in pieces) + held.get(kind, 0) > most:
            return True
    stuck = any(position.board[r][c] and never_moves(position.board[r][c], r) for r, c in SQUARES)
    return stuck or pieces.count("K") > 1 or pieces.count("k") > 1 or in_check(position, other(position.turn))


# --- a game


class Game:
    """A position with its whole history, and the rules that end it."""

    def __init__(
        self, sfen: str = START, *, declaration: str = "27", move_limit: int = 512, handicap: bool = False
    ) -> None:
        start, self.number = parse_sfen(sfen)
        self.positions = [start]
        self.checks = [in_check(start, start.turn)]
        self.declaration, self.move_limit, self.handicap = declaration, move_limit, handicap

    @property
    def position(self) -> Position:
        return self.positions[-1]

    @property
    def plies(self) -> int:
        return len(self.positions) - 1

    def push(self, usi: str) -> None:
        self.positions.append(after(self.position, from_usi(usi)))
        self.checks.append(in_check(self.position, self.position.turn))

    def sfen(self) -> str:
        return write_sfen(self.position, self.number + self.plies)

    def occurrences(self) -> int:
        return self.positions.count(self.position)

    def outcome(self) -> tuple[Side | None, str] | None:
        """Who won and why, in the order of the rules; None while the game goes on."""
        turn = self.position.turn
        if not legal_moves(self.position):
            return other(turn), "checkmate" if self.checks[-1] else "stalemate"
        if self.occurrences() >= 4:
            return self.repetition()
        if (declared := self.declared()) is not None:
            return declared
        return (None, "move_limit") if self.plies >= self.move_limit else None

    def repetition(self) -> tuple[Side | None, str]:
        """Who gave check with every move of its own between the first and the fourth occurrence loses."""
        first, _, _, fourth = [i for i, past in enumerate(self.positions) if past == self.position][:4]
        for side in ("black", "white"):
            # A position in which White is to move came about by a move of Black.
            own = [i for i in range(first + 1, fourth + 1) if self.positions[i].turn != side]
            if all(self.checks[i] for i in own):
                return ("white" if side == "black" else "black"), "perpetual_check"
        return None, "sennichite"

    def declared(self) -> tuple[Side | None, str] | None:
        points = self.declaration_points()
        turn = self.position.turn
        if points is None or self.declaration == "none":
            return None
        if self.declaration == "27":
            return (turn, "declaration") if points >= (28 if turn == "black" else 27) else None
        if points >= 31:
            return turn, "declaration"
        return (None, "declaration") if points >= 24 else None

    def declaration_points(self) -> int | None:
        """The points of the side to move; None where it may not declare however many it has."""
        turn = self.position.turn
        camp = [
            self.position.board[row][column].upper().removeprefix("+")
            for row, column in SQUARES
            if row_seen_by(turn, row) < 3
            and self.position.board[row][column]
            and owner(self.position.board[row][column]) == turn
        ]
        if self.checks[-1] or "K" not in camp or len(camp) - 1 < 10:
            return None
        camp.remove("K")
        for letter, count in zip(HAND, hand_of(self.position, turn), strict=True):
            camp += [letter] * count
        return (
            sum(worth(kind) for kind in camp)
            + (missing_points(self.position) if turn == "white" else 0) * self.handicap
        )


def worth(kind: str) -> int:
    return 0 if kind == "K" else 5 if kind in "BR" else 1


def missing_points(position: Position) -> int:
    """The points of the pieces that a full set has, and this position has not."""
    full = sum(worth(kind) * count for kind, count in FULL_SET.items())
    there = sum(worth(piece.upper().removeprefix("+")) for row in position.board for piece in row if piece)
    there += sum(worth(kind) * (b + w) for kind, b, w in zip(HAND, *position.hands, strict=True))
    return full - there
