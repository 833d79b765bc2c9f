"""Random games move for move against rsshogi: legal moves, checks, SFEN, and how repetitions end.

rsshogi's declaration rule cannot be switched on from Python; declarations are tested against the slow reference.
"""

from __future__ import annotations

import random

import pytest
from rsshogi.core import Board as OtherBoard
from rsshogi.types import RepetitionState

from keisei.shogi import Board

STARTS = [
    "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1",
    "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1",
    "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
    "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1",
    "4k4/9/9/9/9/9/9/9/4K3R w rb2g2s2n2l9p 5",
    "2k6/9/KR7/9/9/9/9/9/9 b - 1",
    "k8/9/9/9/9/9/9/9/K7R b Br 1",
    "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1",
]
PLIES = 300


def play(seed: int, positions: int) -> int:
    """Compares that many positions; gives how many of them were fourth occurrences."""
    rng, fourth = random.Random(seed), 0
    while positions > 0:
        sfen = rng.choice(STARTS)
        ours, theirs, shuffling = Board(sfen, move_limit=10_000), OtherBoard(sfen), rng.random() < 0.6
        for _ in range(PLIES):
            positions -= 1
            moves = compare(ours, theirs)
            fourth += ours.occurrences() == 4
            if not moves or ours.occurrences() >= 4:
                break
            usi = next_move(moves, list(ours.moves), shuffling, rng)
            ours.push(usi)
            theirs.apply_usi(usi)
    return fourth


def compare(ours: Board, theirs: OtherBoard) -> list[str]:
    moves = ours.legal_moves()
    assert moves == sorted(move.to_usi() for move in theirs.legal_moves()), ours.sfen()
    assert ours.sfen() == theirs.to_sfen()
    assert ours.in_check() == theirs.is_in_check(), ours.sfen()
    outcome = ours.outcome()
    if not moves:
        assert outcome is not None
        assert outcome.winner == ("white" if ours.turn == "black" else "black")
        assert outcome.reason == ("checkmate" if theirs.is_mated() and theirs.is_in_check() else "stalemate")
        return moves
    told = None if outcome is None or outcome.reason == "declaration" else (outcome.winner, outcome.reason)
    assert told == repetition(theirs), f"{ours.sfen()} after {ours.moves}"
    return moves


def repetition(board: OtherBoard) -> tuple[str | None, str] | None:
    """Superior and inferior positions are terms of search, not ends of a game."""
    black_to_move = board.turn.is_black()
    state = board.repetition_state()
    if state == RepetitionState.DRAW:
        return None, "sennichite"
    if state in (RepetitionState.WIN, RepetitionState.LOSE):
        return "black" if (state == RepetitionState.WIN) == black_to_move else "white", "perpetual_check"
    return None


def next_move(moves: list[str], played: list[str], shuffling: bool, rng: random.Random) -> str:
    """Any move; a shuffling side mostly goes back where it came from, so that positions come again."""
    usi = rng.choice(moves)
    if shuffling and len(played) >= 2 and rng.random() < 0.85:
        last = played[-2]
        back = last[2:4] + last[:2]
        return back if back in moves else usi
    return usi


@pytest.mark.parametrize("seed", range(4))
def test_random_games_agree_with_rsshogi(seed: int) -> None:
    assert play(seed, 5_000) >= 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_million_positions_of_random_games_agree_with_rsshogi(seed: int) -> None:
    assert play(seed, 100_000) > 100
