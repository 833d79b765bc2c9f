"""Action numbers, masks and observations of Shogi written the slow, obvious way, by the design's formulas.

Nothing here imports `keisei`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference_shogi import HAND, SQUARES, Game, Move, Position, Side, Square, hand_of, legal_moves, other, owner

UInt8 = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]
PLANE_OF_PIECE = ["P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R"]

# --- action numbers


def mover_index(square: Square, turn: Side) -> int:
    """9·row + column of the board as the mover sees it; for White the board is turned by 180°."""
    index = 9 * square[0] + square[1]
    return index if turn == "black" else 80 - index


def action_number(move: Move, turn: Side) -> int:
    to = mover_index(move.to, turn)
    if move.origin is None:
        return 12_960 + 7 * to + HAND.index(move.drop)
    origin = mover_index(move.origin, turn)
    return origin * 160 + 2 * (to - (1 if to > origin else 0)) + (1 if move.promotes else 0)


def action_move(action: int, turn: Side) -> Move:
    """The formula read backwards, by trying every number that it could have come from."""

    def square(index: int) -> Square:
        return divmod(index if turn == "black" else 80 - index, 9)

    if action >= 12_960:
        to, piece = divmod(action - 12_960, 7)
        return Move(None, square(to), drop=HAND[piece])
    origin, rest = divmod(action, 160)
    to, promotes = divmod(rest, 2)
    targets = [target for target in range(81) if target != origin]
    return Move(square(origin), square(targets[to]), promotes=promotes == 1)


def legal_actions(position: Position) -> list[int]:
    return sorted(action_number(move, position.turn) for move in legal_moves(position))


def legal_mask(position: Position) -> UInt8:
    mask = np.zeros(13_527, np.uint8)
    mask[legal_actions(position)] = 1
    return mask


def legal_bits(position: Position) -> UInt8:
    bits = np.zeros(1_691, np.uint8)  # ceil(13,527 / 8)
    for action in legal_actions(position):
        bits[action // 8] |= 1 << (action % 8)
    return bits


# --- observations


def planes(game: Game) -> UInt8:
    """[46, 9, 9] as the side to move sees it."""
    position, turn = game.position, game.position.turn
    out = np.zeros((46, 9, 9), np.uint8)
    for square in SQUARES:
        if piece := position.board[square[0]][square[1]]:
            plane = PLANE_OF_PIECE.index(piece.upper()) + (0 if owner(piece) == turn else 14)
            row, column = divmod(mover_index(square, turn), 9)
            out[plane, row, column] = 1
    for i in range(7):
        out[28 + i] = hand_of(position, turn)[i]
        out[35 + i] = hand_of(position, other(turn))[i]
    out[42] = 1 if turn == "white" else 0
    out[43] = 255 * game.plies // game.move_limit
    out[44] = game.occurrences() - 1
    out[45] = 1 if game.checks[-1] else 0
    return out


def scale() -> Float32:
    """[46] what one step of the uint8 planes is worth in the float32 planes."""
    hand = [1 / 18, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 2, 1 / 2]
    return np.array([1.0] * 28 + hand + hand + [1.0, 1 / 255, 1 / 3, 1.0], np.float32)


def float_planes(game: Game) -> Float32:
    return planes(game).astype(np.float32) * scale()[:, None, None]


def packed(game: Game) -> UInt8:
    """[99] the same in bytes, with the plies whole."""
    position, turn = game.position, game.position.turn
    out = np.zeros(99, np.uint8)
    for square in SQUARES:
        if piece := position.board[square[0]][square[1]]:
            plane = PLANE_OF_PIECE.index(piece.upper()) + (0 if owner(piece) == turn else 14)
            out[mover_index(square, turn)] = plane + 1
    out[81:88] = hand_of(position, turn)
    out[88:95] = hand_of(position, other(turn))
    out[95] = (1 if turn == "white" else 0) + (2 if game.checks[-1] else 0)
    out[96] = min(255, game.occurrences() - 1)
    out[97], out[98] = game.plies % 256, game.plies // 256
    return out
