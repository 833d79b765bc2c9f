"""Rollouts: where the arrays of a block lie, and that what is written to them comes out again for any rows."""

from __future__ import annotations

import numpy as np
import pytest

from keisei.environment import Array, Bool, Group, LegalForm
from keisei.policy import LegalChoices
from keisei.rollout import ARRAYS, Rollout, RolloutLayout
from lived import random_experience
from plain_network import told

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")
EVERY_FORM = pytest.mark.parametrize("form", FORMS)
BLOCKS, STEPS, LANES, ACTIONS, MOST = 3, 4, 5, 19, 11


def group(form: LegalForm) -> Group:
    lanes = np.arange(LANES, dtype=np.int32)
    return Group(lanes, (2, 3), np.dtype(np.uint8), ACTIONS, form, MOST, ("return", "gems"))


def rollout_in(form: LegalForm, fill: int = 0) -> Rollout:
    layout = RolloutLayout(group(form), STEPS, finals=True)
    memory = layout.allocate(BLOCKS)
    memory[:] = fill
    return layout.rollout(memory)


def listed(choices: LegalChoices) -> list[list[int]]:
    """The actions of each lane, in the order of their columns."""
    rows = range(len(choices.mask))
    columns = [np.flatnonzero(choices.mask[row].numpy()) for row in rows]
    actions = choices.actions
    if actions is None:
        return [column.tolist() for column in columns]
    return [actions[row][column].tolist() for row, column in zip(rows, columns, strict=True)]


# --- memory


@EVERY_FORM
def test_arrays_have_the_shapes_and_types_that_they_say(form: LegalForm) -> None:
    rollout = rollout_in(form)
    n, t, b = BLOCKS, STEPS, LANES
    done = (n, t, b)
    legal = {"list": (n, (t + 1) * b * MOST), "mask": (n, t + 1, b, ACTIONS), "bits": (n, t + 1, b, 3)}[form]
    expected: dict[str, tuple[tuple[int, ...], str]] = {
        "observation": ((n, t + 1, b, 2, 3), "uint8"),
        "seat": ((n, t + 1, b), "int8"),
        "legal_actions": (legal, "uint16" if form == "list" else "uint8"),
        "legal_offsets": ((n, t + 1, b + 1) if form == "list" else (n, 0), "int32"),
        "bootstrap": ((n, b), "float32"),
        **dict.fromkeys(("log_probability", "value", "reward", "discount", "final_value"), (done, "float32")),
        **dict.fromkeys(("choice", "length"), (done, "int32")),
        **dict.fromkeys(("ended", "cut_off", "acted", "valid"), (done, "bool")),
        "reason": (done, "uint8"),
        "final_observation": ((n, t, b, 2, 3), "uint8"),
        "figures": ((n, b, 2), "float32"),
    }
    assert set(ARRAYS) == set(expected)
    found = {name: (getattr(rollout, name).shape, str(getattr(rollout, name).dtype)) for name in ARRAYS}
    assert found == expected
    assert rollout.steps == 0
    rollout.valid[:, 1:] = True
    assert rollout.steps == n * (t - 1) * b


@EVERY_FORM
def test_no_two_arrays_share_a_byte_and_no_two_blocks_do(form: LegalForm) -> None:
    rollout = rollout_in(form, fill=0xFF)
    generator = np.random.default_rng(1)
    written: dict[str, Array] = {}
    for name in ARRAYS:
        array = getattr(rollout, name)
        written[name] = generator.integers(2 if array.dtype == np.bool_ else 100, size=array.shape).astype(array.dtype)
        array[:] = written[name]
    for name in ARRAYS:
        assert np.array_equal(getattr(rollout, name), written[name]), name


def test_last_positions_take_no_memory_where_nobody_wants_them() -> None:
    with_finals, without = (RolloutLayout(group("mask"), STEPS, finals=finals) for finals in (True, False))
    assert with_finals.bytes - without.bytes == 128  # 4 · 5 · 2 · 3 bytes, aligned
    rollout = without.rollout(without.allocate(BLOCKS))
    assert rollout.final_observation.shape == (BLOCKS, 0)
    assert not rollout.has_finals
    assert not rollout.block(1).has_finals


