"""cshogi, measured as fast as it can be driven from Python. Runs in .venv-peers, as a program of its own.

cshogi offers no perft, and no batched environment with observations, so both are loops over its `Board`, written the
fastest way found: names bound outside the loop, the move list asked for once per position, features written into the
same arrays again and again, the mask in a `bytearray` (a NumPy mask, filled by a list of indices, makes the whole loop
20 % slower). One board at a time, so that it stays in the cache.
"""

import importlib.metadata
import random
import time
from collections.abc import Callable

import cshogi
import numpy as np
from cshogi import Board, LegalMoveList
from cshogi.dlshogi import FEATURES1_NUM, FEATURES2_NUM, make_move_label
from runner import serve

PERFT_5 = 19_861_490
MOVE_LIMIT = 512
LABELS = 27 * 81  # dlshogi's action space: a direction or a dropped piece, and the square it goes to
PIECE_PLANES = 2 * len(cshogi.PIECE_TYPES) + 2 * sum(cshogi.MAX_PIECES_IN_HAND)
REPETITION_ENDS = frozenset({cshogi.REPETITION_DRAW, cshogi.REPETITION_WIN, cshogi.REPETITION_LOSE})

Look = Callable[[list[int]], object]  # sees the legal moves of the board's position


def perft(board: Board, depth: int) -> int:
    """Count the leaves of two moves or more; those of the last move in bulk."""
    nodes = 0
    push, pop = board.push, board.pop
    if depth == 2:
        for move in LegalMoveList(board):
            push(move)
            nodes += len(LegalMoveList(board))
            pop()
        return nodes
    for move in LegalMoveList(board):
        push(move)
        nodes += perft(board, depth - 1)
        pop()
    return nodes


def measure_perft5(seconds: float) -> tuple[float, float]:
    """Count depth 5 of the start position again and again."""
    board = Board()
    nodes = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        found = perft(board, 5)
        if found != PERFT_5:
            raise SystemExit(f"cshogi counts {found} leaves, not {PERFT_5}")
        nodes += found
    return nodes, spent


def measure_games(seconds: float, board: Board, look: Look) -> tuple[float, float]:
    """Play random games, testing for mate, repetition, declaration and move limit; `look` at each position."""
    push, ended_by_repetition, can_declare, rnd = board.push, board.is_draw, board.is_nyugyoku, random.random
    plies = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        board.reset()
        for _ in range(MOVE_LIMIT):
            moves = list(board.legal_moves)
            if not moves or ended_by_repetition() in REPETITION_ENDS or can_declare():
                break
            look(moves)
            push(moves[int(rnd() * len(moves))])
            plies += 1
    return plies, spent


def measure_play(seconds: float) -> tuple[float, float]:
    """Random play alone."""
    return measure_games(seconds, Board(), lambda moves: None)


def measure_planes_119(seconds: float) -> tuple[float, float]:
    """dlshogi's 119 float planes and a byte mask over its labels."""
    board = Board()
    write_features = board._dlshogi_make_input_features
    features1 = np.empty((FEATURES1_NUM, 9, 9), np.float32)
    features2 = np.empty((FEATURES2_NUM, 9, 9), np.float32)
    mask, nothing = bytearray(LABELS), bytes(LABELS)

    def look(moves: list[int]) -> None:
        write_features(features1, features2)
        colour = board.turn
        mask[:] = nothing
        for move in moves:
            mask[make_move_label(move, colour)] = 1

    return measure_games(seconds, board, look)


def measure_planes_104(seconds: float) -> tuple[float, float]:
    """The plain 104 float planes (pieces and hands, no attacks) and the same mask."""
    board = Board()
    planes = np.empty((PIECE_PLANES, 9, 9), np.float32)
    mask, nothing = bytearray(LABELS), bytes(LABELS)

    def look(moves: list[int]) -> None:
        planes.fill(0)
        colour = board.turn
        (board.piece_planes_rotate if colour else board.piece_planes)(planes)
        mask[:] = nothing
        for move in moves:
            mask[make_move_label(move, colour)] = 1

    return measure_games(seconds, board, look)


if __name__ == "__main__":
    serve(
        "cshogi",
        importlib.metadata.version("cshogi"),
        {
            "perft5": measure_perft5,
            "play": measure_play,
            "planes_119": measure_planes_119,
            "planes_104": measure_planes_104,
        },
    )
