"""SFEN text that is accepted, and text that is refused by the name of its field: any text is one or the other."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reference_shogi as reference
from keisei.errors import NotationError
from keisei.shogi import Board

KINGS = "4k4/9/9/9/9/9/9/9/4K4"
SFENS: list[str] = [case["sfen"] for case in json.loads((Path(__file__).parent / "data" / "perft.json").read_text())]
fuzz = settings(max_examples=1500, deadline=None, derandomize=True, database=None)


# --- accepted


@pytest.mark.parametrize("sfen", SFENS)
def test_known_position_is_written_as_it_was_read(sfen: str) -> None:
    position, number = reference.parse_sfen(sfen)
    board = Board(sfen)
    assert board.sfen() == reference.write_sfen(position, number)
    assert Board(board.sfen()) == board


@pytest.mark.parametrize(
    ("given_hands", "written"),
    [
        ("-", "-"),
        ("P", "P"),
        ("NNPPP", "2N3P"),
        ("PnPb3P", "5Pbn"),
        ("pPlLnNsSgGbBrR", "RBGSNLPrbgsnlp"),
        ("2P2P", "4P"),
        ("18P", "18P"),
        ("9P9p", "9P9p"),
        ("10p8P", "8P10p"),
        ("p4n4s4g2b2r4l17P", "17P2r2b4g4s4n4lp"),
    ],
)
def test_hands_come_in_any_order_and_are_written_in_the_usual_one(given_hands: str, written: str) -> None:
    assert Board(f"{KINGS} b {given_hands} 1").sfen() == f"{KINGS} b {written} 1"


@pytest.mark.parametrize("board", ["9/9/9/9/9/9/9/9/9", "4k4/9/9/9/9/9/9/9/9", "9/9/9/9/9/9/9/9/4K4"])
@pytest.mark.parametrize("side", ["b", "w"])
def test_missing_king_is_accepted(board: str, side: str) -> None:
    accepted = Board(f"{board} {side} - 1")
    assert accepted.sfen() == f"{board} {side} - 1"
    assert not accepted.in_check()


def test_two_pawns_of_one_side_on_a_file_are_accepted() -> None:
    sfen = "4k4/4p4/4p4/9/9/9/4P4/4P4/4K4 b - 1"
    assert Board(sfen).sfen() == sfen


def test_side_to_move_may_be_in_check_from_everywhere() -> None:
    assert Board("4r3b/9/9/9/r7b/9/3n1n3/3sgs3/4K4 b - 1").in_check()


@pytest.mark.parametrize("number", ["1", "2", "100", "512", "9999"])
def test_move_number_is_kept(number: str) -> None:
    assert Board(f"{KINGS} b - {number}").sfen() == f"{KINGS} b - {number}"


def test_missing_move_number_is_one() -> None:
    # Not said in the design; the lead decided it.
    assert Board(f"{KINGS} w P").sfen() == f"{KINGS} w P 1"


def test_written_position_can_be_read_whatever_its_move_number() -> None:
    # Where the largest number lies, the design does not say.
    board = Board(f"{KINGS} b - 65535")
    board.push("5i5h")
    assert Board(board.sfen()).sfen() == board.sfen()


# --- refused, each by the name of its field

BOARD, SIDE, HANDS, NUMBER = "[Bb]oard", "[Ss]ide|[Tt]urn", "[Hh]and", "[Nn]umber"


@pytest.mark.parametrize(
    ("sfen", "field"),
    [
        pytest.param("", BOARD, id="nothing"),
        pytest.param("xyz", BOARD, id="one word"),
        pytest.param("9/9/9/9/9/9/9/9 b - 1", BOARD, id="eight ranks"),
        pytest.param("9/9/9/9/9/9/9/9/9/9 b - 1", BOARD, id="ten ranks"),
        pytest.param("9/9/9/9/9/9/9/9/ b - 1", BOARD, id="empty rank"),
        pytest.param("4k5/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="ten squares by a digit"),
        pytest.param("ppppppppp1/9/9/9/9/9/9/9/9 w - 1", BOARD, id="ten squares"),
        pytest.param("9p/9/9/9/9/9/9/9/9 w - 1", BOARD, id="a tenth square with a piece"),
        pytest.param("4k3/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="eight squares"),
        pytest.param("4k40/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="digit 0"),
        pytest.param("4x4/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="unknown letter"),
        pytest.param("+4k4/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="promoted digit"),
        pytest.param("4k4+/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="promoted end of rank"),
        pytest.param("4+k4/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="promoted king"),
        pytest.param("4k4/9/9/4+G4/9/9/9/9/4K4 b - 1", BOARD, id="promoted gold"),
        pytest.param("4k4/9/9/4++P4/9/9/9/9/4K4 b - 1", BOARD, id="promoted twice"),
        pytest.param("4k4/9/9/9/9/9/9/9/3KK4 b - 1", "[Kk]ing", id="two kings of Black"),
        pytest.param("4k4/9/9/9/4k4/9/9/9/4K4 b - 1", "[Kk]ing", id="two kings of White"),
        pytest.param("4k3P/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="pawn of Black on the last rank"),
        pytest.param("4k4/9/9/9/9/9/9/9/4K3p b - 1", BOARD, id="pawn of White on the last rank"),
        pytest.param("4k3L/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="lance on the last rank"),
        pytest.param("4k3N/9/9/9/9/9/9/9/4K4 b - 1", BOARD, id="knight on the last rank"),
        pytest.param("4k4/8N/9/9/9/9/9/9/4K4 b - 1", BOARD, id="knight on the last rank but one"),
        pytest.param("4k4/9/9/9/9/9/9/n8/4K4 b - 1", BOARD, id="knight of White on its last rank but one"),
        pytest.param("4k4/4R4/9/9/9/9/9/9/4K4 b - 1", "check", id="White could be taken"),
        pytest.param("4k4/9/9/9/9/9/9/4r4/4K4 w - 1", "check", id="Black could be taken"),
        pytest.param("4k4/4K4/9/9/9/9/9/9/9 b - 1", "check", id="kings side by side"),
        pytest.param(f"{KINGS}", SIDE, id="board alone"),
        pytest.param(f"{KINGS} x - 1", SIDE, id="unknown side"),
        pytest.param(f"{KINGS} B - 1", SIDE, id="capital side"),
        pytest.param(f"{KINGS} bw - 1", SIDE, id="both sides"),
        pytest.param(f"{KINGS} - b 1", SIDE, id="hands before side"),
        pytest.param(f"{KINGS} b", HANDS, id="no hands"),
        pytest.param(f"{KINGS} b x 1", HANDS, id="unknown piece in hand"),
        pytest.param(f"{KINGS} b K 1", HANDS, id="king in hand"),
        pytest.param(f"{KINGS} b +P 1", HANDS, id="promoted piece in hand"),
        pytest.param(f"{KINGS} b -P 1", HANDS, id="none and a pawn in hand"),
        pytest.param(f"{KINGS} b P- 1", HANDS, id="a pawn and none in hand"),
        pytest.param(f"{KINGS} b 0P 1", HANDS, id="no pawns"),
        pytest.param(f"{KINGS} b P2 1", HANDS, id="number after the piece"),
        pytest.param(f"{KINGS} b 2 1", HANDS, id="number without a piece"),
        pytest.param(f"{KINGS} b {'9' * 40}P 1", HANDS, id="very many pawns"),
        pytest.param(f"{KINGS} b 4294967297P 1", HANDS, id="2 to the 32nd pawns and one"),
        pytest.param(f"{KINGS} b 257P 1", HANDS, id="257 pawns"),
        pytest.param(f"{KINGS} b - x", NUMBER, id="move number of letters"),
        pytest.param(f"{KINGS} b - -1", NUMBER, id="negative move number"),
        pytest.param(f"{KINGS} b - 1.5", NUMBER, id="broken move number"),
        pytest.param(f"{KINGS} b - 1x", NUMBER, id="move number with a letter"),
        pytest.param(f"{KINGS} b - {'9' * 40}", NUMBER, id="very large move number"),
        pytest.param(f"{KINGS} b - 4294967297", NUMBER, id="move number of 2 to the 32nd and one"),
        pytest.param(f"{KINGS} b - \uff11", NUMBER, id="wide digit"),
    ],
)
def test_text_that_is_no_position_is_refused_by_the_name_of_its_field(sfen: str, field: str) -> None:
    with pytest.raises(NotationError, match=field):
        Board(sfen)


@pytest.mark.parametrize(("kind", "most"), [("P", 18), ("L", 4), ("N", 4), ("S", 4), ("G", 4), ("B", 2), ("R", 2)])
def test_more_pieces_than_a_set_has_are_refused(kind: str, most: int) -> None:
    on_board = f"k8/9/9/9/4{kind}4/9/9/9/8K"
    assert Board(f"{on_board} w {most - 1}{kind.lower()} 1").turn == "white"
    for hands in (f"{most}{kind.lower()}", f"{most}{kind}", f"{most - 1}{kind.lower()}{kind}"):
        with pytest.raises(NotationError, match=f"{BOARD}|{HANDS}"):
            Board(f"{on_board} w {hands} 1")
    if kind != "G":
        with pytest.raises(NotationError, match=f"{BOARD}|{HANDS}"):
            Board(f"{on_board.replace(kind, '+' + kind)} w {most}{kind.lower()} 1")


@pytest.mark.parametrize(
    "sfen", [f"{KINGS} b - 1 1", f"{KINGS} b - 1 moves 7g7f", f"{KINGS}\0 b - 1", f"{KINGS} b - 1\0"]
)
def test_text_after_a_position_is_refused(sfen: str) -> None:
    with pytest.raises(NotationError):
        Board(sfen)


def test_refused_text_is_quoted_on_one_line_of_sensible_length() -> None:
    with pytest.raises(NotationError, match="4x4") as caught:
        Board("4x4/9/9/9/9/9/9/9/4K4 b - 1")
    assert "\n" not in str(caught.value)
    with pytest.raises(NotationError) as caught:
        Board("\n" + "9" * 1_000_000)
    assert "\n" not in str(caught.value)


def test_surrogate_that_is_no_text_at_all_is_refused() -> None:
    with pytest.raises(NotationError):
        Board("\ud800" + KINGS + " b - 1")


# --- any text at all


def check_text(sfen: str) -> None:
    """A board that is written and read again without a change, or NotationError; where sure, which of the two."""
    try:
        position, _ = reference.parse_sfen(sfen)
    except ValueError:
        expected = None  # the reference is strict: the engine may still know what is meant
    else:
        expected = not reference.is_refused(position)
    try:
        board = Board(sfen)
    except NotationError as error:
        assert not expected, f"refused: {error}"  # noqa: PT017
        assert len(str(error)) > 10  # noqa: PT017
        return
    assert expected in (True, None), f"accepted: {sfen!r}"
    written = board.sfen()
    assert not reference.is_refused(reference.parse_sfen(written)[0])
    assert Board(written) == board
    assert Board(written).sfen() == written
    if expected:
        assert reference.parse_sfen(written)[0] == position
        assert board.legal_moves() == Board(written).legal_moves()


@fuzz
@given(st.text())
@example("\0")
@example(" ")
@example(" " * 100)
@example("/" * 100)
@example("9/" * 9)
@example("+" * 10_000)
@example("P" * 10_000 + " b - 1")
@example("lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b " + "P" * 10_000)
def test_any_text_is_a_board_or_an_error(text: str) -> None:
    check_text(text)


@fuzz
@given(st.text(alphabet="PLNSGBRKplnsgbrk+/123456789 bw-", max_size=120))
def test_any_text_of_sfen_letters_is_a_board_or_an_error(text: str) -> None:
    check_text(text)


@fuzz
@given(st.sampled_from(SFENS), st.integers(0, 2**32), st.integers(1, 4))
def test_edited_positions_are_boards_or_errors(sfen: str, seed: int, edits: int) -> None:
    rng = random.Random(seed)
    for _ in range(edits):
        at, letter = rng.randrange(len(sfen)), rng.choice("PLNSGBRKplnsgbrk+/0123456789 bw-\0\t")
        sfen = sfen[:at] + rng.choice([letter, "", letter + sfen[at]]) + sfen[at + 1 :]
    check_text(sfen)


@fuzz
@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(0, 9))
def test_random_boards_are_accepted_exactly_where_they_are_possible(seed: int, on_board: int, in_hands: int) -> None:
    rng = random.Random(seed)
    kinds = "KkPPPpppLlNnSsGgBbRr"
    squares = ["1"] * 81
    for square in rng.sample(range(81), on_board):
        kind = rng.choice(kinds)
        squares[square] = "+" * (kind not in "KkGg" and rng.random() < 0.3) + kind
    hands = "".join(rng.choice("PpPpLlNnSsGgBbRr") for _ in range(in_hands)) or "-"
    rows = "/".join("".join(squares[9 * row : 9 * row + 9]) for row in range(9))
    check_text(f"{rows} {rng.choice('bw')} {hands} {rng.randint(1, 300)}")


@fuzz
@given(st.text(max_size=20) | st.text(alphabet="startpoefnmvPLN123456789abcdefghi+*w- /", max_size=60))
def test_any_usi_line_is_a_board_or_an_error(text: str) -> None:
    for line in (
        text,
        f"position {text}",
        f"startpos moves {text}",
        f"sfen {text}",
        f"sfen {KINGS} b - 1 moves {text}",
    ):
        try:
            Board.from_usi(line)
        except ValueError as error:
            assert type(error).__name__ in ("NotationError", "IllegalMoveError")  # noqa: PT017
