"""`Board`: what a person at the Python prompt does with one game."""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import reference_encoding as encoding
import reference_shogi as reference
from keisei.errors import ConfigError, IllegalMoveError, KeiseiError, NotationError
from keisei.shogi import Board, Outcome
from small_shogi import MOST_MOVES

HANDICAPS = {
    "lance": "lnsgkgsn1/1r5b1",
    "right_lance": "1nsgkgsnl/1r5b1",
    "bishop": "lnsgkgsnl/1r7",
    "rook": "lnsgkgsnl/7b1",
    "rook_lance": "lnsgkgsn1/7b1",
    "two_piece": "lnsgkgsnl/9",
    "four_piece": "1nsgkgsn1/9",
    "six_piece": "2sgkgs2/9",
    "eight_piece": "3gkg3/9",
    "ten_piece": "4k4/9",
}
MATSURI = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"
BACK_AND_FORTH = ["2h3h", "8b7b", "3h2h", "7b8b"]


def random_moves(seed: int, plies: int, sfen: str = reference.START) -> list[str]:
    board, rng = Board(sfen), random.Random(seed)
    moves: list[str] = []
    while len(moves) < plies and (legal := board.legal_moves()):
        moves.append(rng.choice(legal))
        board.push(moves[-1])
    return moves


def described(board: Board) -> tuple[object, ...]:
    """Everything that a board tells of its position."""
    return (
        board.sfen(), board.turn, board.ply, board.in_check(), board.occurrences(), board.outcome(),
        board.can_declare(),
        board.legal_moves(), list(board.moves), board.observation("packed").tobytes(),
    )  # fmt: skip


# --- the start


def test_a_board_begins_at_the_start_position() -> None:
    board = Board()
    assert board.sfen() == reference.START
    assert (board.turn, board.ply, list(board.moves), board.outcome()) == ("black", 0, [], None)
    assert (board.in_check(), board.can_declare(), board.occurrences()) == (False, False, 1)


def test_legal_moves_are_sorted_usi_strings() -> None:
    moves = Board().legal_moves()
    assert moves == reference.legal_usi(reference.parse_sfen(reference.START)[0])
    assert (len(moves), moves[0]) == (30, "1g1f")
    assert moves == sorted(moves)


@pytest.mark.parametrize("name", HANDICAPS)
def test_named_handicap_starts_with_white_to_move(name: str) -> None:
    board = Board.from_handicap(name)
    assert board.sfen() == f"{HANDICAPS[name]}/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"
    assert board.ply == 0


