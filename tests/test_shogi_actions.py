"""The 13,527 action numbers, and planes made from packed positions."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_encoding as encoding
import reference_shogi as reference
from keisei.errors import KeiseiError
from keisei.shogi import Board
from keisei.shogi.actions import ACTIONS, PACKED_BYTES, PLANES, SCALE, action_to_usi, expand, usi_to_action

SIDES: tuple[reference.Side, ...] = ("black", "white")
SFENS = [
    reference.START,
    "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
    "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1",
    "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1",
    "4k4/9/9/9/9/9/9/9/9 b 16P 1",
    "8k/9/9/9/9/9/9/9/K8 w 18P4L4N4S4G2B2R 1",
]


def test_sizes() -> None:
    assert (ACTIONS, PLANES, PACKED_BYTES) == (81 * 80 * 2 + 81 * 7, 46, 99)


@pytest.mark.parametrize(
    ("turn", "usi", "number"),
    [
        # Counted by hand. For Black 9a is square 0, 1a is 8, 9i is 72, 1i is 80; for White it is the other way round.
        ("black", "9a8a", 0),
        ("black", "9a8a+", 1),
        ("black", "9a1i+", 159),
        ("black", "8a9a", 160),  # the square itself is left out: 8a to 9a is target 0
        ("black", "8a7a", 162),
        ("black", "7g7f", 56 * 160 + 2 * 47),
        ("black", "1i2i+", 80 * 160 + 2 * 79 + 1),
        ("black", "P*9a", 12_960),
        ("black", "R*1i", 13_526),
        ("black", "G*5e", 12_960 + 7 * 40 + 4),
        ("white", "1i2i", 0),
        ("white", "3c3d", 56 * 160 + 2 * 47),  # as 7g7f is for Black
        ("white", "P*1i", 12_960),
        ("white", "R*9a", 13_526),
        ("white", "B*5e", 12_960 + 7 * 40 + 5),
    ],
)
def test_action_number_counted_by_hand(turn: reference.Side, usi: str, number: int) -> None:
    assert usi_to_action(usi, turn) == number
    assert action_to_usi(number, turn) == usi


@pytest.mark.parametrize("turn", SIDES)
def test_every_action_is_one_move_and_back(turn: reference.Side) -> None:
    moves = [action_to_usi(action, turn) for action in range(ACTIONS)]
    assert len(set(moves)) == ACTIONS
    assert [usi_to_action(usi, turn) for usi in moves] == list(range(ACTIONS))
    assert moves == [reference.to_usi(encoding.action_move(action, turn)) for action in range(ACTIONS)]


@pytest.mark.parametrize("sfen", SFENS)
def test_board_and_reference_number_the_same_legal_actions(sfen: str) -> None:
    board = Board(sfen)
    expected = encoding.legal_actions(reference.parse_sfen(sfen)[0])
    assert sorted(board.legal_actions().tolist()) == expected
    assert sorted(usi_to_action(usi, board.turn) for usi in board.legal_moves()) == expected


@pytest.mark.parametrize("turn", SIDES)
@pytest.mark.parametrize("action", [-1, -13_527, ACTIONS, 2**31, 2**40])
def test_number_outside_the_actions_is_refused(action: int, turn: reference.Side) -> None:
    with pytest.raises(ValueError, match=str(action)) as caught:
        action_to_usi(action, turn)
    assert isinstance(caught.value, KeiseiError)


@pytest.mark.parametrize("usi", ["", "7g", "7g7g", "7g7f++", "K*5e", "p*5e", "P*5e+", "0a1a", "7g7f "])
def test_text_that_is_no_action_is_refused(usi: str) -> None:
    with pytest.raises(KeiseiError):
        usi_to_action(usi, "black")


def test_side_that_does_not_play_is_refused() -> None:
    with pytest.raises(ValueError, match="red"):
        usi_to_action("7g7f", "red")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="red"):
        action_to_usi(5, "red")  # type: ignore[arg-type]  # that is the point


@given(st.text(alphabet="123456789abcdefghi+*PLNSGBRK0jx ", max_size=7), st.sampled_from(SIDES))
def test_any_text_is_an_action_or_an_error(text: str, turn: reference.Side) -> None:
    try:
        action = usi_to_action(text, turn)
    except KeiseiError:
        return
    assert 0 <= action < ACTIONS
    assert action_to_usi(action, turn) == text


def test_scale_is_what_the_design_says() -> None:
    assert SCALE.dtype == np.float32
    assert np.array_equal(SCALE, encoding.scale())


def test_expanded_planes_are_those_of_the_board() -> None:
    rng, boards = random.Random(4), []
    for sfen in SFENS[:4]:
        board = Board(sfen, move_limit=99)
        for _ in range(99):
            boards.append(
                (board.observation("packed").astype(np.uint8), board.observation(), board.observation("float32"))
            )
            if not (legal := board.legal_moves()):
                break
            board.push(rng.choice(legal))
    packed = np.stack([p for p, _, _ in boards])
    planes, floats = expand(packed, 99, np.uint8), expand(packed, 99, np.float32)
    assert (str(planes.dtype), planes.shape) == ("uint8", (len(boards), 46, 9, 9))
    assert (str(floats.dtype), floats.shape) == ("float32", (len(boards), 46, 9, 9))
    assert np.array_equal(planes, np.stack([p for _, p, _ in boards]))
    assert np.array_equal(floats, np.stack([p for _, _, p in boards]))
    assert np.array_equal(floats, planes.astype(np.float32) * encoding.scale()[:, None, None])


def test_expanding_nothing_gives_nothing() -> None:
    assert expand(np.zeros((0, 99), np.uint8), 512, np.uint8).shape == (0, 46, 9, 9)


@pytest.mark.parametrize(
    ("plies", "value"), [(0, 0), (2, 0), (3, 1), (255, 127), (256, 127), (257, 127), (258, 128), (512, 255)]
)
def test_plane_of_plies_is_rounded_down(plies: int, value: int) -> None:
    packed = Board().observation("packed")[None].astype(np.uint8)
    packed[0, 97:] = [plies % 256, plies // 256]
    assert np.unique(expand(packed, 512, np.uint8)[0, 43]).tolist() == [value]


def test_wrong_packed_array_is_refused() -> None:
    # Not said in the design which error it is: TypeError from the binding and Keisei's own are both fine.
    for wrong in (np.zeros((2, 98), np.uint8), np.zeros(99, np.uint8), np.zeros((2, 99), np.int64)):
        with pytest.raises((ValueError, TypeError)):
            expand(wrong, 512, np.uint8)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    "wrong",
    [
        "expand(np.full((50, 99), 255, np.uint8), 512, np.uint8)",
        "expand(np.full((50, 99), 255, np.uint8), 512, np.float32)",
        "expand(np.full((1, 99), 29, np.uint8), 512, np.uint8)",
        "expand(np.zeros((1, 99), np.uint8), 0, np.uint8)",
        "expand(np.zeros((1, 99), np.uint8), -5, np.float32)",
        "expand(np.zeros((1, 99), np.uint8), 512, np.int64)",
    ],
)
def test_bytes_and_limits_that_cannot_be_are_refused_and_not_read(wrong: str) -> None:
    # In a process of its own: what is not refused here writes beside the array, or divides by zero.
    program = f"import numpy as np\nfrom keisei.shogi.actions import expand\n{wrong}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1, f"ended with status {ended.returncode}"
    assert "Error: " in ended.stderr
