"""How many positions lie so many moves away: 171 positions with counts that several programs agree on.

Counts up to `EVERY_TIME` nodes run always, the larger ones are `long` (the largest, 416 thousand million, takes some
twenty minutes). The slow reference of these tests proves itself on the small ones.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest

import reference_shogi as reference
from keisei.errors import ConfigError
from keisei.shogi import Board

EVERY_TIME = 120_000_000
REFERENCE = 600


class Case(TypedDict):
    sfen: str
    nodes: dict[str, int]


CASES: list[Case] = json.loads((Path(__file__).parent / "data" / "perft.json").read_text())
COUNTS = [(case["sfen"], int(depth), nodes) for case in CASES for depth, nodes in case["nodes"].items()]
MATSURI = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"


def named(sfen: str, depth: int, nodes: int) -> str:
    return f"{sfen.rsplit(' ', 1)[0]} depth {depth}: {nodes}"


@pytest.mark.parametrize(
    ("sfen", "depth", "nodes"),
    [
        pytest.param(*count, id=named(*count), marks=pytest.mark.long if count[2] > EVERY_TIME else [])
        for count in COUNTS
    ],
)
def test_perft_counts_the_known_number_of_nodes(sfen: str, depth: int, nodes: int) -> None:
    assert Board(sfen).perft(depth) == nodes


def test_all_perft_cases_are_there() -> None:
    assert len(CASES) == 171
    assert sum(nodes <= EVERY_TIME for _, _, nodes in COUNTS) >= 190


@pytest.mark.parametrize(
    ("sfen", "depth", "nodes"), [pytest.param(*c, id=named(*c)) for c in COUNTS if c[2] <= REFERENCE]
)
def test_the_slow_reference_counts_the_same(sfen: str, depth: int, nodes: int) -> None:
    assert reference.perft(reference.parse_sfen(sfen)[0], depth) == nodes


@pytest.mark.parametrize("sfen", [reference.START, MATSURI])
def test_divide_splits_perft_over_the_legal_moves(sfen: str) -> None:
    board = Board(sfen)
    divided = board.divide(3)
    assert sorted(divided) == board.legal_moves()
    assert sum(divided.values()) == board.perft(3)
    for usi in board.legal_moves()[::7]:
        board.push(usi)
        assert divided[usi] == board.perft(2)
        board.pop()


def test_perft_of_no_depth_is_the_position_itself() -> None:
    assert Board().perft(0) == 1


def test_perft_leaves_the_board_as_it_was() -> None:
    board = Board.from_usi("startpos moves 7g7f 3c3d 8h2b+")
    before = Board.from_usi("startpos moves 7g7f 3c3d 8h2b+")
    board.perft(3)
    assert board == before
    assert board.sfen() == before.sfen()
    assert board.legal_moves() == before.legal_moves()
    assert board.pop() == "8h2b+"


@pytest.mark.parametrize("depth", [-1, 101, 10**30, 2.0, "2"])
def test_depth_that_cannot_be_counted_is_refused(depth: int) -> None:
    for count in (Board().perft, Board().divide):
        with pytest.raises(
            ConfigError, match=f"^depth: expected a whole number from . to 100, found {re.escape(repr(depth))}$"
        ):
            count(depth)


@pytest.mark.parametrize("count", ["perft", "divide"])
def test_control_c_ends_a_count_that_would_take_years(count: str) -> None:
    program = f"from keisei.shogi import Board; print('counting', flush=True); Board().{count}(14)"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as counting:
        assert counting.stdout is not None
        assert counting.stdout.readline() == "counting\n"
        counting.send_signal(signal.SIGINT)
        _, said = counting.communicate(timeout=20)
    assert said.endswith("KeyboardInterrupt\n")