def test_arrays_of_a_block_lie_together_and_aligned() -> None:
    layout = RolloutLayout(group("list"), STEPS, finals=True)
    memory = layout.allocate(BLOCKS)
    assert memory.shape == (BLOCKS, layout.bytes)
    block = layout.rollout(memory).block(1)
    for name in ARRAYS:
        array = getattr(block, name)
        assert array[0].flags.c_contiguous
        assert np.shares_memory(array, memory[1])
        assert not np.shares_memory(array, memory[[0, 2]])
        assert (array.ctypes.data - memory.ctypes.data) % 64 == 0


@EVERY_FORM
def test_block_is_a_window_on_the_whole(form: LegalForm) -> None:
    rollout = rollout_in(form)
    one, two = rollout.block(2), rollout.block(0, 2)
    for name in ARRAYS:
        assert len(getattr(one, name)) == 1
        assert len(getattr(two, name)) == 2
    one.reward[:] = 5
    two.observation[1] = 7
    assert rollout.reward[2].tolist() == [[5] * LANES] * STEPS
    assert not rollout.reward[:2].any()
    assert (rollout.observation[1] == 7).all()
    assert not rollout.observation[[0, 2]].any()
    assert one.group is rollout.group


# --- legal actions


def random_mask(generator: np.random.Generator, most: int = MOST) -> Bool:
    """Up to so many legal actions in each lane, in the second none."""
    mask = np.zeros((LANES, ACTIONS), np.bool_)
    for lane in range(LANES):
        mask[lane, generator.permutation(ACTIONS)[: generator.integers(1, most + 1)]] = lane != 1
    return mask


def show(rollout: Rollout, step: int, mask: Bool) -> None:
    """What an environment does before a step."""
    seen, legal = rollout.observation_at(step), told(mask, rollout.group.legal)
    seen.values[:], seen.seat[:] = 10 * step + np.arange(LANES)[:, None, None], step
    seen.legal.offsets[:] = legal.offsets
    if rollout.group.legal == "list":
        seen.legal.actions[: legal.offsets[-1]] = legal.actions[: legal.offsets[-1]]
    else:
        seen.legal.actions[:] = legal.actions


def shown(form: LegalForm, masks: list[list[Bool]]) -> Rollout:
    """A rollout whose blocks were shown these legal actions `[N, T + 1]`."""
    rollout = rollout_in(form, fill=0xFF)
    for n, of_block in enumerate(masks):
        block = rollout.block(n)
        for t, mask in enumerate(of_block):
            show(block, t, mask)
            block.place_lists(t)
    return rollout


def expected_lists(mask: Bool) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() if row.any() else [0] for row in mask]  # one that counts for nothing


@EVERY_FORM
def test_legal_actions_of_every_step_stay_to_be_read(form: LegalForm) -> None:
    generator = np.random.default_rng(4)
    masks = [[random_mask(generator) for _ in range(STEPS + 1)] for _ in range(BLOCKS)]
    rollout = shown(form, masks)
    for n in range(BLOCKS):
        for t in range(STEPS + 1):
            assert listed(rollout.block(n).choices_at(t)) == expected_lists(masks[n][t])
    rows = generator.permutation(rollout.steps)[:37]
    places = [np.unravel_index(row, rollout.reward.shape) for row in rows]
    assert listed(rollout.choices_of(rows)) == [expected_lists(masks[n][t])[b] for n, t, b in places]
    assert listed(rollout.choices_of(rows[:1])) == [expected_lists(masks[n][t])[b] for n, t, b in places[:1]]