def test_unknown_handicap_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="twelve_piece") as caught:
        Board.from_handicap("twelve_piece")
    assert isinstance(caught.value, KeiseiError)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ({"declaration": "28"}, "declaration"),
        *(({"move_limit": limit}, "move_limit") for limit in (0, -1, 65536, "512", 512.0)),
    ],
)
def test_impossible_rules_are_refused_by_name(rules: dict[str, str | float], name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: expected .*, found {next(iter(rules.values()))!r}"):
        Board(**rules)  # type: ignore[arg-type]  # that is the point


def test_declaration_rule_may_be_given_as_a_number() -> None:
    assert (Board(declaration=27), Board(declaration=24)) == (Board(), Board(declaration="24"))
    assert Board.from_usi("startpos", declaration=24) == Board(declaration="24")


@pytest.mark.parametrize(
    "text",
    [
        "startpos moves 7g7f 3c3d",
        "position startpos moves 7g7f 3c3d",
        f"sfen {reference.START} moves 7g7f 3c3d",
        f"position sfen {reference.START} moves 7g7f 3c3d",
    ],
)
def test_usi_position_is_played_out(text: str) -> None:
    board = Board.from_usi(text)
    assert board.sfen() == "lnsgkgsnl/1r5b1/pppppp1pp/6p2/9/2P6/PP1PPPPPP/1B5R1/LNSGKGSNL b - 3"
    assert list(board.moves) == ["7g7f", "3c3d"]
    assert board.ply == 2


@pytest.mark.parametrize("text", ["startpos", "position startpos", "startpos moves", f"sfen {reference.START}"])
def test_usi_position_without_moves(text: str) -> None:
    assert Board.from_usi(text) == Board()


@pytest.mark.parametrize("text", ["", "position", "start", "sfen", "startpos 7g7f", "startpos move 7g7f", "moves 7g7f"])
def test_usi_text_without_a_position_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        Board.from_usi(text)


def test_all_593_moves_are_listed() -> None:
    moves = Board(MOST_MOVES).legal_moves()
    assert len(moves) == len(set(moves)) == 593


def test_usi_position_with_an_illegal_move_names_it() -> None:
    with pytest.raises(IllegalMoveError, match=re.escape("7g7f")):
        Board.from_usi("startpos moves 7g7f 3c3d 7g7f")
    with pytest.raises(NotationError, match=re.escape("7g-7f")):
        Board.from_usi("startpos moves 7g-7f")


# --- moves


def test_push_plays_a_move_and_pop_takes_it_back() -> None:
    board = Board()
    board.push("7g7f")
    assert (board.turn, board.ply, list(board.moves)) == ("white", 1, ["7g7f"])
    assert board.sfen() == "lnsgkgsnl/1r5b1/ppppppppp/9/9/2P6/PP1PPPPPP/1B5R1/LNSGKGSNL w - 2"
    assert board.pop() == "7g7f"
    assert described(board) == described(Board())


def test_move_number_counts_on_from_the_sfen() -> None:
    board = Board(reference.START.replace(" 1", " 40"))
    board.push("7g7f")
    assert board.sfen().endswith(" w - 41")
    assert board.ply == 1


@pytest.mark.parametrize("move", ["7g7e", "7g7f+", "5e5d", "3c3d", "P*5e", "8h2b"])
def test_illegal_move_is_named_with_its_position_and_changes_nothing(move: str) -> None:
    board = Board()
    assert not board.is_legal(move)
    with pytest.raises(IllegalMoveError) as caught:
        board.push(move)
    assert isinstance(caught.value, ValueError)
    assert move in str(caught.value)
    assert reference.START in str(caught.value)
    assert described(board) == described(Board())


@pytest.mark.parametrize(
    "text",
    ["", "7", "7g", "7g7", "7g7f++", "7g7f ", " 7g7f", "7g7f\0", "0g7f", "7j7f", "7G7F", "2h2h", "P*",
     "P*0e", "p*5e", "K*5e",
     "P*5e+", "+P*5e", "P**5e", "resign", "\uff17g7f", "7g7f" * 1000, "\ud800"],
)  # fmt: skip
def test_text_that_is_no_move_is_refused_and_changes_nothing(text: str) -> None:
    board = Board()
    with pytest.raises(NotationError):
        board.push(text)
    # Not said in the design: asking about such text may answer False or raise the same error.
    with contextlib.suppress(NotationError):
        assert not board.is_legal(text)
    assert described(board) == described(Board())


@pytest.mark.parametrize("thing", [7, b"7g7f", ["7g7f"]])
def test_what_is_no_text_at_all_is_named(thing: str) -> None:
    for read in (Board, Board.from_usi, Board().push, Board().is_legal):
        with pytest.raises(NotationError, match=f"^expected text, found {re.escape(repr(thing))}$"):
            read(thing)


def test_nothing_to_take_back_is_an_error() -> None:
    # Not said in the design: IndexError (as of an empty list) and Keisei's own error are both fine.
    with pytest.raises((IndexError, IllegalMoveError)):
        Board().pop()


@pytest.mark.parametrize("sfen", [reference.START, MATSURI, "8k/9/9/9/9/9/9/9/K8 b RB2G2S2N2L9Prb2g2s2n2l9p 1"])
def test_taking_back_a_whole_game_passes_the_same_positions(sfen: str) -> None:
    board, passed = Board(sfen), []
    moves = random_moves(3, 300, sfen)
    for usi in moves:
        passed.append(described(board))
        board.push(usi)
    for usi in reversed(moves):
        assert board.pop() == usi
        assert described(board) == passed.pop()
    assert board == Board(sfen)


def test_a_board_tells_the_same_as_the_slow_reference() -> None:
    for seed, sfen in enumerate([reference.START, MATSURI, "2k6/9/KR7/9/9/9/9/9/9 b - 1"]):
        game, board = reference.Game(sfen, move_limit=150), Board(sfen, move_limit=150)
        for usi in [*random_moves(seed, 150, sfen), None]:
            outcome = board.outcome()
            assert (None if outcome is None else (outcome.winner, outcome.reason)) == game.outcome()
            assert board.sfen() == game.sfen()
            assert board.legal_moves() == reference.legal_usi(game.position)
            assert sorted(board.legal_actions().tolist()) == encoding.legal_actions(game.position)
            assert (board.in_check(), board.occurrences()) == (game.checks[-1], game.occurrences())
            assert np.array_equal(board.observation(), encoding.planes(game))
            assert np.array_equal(board.observation("packed"), encoding.packed(game))
            if usi is not None:
                board.push(usi)
                game.push(usi)


def test_observation_has_the_shape_and_type_of_its_form() -> None:
    board = Board(MATSURI)
    planes, floats, packed = board.observation(), board.observation("float32"), board.observation("packed")
    assert [planes.shape, floats.shape, packed.shape] == [(46, 9, 9), (46, 9, 9), (99,)]
    assert [str(array.dtype) for array in (planes, floats, packed)] == ["uint8", "float32", "uint8"]
    assert np.array_equal(board.observation("float32"), encoding.float_planes(reference.Game(MATSURI)))
    assert board.legal_actions().dtype == np.uint16
    with pytest.raises(ValueError, match="float64"):
        board.observation("float64")  # type: ignore[arg-type]  # that is the point


def test_position_that_comes_very_often_is_counted_to_255_in_its_bytes() -> None:
    board = Board()
    for cycle in range(258):
        assert board.occurrences() == cycle + 1
        assert board.observation("packed")[96] == min(255, cycle)
        for usi in BACK_AND_FORTH:
            board.push(usi)
    assert board.ply == 1032
    assert board.observation("packed")[97:].tolist() == [1032 % 256, 1032 // 256]
    assert board.sfen() == reference.START.replace(" 1", " 1033")


# --- a board as a value


def test_copies_go_their_own_way() -> None:
    board = Board.from_usi("startpos moves 7g7f 3c3d")
    before = described(board)
    for other in (copy.copy(board), copy.deepcopy(board)):
        assert other is not board
        assert other == board
        assert described(other) == before
        other.push("8h2b+")
        assert described(board) == before
        assert other != board
        assert [other.pop(), other.pop(), other.pop()] == ["8h2b+", "3c3d", "7g7f"]
    board.push("2g2f")
    assert list(board.moves) == ["7g7f", "3c3d", "2g2f"]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_board_keeps_its_history_and_its_rules(protocol: int) -> None:
    board = Board(move_limit=12, declaration="24")
    for usi in BACK_AND_FORTH * 2:
        board.push(usi)
    other = pickle.loads(pickle.dumps(board, protocol))
    assert isinstance(other, Board)
    assert (other, hash(other), described(other)) == (board, hash(board), described(board))
    for usi in BACK_AND_FORTH:
        other.push(usi)
    assert other.outcome() == Outcome(None, "sennichite")
    other.pop()
    other.push("7b6b")
    assert other.outcome() == Outcome(None, "move_limit")
    assert [other.pop() for _ in range(12)][-1] == "2h3h"


def test_pickled_handicap_keeps_the_points_of_the_missing_pieces() -> None:
    board = Board.from_handicap("ten_piece")
    for usi in reference.TEN_PIECE_GAME.split()[:40]:
        board.push(usi)
    for other in (pickle.loads(pickle.dumps(board)), copy.copy(board), copy.deepcopy(board)):
        for usi in reference.TEN_PIECE_GAME.split()[40:]:
            other.push(usi)
        assert other.outcome() == Outcome("white", "declaration")


def test_boards_are_equal_when_position_history_and_rules_are() -> None:
    board = Board.from_usi("startpos moves 7g7f 3c3d")
    same = Board.from_usi("startpos moves 7g7f 3c3d")
    assert (board, hash(board)) == (same, hash(same))
    assert {board: "found"}[same] == "found"
    same.pop()
    assert same != board
    same.push("3c3d")
    assert (board, hash(board)) == (same, hash(same))


def test_boards_differ_in_position_history_or_rules() -> None:
    different = [
        Board(),
        Board.from_usi("startpos moves 7g7f"),
        Board.from_usi("startpos moves 7g7f 3c3d 2g2f"),
        Board.from_usi("startpos moves 2g2f 3c3d 7g7f"),  # the same position by another way
        Board.from_usi("startpos moves " + " ".join(BACK_AND_FORTH)),
        Board(reference.START.replace(" b ", " w ")),
        Board(move_limit=511),
        Board(declaration="24"),
        Board(declaration="none"),
        Board("4k4/9/9/9/9/9/9/9/4K4 b - 1"),
        Board("4k4/9/9/9/9/9/9/9/4K4 b - 1", handicap=True),
        Board("4k4/9/9/9/9/9/9/9/4K4 b P 1"),
        Board("4k4/9/9/9/9/9/9/9/4K4 b p 1"),
    ]
    for i, one in enumerate(different):
        assert [one == other for other in different] == [i == j for j in range(len(different))]
    assert Board() != reference.START


def test_boards_of_random_games_hardly_ever_share_a_hash() -> None:
    board = Board()
    hashes = {hash(board)}
    for usi in random_moves(8, 200):
        board.push(usi)
        hashes.add(hash(board))
    assert len(hashes) == board.ply + 1


# --- a board to look at


def test_printed_board_shows_the_position() -> None:
    board = Board()
    first = str(board)
    assert len(first.splitlines()) >= 9
    board.push("7g7f")
    assert str(board) != first
    board.push("3c3d")
    board.push("8h2b+")
    with_hand = str(board)
    board.push("3a2b")
    assert str(board) != with_hand


def test_svg_is_a_picture_of_the_position() -> None:
    board = Board()
    picture = ElementTree.fromstring(board.svg())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    board.push("7g7f")
    assert board.svg() != Board().svg()
    for sfen in (MATSURI, "4k4/9/9/9/9/9/9/9/9 b 16P 1", "9/9/9/9/9/9/9/9/9 b - 1"):
        ElementTree.fromstring(Board(sfen).svg())
