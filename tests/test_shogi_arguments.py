"""What a caller hands to the Shogi environment: arrays in which only what is said is written, and wrong actions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import reference_shogi as reference
from keisei.environment import PASS, Array, Legal, Observation
from keisei.errors import ActionError
from shogi_table import ACTIONS, Table

OBSERVATIONS = ["uint8", "float32", "packed"]
LEGALS = ["list", "mask", "bits"]
FORMS = list(itertools.product(OBSERVATIONS, LEGALS))
MOST_MOVES = "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1"
MATSURI = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"
MATE_IN_ONE = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"


# --- only what is said is written


def test_last_positions_are_written_only_where_a_game_ended() -> None:
    for observation in OBSERVATIONS:
        table = Table(3, openings=(MATE_IN_ONE,), observation=observation)
        final = table.outcome.final[0]
        final.fill(77)
        table.play_usi("5i5h", "G*5b", "G*1a")
        assert table.outcome.ended.tolist() == [False, True, False]
        assert (final[[0, 2]] == 77).all()
        assert not (final[1] == 77).all()
        table.play_at_random()
        assert (final[[0, 2]] == 77).all()


@pytest.mark.parametrize(("observation", "legal"), FORMS)
def test_nothing_is_written_beside_the_callers_arrays(observation: str, legal: str) -> None:
    table = Table(3, openings=(MATE_IN_ONE, MOST_MOVES), observation=observation, legal=legal, move_limit=3, seed=1)
    plain = Table(3, openings=(MATE_IN_ONE, MOST_MOVES), observation=observation, legal=legal, move_limit=3, seed=1)
    guarded, guards = guarded_observation(table)
    table.observation = (guarded,)
    table.environment.reset(table.observation)
    for _ in range(20):
        assert table.told() == plain.told()
        assert all((guard == 77).all() for guard in guards)
        if legal == "list":
            assert (guarded.legal.actions[guarded.legal.offsets[-1] :] == 77).all()
        actions = plain.play_at_random()
        guarded.legal.actions.fill(77)
        table.play(actions)


def guarded_observation(table: Table) -> tuple[Observation, list[Array]]:
    """An observation that lies in the middle of larger arrays full of 77, and what lies around it."""
    guards: list[Array] = []

    def middle(array: Array) -> Array:
        large = np.full((len(array) + 20, *array.shape[1:]), 77, array.dtype)
        guards.extend([large[:10], large[-10:]])
        return large[10:-10]

    plain = table.observation[0]
    legal = Legal(middle(plain.legal.actions), plain.legal.offsets.copy())
    if len(plain.legal.offsets):
        legal = Legal(legal.actions, middle(plain.legal.offsets).view(np.int32))
    return Observation(middle(plain.values), legal, middle(plain.seat).view(np.int8)), guards


@pytest.mark.parametrize("change", ["dtype", "shape", "strided", "short list", "read-only"])
def test_wrong_arrays_of_the_caller_are_refused_and_nothing_changes(change: str) -> None:
    table = Table(4, seed=5)
    table.play_at_random()
    seen, before = table.observation[0], table.saved()
    values, legal = seen.values, seen.legal
    if change == "dtype":
        values = values.astype(np.int16)
    elif change == "shape":
        values = values[:3]
    elif change == "strided":
        values = np.zeros((8, 46, 9, 9), np.uint8)[::2]
    elif change == "short list":
        legal = Legal(legal.actions[:50], legal.offsets)
    else:
        values = values.copy()
        values.setflags(write=False)
    wrong = (Observation(values, legal, seen.seat),)
    actions = np.array([table.legal(lane)[0] for lane in range(4)])
    calls: list[Callable[[], None]] = [
        lambda: table.environment.observe(wrong),
        lambda: table.environment.step((actions,), table.outcome, wrong),
        lambda: table.environment.reset(wrong),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"^observation\.(values|legal\.actions): expected a .*C-contiguous.* array"
        ):
            call()
        assert np.array_equal(table.saved(), before)


def test_wrong_arrays_for_an_outcome_or_a_state_are_named() -> None:
    table = Table(4, seed=5)
    actions = np.array([table.legal(lane)[0] for lane in range(4)])
    before = table.saved()
    for name in ("reward", "discount", "ended", "cut_off", "reason", "length"):
        array = np.zeros((4, 2), getattr(table.outcome, name).dtype)[:, 0]
        with pytest.raises(ValueError, match=f"^step.{name}: expected a writable, C-contiguous NumPy array$"):
            table.environment.step((actions,), replace(table.outcome, **{name: array}), table.observation)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^state: expected a writable, C-contiguous NumPy array$"):
        table.environment.save_state(np.zeros((4, 2 * before.shape[1]), np.uint8)[:, ::2])
    assert np.array_equal(table.saved(), before)


def test_observation_that_is_no_list_of_one_is_refused() -> None:
    table = Table(2)
    wrong: list[object] = [table.observation[0], [], [table.observation[0]] * 2, None]
    for observation in wrong:
        with pytest.raises(ValueError, match=r"^observation: expected a list of one Observation, found "):
            table.environment.observe(observation)  # type: ignore[arg-type]  # that is the point


# --- wrong actions


def refused(table: Table, actions: Sequence[Array]) -> str:
    """The message with which these actions are refused; nothing may have changed."""
    state, told = table.saved(), table.told()
    with pytest.raises(ActionError) as caught:
        table.environment.step(actions, table.outcome, table.observation)
    assert np.array_equal(table.saved(), state)
    assert table.told() == told
    return str(caught.value)


def all_legal(table: Table) -> Array:
    return np.array([table.legal(lane)[0] for lane in range(table.copies)], np.int64)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("lane", [0, 3, 6])
def test_wrong_action_is_named_with_its_lane_and_position(lane: int, threads: int) -> None:
    table = Table(7, seed=6, threads=threads)
    for _ in range(20):
        table.play_at_random()
    illegal = next(action for action in range(1000, ACTIONS) if action not in table.legal(lane))
    for wrong in (illegal, -2, ACTIONS, 65_536 + table.legal(lane)[0], 2**32 + table.legal(lane)[0], -(2**63)):
        actions = all_legal(table)
        actions[lane] = wrong
        message = refused(table, (actions,))
        assert re.search(rf"\b{lane}\b", message)
        assert str(wrong) in message
        assert table.environment.sfen(lane) in message
    table.play_at_random()


@pytest.mark.parametrize("threads", [1, 4])
def test_first_of_several_wrong_actions_is_named(threads: int) -> None:
    table = Table(200, seed=6, threads=threads)
    actions = all_legal(table)
    actions[[57, 58, 121, 199]] = ACTIONS
    for _ in range(20):
        assert re.search(r"\b57\b", refused(table, (actions,)))


def test_every_action_that_is_not_legal_is_refused() -> None:
    table = Table(1, openings=(MATSURI,))
    legal = set(table.legal(0))
    for action in range(0, ACTIONS, 5):
        if action not in legal:
            refused(table, (np.array([action]),))
    for action in sorted(legal)[::5]:
        Table(1, openings=(MATSURI,)).play([action])


def test_one_wrong_action_among_legal_ones_plays_none_of_them() -> None:
    table = Table(6, seed=1, threads=2)
    actions = all_legal(table)
    actions[[1, 5]] = ACTIONS - 1
    refused(table, (actions,))
    assert table.environment.sfens() == [reference.START] * 6


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda a: (a.astype(np.float64),), "integers that int64 holds [4], found float64 [4]: action {}.0 of lane 0"),
        (lambda a: (a.astype(np.bool_),), "integers that int64 holds [4], found bool [4]: action True of lane 0"),
        (lambda a: (a.astype(np.str_),), "integers that int64 holds [4], found <U21 [4]: action '{}' of lane 0"),
        (lambda a: (a.astype(object),), "integers that int64 holds [4], found object [4]: action {} of lane 0"),
        (lambda a: (np.full(4, 2**64 - 1, np.uint64),), "found uint64 [4]: action 18446744073709551615 of lane 0"),
        (lambda a: (a[:-1],), "integers that int64 holds [4], found int64 [3]: action {} of lane 0"),
        (lambda a: (np.append(a, a[0]),), "integers that int64 holds [4], found int64 [5]: action {} of lane 0"),
        (lambda a: (a[:, None],), "integers that int64 holds [4], found int64 [4, 1]: action {} of lane 0"),
        (lambda a: (a[0],), "integers that int64 holds [4], found int64 []: action {} of lane 0"),
        (lambda a: (a[:0],), "integers that int64 holds [4], found int64 [0]: no action of lane 0"),
        (lambda a: (), "expected one array of actions, found 0: no action of lane 0"),
        (lambda a: (a, a), "expected one array of actions, found 2: action {} of lane 0"),
        (lambda a: a, "expected one array of actions, found 4: action {} of lane 0"),
    ],
    ids=[
        "float",
        "bool",
        "text",
        "object",
        "huge",
        "too few",
        "too many",
        "column",
        "scalar",
        "none",
        "no group",
        "two groups",
        "bare array",
    ],
)
def test_actions_of_wrong_type_or_shape_are_refused(change: Callable[[Array], Sequence[Array]], expected: str) -> None:
    table = Table(4)
    table.play_at_random()
    actions = all_legal(table)
    message = refused(table, change(actions))
    assert f"{expected.format(actions[0])}, in '{table.environment.sfen(0)}'" in message


def test_lane_that_passes_stays_as_it_is_while_others_play_on() -> None:
    table, plain = Table(3, seed=2, move_limit=4), Table(1, seed=2, move_limit=4, first_lane=1)
    before, state = table.told(), table.saved()
    for _ in range(6):
        action = plain.play_at_random()[0]
        table.play([PASS, action, PASS])
        assert table.told(slice(1, 2)) == plain.told()
        assert np.array_equal(table.saved()[[0, 2]], state[[0, 2]])
        assert [table.outcome.reward[0], table.outcome.discount[0], table.outcome.reason[0]] == [0, 1, 0]
        assert not table.outcome.ended[[0, 2]].any()
    table.play([PASS] * 3)
    for lane in (0, 2):
        assert table.told(slice(lane, lane + 1))[:3] == Table(3, seed=2, move_limit=4).told(slice(lane, lane + 1))[:3]
    assert before[5] == [reference.START] * 3


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.uint16, np.uint32])
def test_actions_may_be_any_integers_that_hold_them(dtype: type[np.integer[np.typing.NBitBase]]) -> None:
    # The contract says "int array"; lists of legal actions are uint16, so that has to do as well.
    table, plain = Table(3, seed=8), Table(3, seed=8)
    actions = all_legal(table)
    table.environment.step((actions.astype(dtype),), table.outcome, table.observation)
    plain.play(actions.tolist())
    assert table.told() == plain.told()


def test_actions_may_lie_apart_in_memory() -> None:
    table, plain = Table(4, seed=8), Table(4, seed=8)
    actions = all_legal(table)
    table.environment.step((np.repeat(actions, 3)[::3],), table.outcome, table.observation)
    plain.play(actions.tolist())
    assert table.told() == plain.told()
