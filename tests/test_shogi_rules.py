"""The rules of Shogi: 74 cases from other programs' tests, and what no other program tests.

Most cases are also played with the board turned round and the sides exchanged: White has no other rules than Black.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

import pytest

import reference_shogi as reference
from keisei.errors import IllegalMoveError
from keisei.shogi import Board, Outcome


class Case(TypedDict):
    kind: str
    name: str
    sfen: str
    move: NotRequired[str]
    expect_legal: NotRequired[bool]
    n_legal: NotRequired[int]
    law27_side_to_move: NotRequired[str]
    law24_side_to_move: NotRequired[str]
    points_black: NotRequired[int]
    points_white: NotRequired[int]
    note: NotRequired[str]
    moves: NotRequired[str]
    expect: NotRequired[str]


CASES: list[Case] = json.loads((Path(__file__).parent / "data" / "shogi-rules.json").read_text())
REPETITIONS = {case["name"]: case for case in CASES if case["kind"] == "repetition"}
WINNERS = {
    "white_wins": Outcome("white", "perpetual_check"),
    "black_wins": Outcome("black", "perpetual_check"),
    "draw": Outcome(None, "sennichite"),
    "none": None,
}
DECLARABLE = "2GK1+L3/2+P+S+R1G+N1/3+B1GG2/9/9/9/9/k8/9 b RBSN9P 1"
BACK_AND_FORTH = ["2h3h", "8b7b", "3h2h", "7b8b"]


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case["kind"] in kinds]
    names = [f"{case['kind']}: {case['name']} {case.get('move', '')}".strip() for case in chosen]
    return pytest.mark.parametrize("case", chosen, ids=names)


def turned_sfen(sfen: str) -> str:
    position, number = reference.parse_sfen(sfen)
    return reference.write_sfen(reference.turned(position), number)


def played(sfen: str, moves: list[str], *, move_limit: int = 512) -> Board:
    board = Board(sfen, move_limit=move_limit)
    for usi in moves:
        board.push(usi)
    return board


def told(outcome: Outcome | None) -> tuple[str | None, str] | None:
    return None if outcome is None else (outcome.winner, outcome.reason)


def test_every_rule_case_is_tested() -> None:
    assert len(CASES) == 74
    assert {case["kind"] for case in CASES} == {
        "uchifuzume", "movegen", "promotion", "nifu", "declaration", "repetition",
    }  # fmt: skip


# --- which moves are legal


@of_kind("uchifuzume", "movegen", "promotion", "nifu")
def test_legal_moves_of_rule_case(case: Case) -> None:
    check_moves(Board(case["sfen"]), case["n_legal"], case.get("move"), case.get("expect_legal"))


@of_kind("uchifuzume", "movegen", "promotion", "nifu")
def test_legal_moves_of_rule_case_turned_round(case: Case) -> None:
    move = reference.turned_usi(case["move"]) if "move" in case else None
    check_moves(Board(turned_sfen(case["sfen"])), case["n_legal"], move, case.get("expect_legal"))


def check_moves(board: Board, number: int, move: str | None, legal: bool | None) -> None:
    moves = board.legal_moves()
    assert len(moves) == len(set(moves)) == number
    assert moves == reference.legal_usi(reference.parse_sfen(board.sfen())[0])
    if move is None:
        return
    assert (move in moves) == board.is_legal(move) == legal
    if legal:
        board.push(move)
    else:
        with pytest.raises(IllegalMoveError):
            board.push(move)


def test_promoted_pawn_is_no_second_pawn_on_its_file() -> None:
    board = Board("4k4/9/9/9/4+P4/9/9/9/4K4 b P 1")
    assert board.is_legal("P*5h")


def test_two_pawns_of_one_side_on_a_file_forbid_a_third() -> None:
    board = Board("4k4/9/9/4P4/4P4/9/9/9/4K4 b P 1")
    assert not any(move.startswith("P*5") for move in board.legal_moves())
    assert board.is_legal("P*4e")


def test_opponents_pawn_on_the_file_is_no_nifu() -> None:
    assert Board("4k4/9/4p4/9/9/9/9/9/4K4 b P 1").is_legal("P*5e")


@pytest.mark.parametrize("move", ["P*5a", "L*5a", "N*5a", "N*5b"])
def test_drop_where_the_piece_can_never_move_is_illegal(move: str) -> None:
    board = Board("k8/9/9/9/9/9/9/9/8K b PLN 1")
    turned = Board(turned_sfen(board.sfen()))
    assert not board.is_legal(move)
    assert not turned.is_legal(reference.turned_usi(move))


def test_moving_out_of_the_camp_may_promote() -> None:
    board = Board("k8/9/4S4/9/9/9/9/9/8K b - 1")
    assert board.is_legal("5c4d+")
    assert board.is_legal("5c4d")


def test_gold_and_king_never_promote() -> None:
    board = Board("8k/9/9/4G4/9/9/9/9/8K b - 1")
    assert board.is_legal("5d5c")
    assert not board.is_legal("5d5c+")
    assert not Board("8k/9/9/4K4/9/9/9/9/9 b - 1").is_legal("5d5c+")


def test_pinned_piece_moves_only_along_the_pin() -> None:
    board = Board("4r3k/9/9/9/9/9/9/4G4/4K4 b - 1")
    assert sorted(move for move in board.legal_moves() if move.startswith("5h")) == ["5h5g"]


def test_king_in_double_check_must_move() -> None:
    board = Board("4r3k/9/9/9/b8/9/9/9/4K4 b GR 1")
    assert board.in_check()
    assert {move[:2] for move in board.legal_moves()} == {"5i"}


def test_king_may_not_step_back_along_the_checking_line() -> None:
    board = Board("4r3k/9/9/9/9/9/4K4/9/9 b - 1")
    assert not board.is_legal("5g5h")
    assert board.is_legal("5g4h")


def test_missing_king_is_never_in_check_and_moves_freely() -> None:
    board = Board("4r3k/9/9/9/9/9/9/4G4/9 b - 1")
    assert not board.in_check()
    assert board.is_legal("5h6h")


# --- how a game ends


def test_mate_wins_for_the_mover() -> None:
    board = played("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", ["G*5b"])
    assert board.outcome() == Outcome("black", "checkmate")
    assert board.legal_moves() == []


def test_stalemate_also_wins_for_the_mover() -> None:
    board = played("8k/9/6N2/7G1/9/9/9/9/K8 b - 1", ["2d2c"])
    assert not board.in_check()
    assert board.outcome() == Outcome("black", "stalemate")


def test_side_without_any_piece_is_stalemated() -> None:
    assert Board("4k4/9/9/9/9/9/9/9/9 b - 1").outcome() == Outcome("white", "stalemate")


@of_kind("repetition")
def test_repetition_case(case: Case) -> None:
    assert played(case["sfen"], case["moves"].split()).outcome() == WINNERS[case["expect"]]


@of_kind("repetition")
def test_repetition_case_turned_round(case: Case) -> None:
    exchanged = {"black_wins": "white_wins", "white_wins": "black_wins"}
    moves = [reference.turned_usi(usi) for usi in case["moves"].split()]
    expected = WINNERS[exchanged.get(case["expect"], case["expect"])]
    assert played(turned_sfen(case["sfen"]), moves).outcome() == expected


@of_kind("repetition")
def test_game_of_repetition_case_goes_on_until_its_fourth_occurrence(case: Case) -> None:
    board, game = Board(case["sfen"]), reference.Game(case["sfen"])
    for usi in case["moves"].split():
        assert board.outcome() is None or board.occurrences() >= 4
        board.push(usi)
        game.push(usi)
        assert board.occurrences() == game.occurrences()
        assert told(board.outcome()) == game.outcome()


def test_taking_a_move_back_takes_its_repetition_back() -> None:
    board = played(reference.START, BACK_AND_FORTH * 3)
    assert (board.occurrences(), board.outcome()) == (4, Outcome(None, "sennichite"))
    board.pop()
    assert (board.occurrences(), board.outcome()) == (3, None)
    board.push("7b8b")
    assert (board.occurrences(), board.outcome()) == (4, Outcome(None, "sennichite"))
    for _ in range(12):
        board.pop()
    assert (board.occurrences(), board.outcome()) == (1, None)


def test_same_board_with_other_hands_is_no_repetition() -> None:
    # Black's rook takes a pawn, White drops another: the board comes back, the hands do not.
    cycle = ["5i5d", "9a8a", "5d5i", "8a8b", "9i8i", "P*5d", "8i9i", "8b9a"]
    board = played("k8/9/9/4p4/9/9/9/9/K3R4 b 4p 1", cycle * 4)
    assert board.sfen().startswith("k8/9/9/4p4/9/9/9/9/K3R4 b 4P ")
    assert (board.occurrences(), board.outcome()) == (1, None)


def test_same_board_with_the_other_side_to_move_is_no_repetition() -> None:
    # Three moves of a king in a triangle against two there and back: the side to move changes every time.
    board = played("4k4/9/9/9/9/9/9/9/4K4 b - 1", ["5i4i", "5a5b", "4i4h", "5b5a", "4h5i"])
    assert board.sfen().startswith("4k4/9/9/9/9/9/9/9/4K4 w - ")
    assert board.occurrences() == 1


def test_repetition_looks_at_the_whole_history() -> None:
    # Black's king goes round in 18 moves, White's in 20: the same position comes every 360 plies.
    def around(columns: int, ranks: str) -> list[str]:
        near, middle, far = list(ranks)
        path = [f"{c}{near}" for c in range(1, columns + 1)] + [f"{columns}{middle}"]
        path += [f"{c}{far}" for c in range(columns, 0, -1)] + [f"1{middle}"]
        return [a + b for a, b in zip(path, path[1:] + path[:1], strict=True)]

    black, white = around(8, "ihg"), around(9, "abc")
    assert (len(black), len(white)) == (18, 20)
    board = Board("8k/9/9/9/9/9/9/9/8K b - 1", move_limit=5000)
    for turn in range(540):
        board.push(black[turn % 18])
        board.push(white[turn % 20])
        assert board.occurrences() == (turn + 1) // 180 + 1
        assert board.outcome() == (Outcome(None, "sennichite") if turn == 539 else None)


def test_one_quiet_move_long_ago_breaks_a_perpetual_check() -> None:
    checks, quiet = ["8c7c", "7a8a", "7c8c", "8a7a"], ["8c8d", "7a6a", "8d8c", "6a7a"]
    sfen = REPETITIONS["rook_CCC"]["sfen"]
    assert played(sfen, quiet + checks * 3).outcome() == Outcome(None, "sennichite")
    assert played(sfen, checks * 3).outcome() == Outcome("white", "perpetual_check")


def test_quiet_moves_before_the_first_occurrence_do_not_matter() -> None:
    # The rook comes from 8d, where it never returns to.
    board = played("2k6/9/K8/1R7/9/9/9/9/9 w - 1", ["7a6a", "8d8c", "6a7a", *["8c7c", "7a8a", "7c8c", "8a7a"] * 3])
    assert board.outcome() == Outcome("white", "perpetual_check")


@of_kind("declaration")
@pytest.mark.parametrize("law", ["27", "24"])
def test_declaration_case(case: Case, law: Literal["27", "24"]) -> None:
    verdict = case["law27_side_to_move"] if law == "27" else case.get("law24_side_to_move")
    if verdict is None:
        verdict = reference_verdict(case["sfen"], law)
    board = Board(case["sfen"], declaration=law, handicap="note" in case)
    outcomes = {"WIN": Outcome(board.turn, "declaration"), "DRAW": Outcome(None, "declaration"), "LOSE": None}
    assert board.outcome() == outcomes[verdict]
    # The design does not say it of the draw by 24 points: declaring is possible there, too.
    assert board.can_declare() == (verdict != "LOSE")


def reference_verdict(sfen: str, law: str) -> str:
    declared = reference.Game(sfen, declaration=law).declared()
    return "LOSE" if declared is None else "DRAW" if declared[0] is None else "WIN"


@of_kind("declaration")
def test_nobody_declares_where_there_is_no_declaration(case: Case) -> None:
    board = Board(case["sfen"], declaration="none")
    assert board.outcome() is None
    assert not board.can_declare()


@of_kind("declaration")
@pytest.mark.parametrize("law", ["27", "24"])
@pytest.mark.parametrize("handicap", [False, True])
def test_declaration_case_turned_round_agrees_with_the_reference(
    case: Case, law: Literal["27", "24"], handicap: bool
) -> None:
    for sfen in (case["sfen"], turned_sfen(case["sfen"])):
        expected = reference.Game(sfen, declaration=law, handicap=handicap).outcome()
        assert told(Board(sfen, declaration=law, handicap=handicap).outcome()) == expected


def test_missing_pieces_count_only_in_a_handicap_game() -> None:
    noted = [case["sfen"] for case in CASES if "note" in case]
    assert len(noted) == 2
    for sfen in noted:
        assert Board(sfen).outcome() is None
        assert Board(sfen, handicap=True).outcome() == Outcome("white", "declaration")


def test_missing_king_cannot_declare() -> None:
    without = DECLARABLE.replace("2GK1", "2G2")
    assert Board(DECLARABLE).can_declare()
    assert not Board(without).can_declare()
    assert Board(without).outcome() is None


def test_king_outside_the_camp_cannot_declare() -> None:
    # Eleven other pieces are in the camp; the king stands one step before it, or a step further.
    outside = "2G2+L3/2+P+S+R1G+N1/P2+B1GG2/3K5/9/9/9/k8/9 b RBSN8P 1"
    assert not Board(outside).can_declare()
    assert not Board(turned_sfen(outside)).can_declare()
    board = Board(outside)
    for usi in ("6d5c", "9h9i"):
        board.push(usi)
    assert board.can_declare()


def test_ten_pieces_in_the_camp_do_not_count_the_king() -> None:
    nine = DECLARABLE.replace("2GK1+L3", "3K1+L3").replace("RBSN9P", "RBGSN9P")
    assert Board(DECLARABLE).can_declare()
    assert not Board(nine).can_declare()


def test_named_handicap_gives_white_the_points_of_its_missing_pieces() -> None:
    board, plain = Board.from_handicap("ten_piece"), Board(Board.from_handicap("ten_piece").sfen())
    for usi in reference.TEN_PIECE_GAME.split():
        assert board.outcome() is None
        board.push(usi)
        plain.push(usi)
    assert board.turn == "white"
    assert board.outcome() == Outcome("white", "declaration")
    assert plain.outcome() is None


# --- which end comes first


def test_mate_on_the_last_ply_is_mate() -> None:
    board = played("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", ["G*5b"], move_limit=1)
    assert board.outcome() == Outcome("black", "checkmate")


def test_fourth_occurrence_on_the_last_ply_is_sennichite() -> None:
    assert played(reference.START, BACK_AND_FORTH * 3, move_limit=12).outcome() == Outcome(None, "sennichite")
    assert played(reference.START, (BACK_AND_FORTH * 3)[:11], move_limit=11).outcome() == Outcome(None, "move_limit")


def test_declaration_on_the_last_ply_is_a_declaration() -> None:
    board = played(DECLARABLE.replace(" b ", " w "), ["9h9i"], move_limit=1)
    assert board.outcome() == Outcome("black", "declaration")


def test_fourth_occurrence_comes_before_declaration() -> None:
    board = played(DECLARABLE, ["6a5a", "9h9i", "5a6a", "9i9h"] * 3)
    assert board.occurrences() == 4
    assert board.outcome() == Outcome(None, "sennichite")
    assert board.can_declare()


def test_move_limit_counts_plies_played_and_not_the_number_in_the_sfen() -> None:
    board = Board(reference.START.replace(" 1", " 511"), move_limit=4)
    for number, usi in enumerate(["2g2f", "8c8d", "2f2e", "8d8e"]):
        assert (board.outcome(), board.ply) == (None, number)
        board.push(usi)
    assert board.outcome() == Outcome(None, "move_limit")
    assert board.sfen().endswith(" 515")


def test_the_default_limit_is_512_plies() -> None:
    board, rng = Board("4k4/9/9/9/9/9/9/9/4K4 b - 1"), random.Random(512)
    while board.ply < 512:
        assert board.outcome() is None
        walk_without_repetition(board, rng)
    assert board.outcome() == Outcome(None, "move_limit")


def walk_without_repetition(board: Board, rng: random.Random) -> None:
    for usi in rng.sample(board.legal_moves(), len(board.legal_moves())):
        board.push(usi)
        if board.occurrences() < 4:
            return
        board.pop()
    raise AssertionError("every move comes to a fourth occurrence")


def test_legal_moves_are_the_same_after_the_end() -> None:
    board = played(reference.START, BACK_AND_FORTH * 3)
    assert board.outcome() is not None
    assert board.legal_moves() == Board().legal_moves()
    board.push("7g7f")
    assert board.outcome() is None
