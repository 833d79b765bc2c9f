"""Saving and loading the games of an environment: byte for byte, with their histories and their random streams."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

import reference_encoding as encoding
import reference_shogi as reference
from keisei.environment import UInt8, new_state
from keisei.errors import StateError
from shogi_table import Table

ROOK = "2k6/9/KR7/9/9/9/9/9/9 b - 1"
OPENINGS = ("startpos", ROOK, "two_piece")
BACK_AND_FORTH = ["2h3h", "8b7b", "3h2h", "7b8b"]


def busy_table(copies: int = 5, *, plies: int = 37, options: Mapping[str, object] = MappingProxyType({})) -> Table:
    """Games with openings drawn at random that end every now and then."""
    table = Table(copies, **{"seed": 13, "openings": OPENINGS, "random_plies": 4, "move_limit": 20, **options})
    for _ in range(plies):
        table.play_at_random()
    return table


def run(table: Table, plies: int = 60) -> list[object]:
    told: list[object] = []
    for _ in range(plies):
        table.play_at_random()
        told.append(table.told())
    return told


def load(table: Table, state: UInt8, time: int) -> None:
    table.environment.load_state(state)
    table.environment.observe(table.observation)
    table.time = time


def test_loaded_games_go_on_as_they_did() -> None:
    table = busy_table()
    state, time = table.saved(), table.time
    first = run(table)
    after = table.saved()
    load(table, state, time)
    assert np.array_equal(table.saved(), state)
    assert run(table) == first
    assert np.array_equal(table.saved(), after)


@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"observation": "float32"}])
def test_another_environment_goes_on_with_saved_games(options: dict[str, object]) -> None:
    table, other = busy_table(), busy_table(plies=11, options=options)
    load(other, table.saved(), table.time)
    assert other.environment.sfens() == table.environment.sfens()
    assert np.array_equal(other.saved(), table.saved())
    for _ in range(60):
        assert table.play_at_random() == other.play_at_random()
        assert np.array_equal(other.saved(), table.saved())


def test_saving_changes_nothing_and_gives_the_same_bytes_twice() -> None:
    table, plain = busy_table(), busy_table()
    dirty = np.full_like(new_state(table.environment), 77)
    table.environment.save_state(dirty)
    assert np.array_equal(dirty, table.saved())
    assert run(table) == run(plain)


def test_games_saved_alike_were_played_alike() -> None:
    assert np.array_equal(busy_table().saved(), busy_table(options={"threads": 2}).saved())
    assert not np.array_equal(busy_table().saved(), busy_table(plies=38).saved())


def test_same_games_are_the_same_bytes_whatever_was_played_before() -> None:
    fresh, used = Table(3, move_limit=60), Table(3, move_limit=60)
    for _ in range(57):
        used.play_at_random()
    for usi in BACK_AND_FORTH:
        fresh.play_usi(usi, usi, usi)
    used.environment.reset(used.observation)
    for usi in BACK_AND_FORTH:
        used.play_usi(usi, usi, usi)
    assert np.array_equal(used.saved(), fresh.saved())
    for usi in BACK_AND_FORTH * 2:
        used.play_usi(usi, usi, usi)
    assert used.outcome.ended.all()  # by the fourth occurrence
    assert np.array_equal(used.saved(), Table(3, move_limit=60).saved())


def test_many_games_are_saved_and_loaded_on_several_threads() -> None:
    one, many = busy_table(90), busy_table(90, plies=3, options={"threads": 4})
    load(many, one.saved(), one.time)
    assert np.array_equal(many.saved(), one.saved())
    assert run(many, 10) == run(one, 10)
    wrong, before = one.saved(), many.saved()
    wrong[88, 100] ^= 1
    refused(many, wrong, before)


def test_state_may_lie_in_shared_memory() -> None:
    table = busy_table()
    plain = table.saved()
    descriptor = os.memfd_create("state")
    try:
        os.ftruncate(descriptor, 4096 + plain.nbytes)
        with mmap.mmap(descriptor, 4096 + plain.nbytes) as memory:
            shared = np.frombuffer(memory, np.uint8)[4096:].reshape(plain.shape)
            table.environment.save_state(shared)
            assert os.pread(descriptor, plain.nbytes, 4096) == plain.tobytes()
            first, time = run(table), table.time - 60
            load(table, shared, time)
            assert run(table) == first
            del shared
    finally:
        os.close(descriptor)


def test_part_of_the_lanes_goes_on_elsewhere() -> None:
    whole, part = busy_table(8), busy_table(3, plies=5, options={"first_lane": 5})
    load(part, whole.saved()[5:8], whole.time)
    for _ in range(60):
        assert part.told()[5] == whole.told(slice(5, 8))[5]
        assert part.play_at_random() == whole.play_at_random()[5:8]
        assert part.told() == whole.told(slice(5, 8))


def test_saved_game_remembers_its_positions() -> None:
    table, other = Table(1, move_limit=100), Table(1, move_limit=100)
    for usi in BACK_AND_FORTH * 2 + BACK_AND_FORTH[:3]:
        table.play_usi(usi)
    other.play_at_random()
    load(other, table.saved(), 0)
    assert np.unique(other.values[0, 44]).tolist() == [2]
    other.play_usi(BACK_AND_FORTH[3])
    assert other.environment.reasons[other.outcome.reason[0]] == "sennichite"
    assert other.outcome.length.tolist() == [12]


@pytest.mark.parametrize(
    ("begin", "reason"), [("8c7c 7a8a 7c8c 8a7a", "perpetual_check"), ("8c8d 7a6a 8d8c 6a7a", "sennichite")]
)
def test_saved_game_remembers_its_checks(begin: str, reason: str) -> None:
    table = Table(1, openings=(ROOK,))
    for usi in begin.split():
        table.play_usi(usi)
    state = table.saved()
    for _ in range(2):
        table = Table(1, openings=(ROOK,))
        load(table, state, 0)
        for usi in ["8c7c", "7a8a", "7c8c", "8a7a"] * 2:
            assert not table.outcome.ended[0]
            table.play_usi(usi)
        assert table.environment.reasons[table.outcome.reason[0]] == reason


def test_longest_game_is_saved_whole() -> None:
    table = Table(2, seed=1, openings=("4k4/9/9/9/9/9/9/9/4K4 b - 1",), move_limit=512)
    longest = 0
    for _ in range(3000):
        table.play_at_random()
        longest = max(longest, *table.outcome.length.tolist())
        if longest >= 400 or not table.time % 97:
            state = table.saved()
            table.environment.load_state(state)
            assert np.array_equal(table.saved(), state)
        if longest == 512:
            return
    raise AssertionError(f"no game was longer than {longest} plies")


def test_long_limits_are_saved_too() -> None:
    table = Table(1, move_limit=5000)
    for usi in (BACK_AND_FORTH * 3)[:11]:
        table.play_usi(usi)
    state = table.saved()
    other = Table(1, move_limit=5000)
    load(other, state, 0)
    other.play_usi("7b8b")
    assert other.outcome.length.tolist() == [12]


# --- what is not a state of this environment


def refused(table: Table, state: object, before: UInt8) -> None:
    with pytest.raises(StateError):
        table.environment.load_state(state)  # type: ignore[arg-type]  # that is the point
    assert np.array_equal(table.saved(), before)


def test_flipped_bit_anywhere_is_refused_and_nothing_changes() -> None:
    table = busy_table(2)
    before = table.saved()
    for at in range(0, before.shape[1], 3):
        wrong = before.copy()
        wrong[1, at] ^= 1 << (at % 8)
        refused(table, wrong, before)
    table.environment.load_state(before)


def test_one_bad_row_among_good_ones_loads_none_of_them() -> None:
    table, other = busy_table(6), busy_table(6, plies=20)
    state, before = other.saved(), table.saved()
    state[5, state.shape[1] // 3] ^= 1
    refused(table, state, before)


@pytest.mark.parametrize(
    "options", [{"move_limit": 21}, {"declaration": "24"}, {"openings": ("startpos", ROOK)}, {"random_plies": 5}]
)
def test_state_of_an_environment_with_other_rules_is_refused(options: dict[str, object]) -> None:
    # That other openings are refused, too, is more than the design says: the games would not go on alike.
    table, other = busy_table(), busy_table(options=options)
    state, before = other.saved(), table.saved()
    if state.shape == before.shape:
        refused(table, state, before)
    else:
        wrong = np.zeros_like(before)
        least = min(state.shape[1], before.shape[1])
        wrong[:, :least] = state[:, :least]
        refused(table, wrong, before)


def test_bytes_that_are_no_state_are_refused() -> None:
    table = busy_table()
    before = table.saved()
    rng = np.random.default_rng(1)
    refused(table, np.zeros_like(before), before)
    refused(table, np.full_like(before, 255), before)
    for _ in range(50):
        refused(table, rng.integers(0, 256, before.shape, np.uint8), before)


def test_array_of_wrong_shape_or_type_is_refused() -> None:
    table = busy_table()
    before = table.saved()
    for wrong in (before[:4], before[:, :-1], before[0], before.ravel(), before.astype(np.int64), before.view(np.int8)):
        refused(table, wrong, before)
    for wrong in (before[:4].copy(), before[:, :-1].copy(), before.astype(np.int64)):
        # Not said in the design which error it is: TypeError from the binding and Keisei's own are both fine.
        with pytest.raises((ValueError, TypeError)):
            table.environment.save_state(wrong)  # type: ignore[arg-type]  # that is the point


def test_state_with_rows_apart_is_loaded_or_refused_but_never_misread() -> None:
    table = busy_table()
    state = table.saved()
    apart = np.zeros((len(state) * 2, state.shape[1]), np.uint8)
    apart[::2] = state
    run(table, 5)
    before = table.saved()
    try:
        table.environment.load_state(apart[::2])
    except StateError:
        assert np.array_equal(table.saved(), before)
    else:
        assert np.array_equal(table.saved(), state)


def test_reference_start_is_what_a_fresh_table_shows() -> None:
    assert np.array_equal(Table(1).values[0], encoding.planes(reference.Game()))
