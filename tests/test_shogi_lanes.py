"""Lanes of the Shogi environment: each plays for itself, from its own openings and its own random stream."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import reference_shogi as reference
from keisei.shogi import Board
from shogi_table import Table

MATSURI = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"
ROOK = "2k6/9/KR7/9/9/9/9/9/9 b - 1"
FULL_HANDS = "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1"
OPENINGS = ("startpos", MATSURI, ROOK, FULL_HANDS, "two_piece")


# --- lanes keep to themselves


@pytest.mark.parametrize("random_plies", [0, 6])
def test_a_lane_does_the_same_whatever_is_around_it(random_plies: int) -> None:
    options: dict[str, object] = {"seed": 21, "openings": OPENINGS, "random_plies": random_plies, "move_limit": 25}
    whole = Table(8, **options)
    threaded = Table(8, threads=3, **options)
    part = Table(3, first_lane=5, **options)
    single = Table(1, first_lane=2, threads=2, **options)
    for _ in range(80):
        assert threaded.told() == whole.told()
        assert part.told() == whole.told(slice(5, 8))
        assert single.told() == whole.told(slice(2, 3))
        for table in (whole, threaded, part, single):
            table.play_at_random()


@pytest.mark.parametrize(("copies", "threads"), [(70, 2), (70, 5), (257, 3), (2, 8)])
@pytest.mark.parametrize("legal", ["list", "mask"])
def test_many_lanes_do_the_same_on_any_number_of_threads(copies: int, threads: int, legal: str) -> None:
    options: dict[str, object] = {"seed": 3, "move_limit": 9, "openings": OPENINGS, "legal": legal}
    one, many = Table(copies, **options), Table(copies, threads=threads, **options)
    for _ in range(12):
        assert many.told() == one.told()
        actions = one.play_at_random()
        many.play(actions)
    assert np.array_equal(many.saved(), one.saved())


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """Another thread that counts whenever it may; nobody is made to let it, as long as this lasts."""
    counted, over, before = [0], threading.Event(), sys.getswitchinterval()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.0002)

    thread = threading.Thread(target=count)
    thread.start()
    sys.setswitchinterval(100)
    try:
        yield lambda: counted[0]
    finally:
        sys.setswitchinterval(before)
        over.set()
        thread.join()


def test_other_threads_of_python_run_while_games_are_stepped() -> None:
    table = Table(40_000, observation="packed", move_limit=4)
    legal = table.observation[0].legal
    advanced = []
    with counting() as counted:
        for _ in range(3):  # each takes a while, in which a busy machine may still run something else
            actions = (legal.actions[legal.offsets[:-1]].astype(np.int64),)
            before = counted()
            table.environment.step(actions, table.outcome, table.observation)
            advanced.append(counted() - before)
    assert max(advanced) > 0


def test_lanes_and_seeds_have_streams_of_their_own() -> None:
    starts = {tuple(Table(4, seed=seed, first_lane=first, random_plies=12).environment.sfens())
              for seed, first in [(1, 0), (2, 0), (3, 0), (1, 4), (1, 8), (2, 4)]}  # fmt: skip
    assert len({sfen for start in starts for sfen in start}) == 24


def test_reset_begins_the_random_streams_anew() -> None:
    table = Table(4, seed=5, openings=OPENINGS, random_plies=8, move_limit=12)

    def told_of_a_run() -> list[object]:
        told: list[object] = []
        table.time = 0
        table.environment.reset(table.observation)
        for _ in range(40):
            told.append((table.values.tobytes(), table.environment.sfens()))
            table.play_at_random()
        return told

    assert told_of_a_run() == told_of_a_run()


# --- openings


def test_games_begin_with_every_opening_of_the_list() -> None:
    table = Table(48, seed=7, openings=OPENINGS, move_limit=1)
    expected = {reference.START, MATSURI, ROOK, FULL_HANDS, Board.from_handicap("two_piece").sfen()}
    assert set(table.environment.sfens()) == expected
    seen_in_lane_0 = set()
    for _ in range(60):
        seen_in_lane_0.add(table.environment.sfen(0))
        table.play_at_random()
    assert seen_in_lane_0 == expected


@pytest.mark.parametrize("name", ["lance", "right_lance", "bishop", "rook", "rook_lance", "two_piece", "four_piece",
                                  "six_piece", "eight_piece", "ten_piece"])  # fmt: skip
def test_named_handicap_is_an_opening(name: str) -> None:
    table = Table(2, openings=(name,))
    assert table.environment.sfens() == [Board.from_handicap(name).sfen()] * 2
    assert [table.turn(0), table.turn(1)] == ["white", "white"]


def test_move_number_of_an_opening_does_not_count_as_plies() -> None:
    # The number in what `sfen` gives is left open: the design does not say whether it counts on from the opening's.
    table = Table(1, openings=(reference.START.replace(" 1", " 500"),), observation="packed", move_limit=20)
    for ply in range(20):
        assert table.values[0, 97:].tolist() == [ply, 0]
        table.play_at_random()
    assert table.outcome.cut_off.tolist() == [True]


def test_random_plies_lead_to_positions_that_can_be_played_to() -> None:
    table = Table(64, seed=3, random_plies=1, observation="packed")
    start = reference.parse_sfen(reference.START)[0]
    after_one = {reference.write_sfen(reference.after(start, move), 2) for move in reference.legal_moves(start)}
    sfens = [table.environment.sfen(lane) for lane in range(64)]
    for lane, sfen in enumerate(sfens):
        # Exactly so many plies, or up to as many: the design does not say.
        assert sfen in (after_one if table.values[lane, 97] else {reference.START})
    assert len(set(sfens)) > 10


def test_plies_of_a_random_opening_are_plies_played() -> None:
    table = Table(16, seed=3, random_plies=7, observation="packed", move_limit=10)
    played = table.values[:, 97].astype(np.int32)
    assert played.max() == 7
    for step in range(1, 11):
        table.play_at_random()
        done = table.outcome.ended & (table.outcome.reason == 6) & (played >= 0)
        assert (table.outcome.length[done] == 10).all()
        assert (played[done] + step == 10).all()
        played[table.outcome.ended] = -1
    assert (played == -1).all()


def test_random_opening_never_starts_a_game_that_is_over() -> None:
    # White's king is shut in: most moves of Black end the game at once.
    table = Table(64, seed=3, openings=("8k/9/6NG1/9/9/9/9/9/K8 b - 1",), random_plies=1, move_limit=3)
    for _ in range(12):
        for lane in range(64):
            assert table.legal(lane)
            assert Board(table.environment.sfen(lane)).outcome() is None
        table.play_at_random()