@EVERY_FORM
def test_lanes_that_all_have_nothing_to_choose_are_read_too(form: LegalForm) -> None:
    nothing = np.zeros((LANES, ACTIONS), np.bool_)
    rollout = shown(form, [[nothing] * (STEPS + 1)] * BLOCKS)
    assert listed(rollout.block(1).choices_at(2)) == [[0]] * LANES
    assert listed(rollout.choices_of(np.array([3, 50]))) == [[0], [0]]


def test_most_legal_actions_in_every_lane_and_step_find_room() -> None:
    most = np.zeros((LANES, ACTIONS), np.bool_)
    most[:, 3 : 3 + MOST] = True
    rollout = shown("list", [[most] * (STEPS + 1)] * BLOCKS)
    assert rollout.legal_offsets[0, STEPS, LANES] == rollout.legal_actions.shape[1]
    assert not (rollout.legal_actions == 0xFFFF).any()
    assert rollout.block(0).observation_at(STEPS).legal.actions.shape == (LANES * MOST,)
    assert listed(rollout.block(2).choices_at(STEPS)) == [list(range(3, 3 + MOST))] * LANES


def test_observation_is_written_in_place_and_read_for_any_rows() -> None:
    generator = np.random.default_rng(4)
    rollout = shown("list", [[random_mask(generator) for _ in range(STEPS + 1)] for _ in range(BLOCKS)])
    for t in range(STEPS + 1):
        assert (rollout.observation[:, t, 3] == 10 * t + 3).all()
        assert (rollout.seat[:, t] == t).all()
    rows = np.array([0, LANES, 3 * LANES + 4, STEPS * LANES + 2])
    assert rollout.observations_of(rows).shape == (4, 2, 3)
    assert rollout.observations_of(rows)[:, 0, 0].tolist() == [0, 10, 34, 2]


@EVERY_FORM
@pytest.mark.parametrize("seed", range(4))
def test_choices_agree_with_lists_kept_in_plain_python(seed: int, form: LegalForm) -> None:
    experience = random_experience(seed, form)
    rollout = experience.rollout
    rows = np.random.default_rng(seed).permutation(rollout.steps)
    choices = rollout.choices_of(rows)
    for number, (row, actions) in enumerate(zip(rows, listed(choices), strict=True)):
        n, t, b = (int(i) for i in np.unravel_index(row, rollout.reward.shape))
        assert sorted(actions) == sorted(experience.legal[n, t, b])
        chosen = int(rollout.choice[n, t, b])
        assert (chosen if choices.actions is None else choices.actions[number, chosen]) == experience.action[n, t, b]
        assert choices.mask[number, chosen]


@pytest.mark.parametrize("form", ["mask", "bits"])
@pytest.mark.parametrize("finals", [True, False])
def test_share_of_some_lanes_is_the_same_memory(form: LegalForm, finals: bool) -> None:
    layout = RolloutLayout(group(form), STEPS, finals=finals)
    whole = layout.rollout(layout.allocate(BLOCKS))
    generator = np.random.default_rng(2)
    for name in ARRAYS:
        array = getattr(whole, name)
        array[:] = generator.integers(2, size=array.shape)
    share = whole.of_lanes(slice(1, None, 2))
    assert share.group.lanes.tolist() == [1, 3]
    assert share.reward.shape == (BLOCKS, STEPS, 2)
    assert share.has_finals == finals
    rows = np.arange(BLOCKS * STEPS * 2)
    theirs = np.arange(BLOCKS * STEPS * LANES).reshape(BLOCKS, STEPS, LANES)[:, :, [1, 3]].ravel()
    assert np.array_equal(share.observations_of(rows), whole.observations_of(theirs))
    assert listed(share.choices_of(rows)) == listed(whole.choices_of(theirs))
    for name in ARRAYS:
        one, other = getattr(share, name), getattr(whole, name)
        assert one.size == 0 or np.shares_memory(one, other), name
        if name in ("bootstrap", "figures"):
            assert np.array_equal(one, other[:, [1, 3]])
        elif one.size:
            assert np.array_equal(one, other[:, :, [1, 3]]), name
