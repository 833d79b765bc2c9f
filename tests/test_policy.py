"""Policies decide among legal actions only, as often as they say, and never say what is not a number."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from keisei.collect.loop import action_noise
from keisei.environment import Array, Bool, Float32, Float64, Int64, LegalForm
from keisei.policy import (
    Chances,
    Decision,
    LegalChoices,
    PlanesEncoder,
    Policy,
    choices_of_mask,
    encode_numbers,
    legal_choices,
)
from keisei.shogi.actions import PLANES, expand, write_planes
from plain_network import choices, double_log_softmax, reading_policy, seen
from shogi_table import ACTIONS, Table
from small_shogi import MOST_MOVES, positions, small_game, small_policy

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")
ALMOST_ONE = np.float32(1 - 2**-23)
"""The largest number that samples an action."""

INFINITY = float("inf")
MOST = float(np.finfo(np.float32).max)


def constant(number: float, rows: int) -> Float32:
    return np.full(rows, number, np.float32)


def evaluated(policy: Policy, values: Array, legal: LegalChoices, choice: Array) -> tuple[Tensor, Tensor, Tensor]:
    said = policy.evaluate(values, legal, torch.from_numpy(choice.astype(np.int64)))
    return said.log_probability, said.entropy, said.value


def column_of(legal: LegalChoices, actions: Array) -> Int64:
    """Where each lane's action stands among its legal choices."""
    if legal.actions is None:
        return actions.astype(np.int64)
    rows = (legal.actions == torch.from_numpy(actions.astype(np.int64))[:, None]) & legal.mask
    assert (rows.sum(1) == 1).all()
    columns: Int64 = rows.int().argmax(1).numpy()
    return columns


# --- never not a number


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("temperature", [1.0, 0.01, 100.0])
@pytest.mark.parametrize("logit", [0.0, -80.0, 1e4, -1e4, MOST, -MOST, INFINITY, -INFINITY])
def test_only_legal_move_is_certain_whatever_its_logit(logit: float, temperature: float, form: LegalForm) -> None:
    values = seen([[3, logit, -2], [INFINITY, logit, MOST], [-INFINITY, logit, -MOST]])
    mask = np.tile([False, True, False], (3, 1))
    policy = reading_policy(temperature)
    for number in (0.0, 0.5, float(ALMOST_ONE)):
        check_certain(policy.act(values, choices(mask, form), constant(number, 3)))
    check_certain(policy.act_greedily(values, choices(mask, form)))
    log_probability, entropy, _ = evaluated(
        policy, values, choices(mask, form), column_of(choices(mask, form), np.ones(3))
    )
    assert (log_probability.tolist(), entropy.tolist()) == ([0] * 3, [0] * 3)


def check_certain(decision: Decision) -> None:
    assert decision.action.tolist() == [1, 1, 1]
    assert decision.log_probability.tolist() == [0, 0, 0]
    assert decision.value.tolist() == [0.25] * 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "logits",
    [
        [-INFINITY, 0, 1],
        [-INFINITY, -INFINITY, 0],
        [-INFINITY] * 3,
        [MOST, -MOST, 0],
        [MOST] * 3,
        [INFINITY, 0, 0],
        [INFINITY, -INFINITY, INFINITY],
        [200, 0, -200],
    ],
)
def test_no_logit_makes_a_decision_that_is_not_a_number(logits: list[float], form: LegalForm) -> None:
    mask = np.tile([True, True, True, False], (4, 1))
    values, legal = seen([[*logits, 0]] * 4), choices(mask, form)
    uniform = np.array([0, 0.4, 0.7, ALMOST_ONE], np.float32)
    for decision in (reading_policy().act(values, legal, uniform), reading_policy().act_greedily(values, legal)):
        assert (decision.action < 3).all()
        assert np.isfinite(decision.log_probability).all()
        assert np.isfinite([logits[action] for action in decision.action]).all() or max(logits) in (INFINITY, -INFINITY)
    for column in range(3):
        log_probability, entropy, _ = evaluated(reading_policy(), values, legal, np.full(4, column))
        assert not log_probability.isnan().any()
        assert not entropy.isnan().any()


def test_gradient_of_a_certain_decision_is_zero() -> None:
    values = torch.tensor([[5.0, -INFINITY, 7.0, 0.25], [5.0, -MOST, 7.0, 0.25]], requires_grad=True)
    policy = reading_policy()
    policy.encode = lambda _: values
    legal = choices(np.tile([False, True, False], (2, 1)), "list")
    log_probability, entropy, _ = evaluated(policy, np.zeros((2, 4), np.float32), legal, np.zeros(2))
    (log_probability.sum() + entropy.sum()).backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.abs().sum() == 0


@pytest.mark.parametrize("form", FORMS)
def test_lane_in_which_nothing_is_legal_spoils_nothing(form: LegalForm) -> None:
    mask = np.array([[True, False, True], [False, False, False], [False, True, True]])
    values = seen([[1, 2, 3]] * 3)
    legal = choices(mask, form)
    for decision in (
        reading_policy().act(values, legal, constant(0.6, 3)),
        reading_policy().act_greedily(values, legal),
    ):
        assert np.isfinite(decision.log_probability).all()
        assert decision.action[[0, 2]].tolist() == [2, 2]
    last = column_of(legal, np.array([2, 0, 2]))
    log_probability, entropy, _ = evaluated(reading_policy(), values, legal, last)
    assert log_probability[1] == 0
    assert entropy[1] == 0
    assert log_probability[0].item() == pytest.approx(-np.log1p(np.exp(-2)), rel=1e-5)
    nobody = choices(np.zeros((2, 3), np.bool_), form)
    decision = reading_policy().act(values[:2], nobody, constant(0.9, 2))
    assert decision.log_probability.tolist() == [0, 0]


def test_reading_a_mask_leaves_it_as_it_is() -> None:
    mask = np.zeros((2, 9), np.bool_)
    mask[0, 3] = True
    before = mask.copy()
    assert choices_of_mask(mask).mask.sum() == 2  # one of them counts for nothing
    assert (mask == before).all()


# --- sampling


def random_masks(generator: np.random.Generator, rows: int, actions: int) -> Bool:
    mask = generator.random((rows, actions)) < generator.random((rows, 1))
    mask[np.arange(rows), generator.integers(actions, size=rows)] = True
    return mask


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    actions=st.integers(1, 40),
    spread=st.sampled_from([0.0, 1.0, 30.0, 1e3]),
    form=st.sampled_from(FORMS),
    edge=st.sampled_from([None, 0.0, float(ALMOST_ONE), 0.5]),
)
def test_only_legal_actions_are_ever_chosen(
    seed: int, actions: int, spread: float, form: LegalForm, edge: float | None
) -> None:
    generator = np.random.default_rng(seed)
    mask = random_masks(generator, 50, actions)
    values = seen((generator.normal(size=mask.shape) * spread).astype(np.float32))
    numbers = generator.integers(2**23, size=50).astype(np.float32) * np.float32(2**-23)
    uniform = numbers if edge is None else constant(edge, 50)
    legal = choices(mask, form)
    decision = reading_policy().act(values, legal, uniform)
    assert mask[np.arange(50), decision.action].all()
    assert (decision.choice == column_of(legal, decision.action)).all()
    expected = [double_log_probability(values[b, :-1], mask[b])[decision.action[b]] for b in range(50)]
    np.testing.assert_allclose(decision.log_probability, expected, rtol=1e-5, atol=1e-5)


def double_log_probability(logits: Float32, mask: Bool) -> Float64:
    """By definition, for one lane in double precision; -inf where illegal."""
    shifted = logits.astype(np.float64) - logits[mask].max()
    return np.where(mask, shifted - np.log(np.exp(shifted[mask]).sum()), -INFINITY)


@pytest.mark.parametrize("columns", [2, 3, 17, 81, 593, ACTIONS])
def test_largest_number_picks_a_possible_action_even_before_impossible_ones(columns: int) -> None:
    generator = np.random.default_rng(columns)
    for _ in range(10):
        logits = (generator.normal(size=(40, columns)) * 3).astype(np.float32)
        mask = generator.random((40, columns)) < 0.8
        mask[:, 0], mask[:, -1] = True, False  # the last column is never possible
        logits[:, columns // 2 :] -= 300 * (generator.random((40, 1)) < 0.5)  # rounds to 0 in half the rows
        chances = Chances.of(logits, mask)
        for number in (0.0, float(ALMOST_ONE)):
            column = chances.sample(constant(number, 40))
            assert np.exp(chances.below)[np.arange(40), column].min() > 0


def test_first_action_is_passed_over_where_it_is_impossible() -> None:
    mask = np.array([[False, True, True], [True, True, True]])
    decision = reading_policy().act(seen([[0, 0, 0], [-INFINITY, 0, 0]]), choices(mask, "mask"), constant(0, 2))
    assert decision.action.tolist() == [1, 1]


def test_numbers_divide_the_unit_interval_as_the_probabilities_say() -> None:
    logits = np.log(np.array([[0.125, 0.5, 0.25, 0.125]]))
    grid = ((np.arange(4000) + 0.5) / 4000).astype(np.float32)
    legal = choices(np.ones((4000, 4), np.bool_), "list")
    decision = reading_policy().act(seen(np.repeat(logits, 4000, axis=0)), legal, grid)
    assert (np.diff(decision.action) >= 0).all()
    assert np.abs(np.bincount(decision.action) - [500, 2000, 1000, 500]).max() <= 1


@pytest.mark.parametrize("form", FORMS)
def test_actions_are_as_frequent_as_their_probabilities(form: LegalForm) -> None:
    logits, mask = np.array([[0.3, -1.0, 2.0, 0.0, 1.0, -0.5]]), np.array([[True, True, False, True, True, True]])
    rows = 20_000
    uniform = action_noise(11, np.arange(rows), 3, 1)[0]
    legal = choices(np.repeat(mask, rows, axis=0), form)
    decision = reading_policy().act(seen(np.repeat(logits, rows, axis=0)), legal, uniform)
    expected = np.exp(double_log_probability(logits[0].astype(np.float32), mask[0])) * rows
    counts = np.bincount(decision.action, minlength=6)
    assert counts[2] == 0
    legal_counts, legal_expected = counts[mask[0]], expected[mask[0]]
    assert ((legal_counts - legal_expected) ** 2 / legal_expected).sum() < 18.5  # 4 degrees of freedom, p = 0.001


@pytest.mark.parametrize("temperature", [0.25, 1.0, 4.0])
def test_temperature_divides_the_logits(temperature: float) -> None:
    logits, mask = np.array([[0.5, -1, 2, 0]], np.float32), np.array([[True, True, True, False]])
    expected = double_log_probability(logits[0] / np.float32(temperature), mask[0])
    grid = ((np.arange(2000) + 0.5) / 2000).astype(np.float32)
    legal = choices(np.repeat(mask, 2000, axis=0), "mask")
    decision = reading_policy(temperature).act(seen(np.repeat(logits, 2000, axis=0)), legal, grid)
    assert np.abs(np.bincount(decision.action, minlength=4) - 2000 * np.exp(expected)).max() <= 1
    np.testing.assert_allclose(decision.log_probability, expected[decision.action], rtol=1e-5)


def test_greed_takes_the_most_probable_legal_action_and_the_first_among_equals() -> None:
    mask = np.array([[True, True, False, True], [True, True, True, True], [False, True, False, True]])
    values = seen([[0, 1, 9, 0.5], [2, 3, 3, 3], [5, -7, 5, -8]])
    for form in FORMS:
        decision = reading_policy(temperature=50.0).act_greedily(values, choices(mask, form))
        assert decision.action.tolist() == [1, 1, 1]
        expected = [double_log_probability(values[b, :-1], mask[b])[1] for b in range(3)]
        np.testing.assert_allclose(decision.log_probability, expected, rtol=1e-5)


def test_choices_of_some_lanes_are_theirs() -> None:
    mask = random_masks(np.random.default_rng(3), 6, 8)
    for form in FORMS:
        whole, lanes = choices(mask, form), np.array([4, 1, 5])
        some = whole.of(lanes)
        values = seen(np.random.default_rng(4).normal(size=(6, 8)))
        one = reading_policy().act(values, whole, constant(0.7, 6))
        other = reading_policy().act(values[lanes], some, constant(0.7, 3))
        assert one.action[lanes].tolist() == other.action.tolist()


# --- what is said of choices made before


@pytest.mark.parametrize("form", FORMS)
def test_evaluation_is_what_the_definition_says(form: LegalForm) -> None:
    generator = np.random.default_rng(8)
    mask, logits = random_masks(generator, 30, 12), generator.normal(size=(30, 12)) * 2
    values, legal = seen(logits), choices(mask, form)
    action = np.array([generator.choice(np.flatnonzero(row)) for row in mask])
    log_probability, entropy, value = evaluated(reading_policy(), values, legal, column_of(legal, action))
    for b in range(30):
        expected = double_log_probability(values[b, :-1], mask[b])
        assert log_probability[b].item() == pytest.approx(expected[action[b]], rel=1e-5, abs=1e-6)
        legal_ones = expected[mask[b]]
        assert entropy[b].item() == pytest.approx(-(np.exp(legal_ones) * legal_ones).sum(), rel=1e-5, abs=1e-6)
    assert value.tolist() == [0.25] * 30


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_an_evaluation_are_those_of_its_numbers(form: LegalForm) -> None:
    generator = np.random.default_rng(9)
    mask = random_masks(generator, 6, 5)
    action = np.array([generator.choice(np.flatnonzero(row)) for row in mask])
    legal, policy = choices(mask, form), reading_policy()
    logits = torch.from_numpy(generator.normal(size=(6, 6)) * 2).requires_grad_()

    def said(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        policy.encode = lambda _: values
        return evaluated(policy, action, legal, column_of(legal, action))

    assert torch.autograd.gradcheck(said, (logits,))  # against differences, in double precision


def test_evaluation_has_gradients_and_acting_has_none() -> None:
    policy, table = small_policy(), Table(3, observation="packed")
    legal = legal_choices(table.environment.groups[0], table.observation[0].legal)
    log_probability, entropy, value = evaluated(policy, table.values, legal, np.zeros(3))
    assert log_probability.requires_grad
    assert entropy.requires_grad
    assert value.requires_grad
    assert policy.act(table.values, legal, constant(0.5, 3)).value.dtype == np.float32  # an array: nothing hangs on it


# --- Shogi


@pytest.mark.parametrize("kind", ["convolutional", "convolutional, dense head", "mlp"])
def test_all_forms_of_legal_moves_say_the_same(kind: str) -> None:
    tables = {form: Table(6, seed=2, observation="packed", legal=form, random_plies=40) for form in FORMS}
    policy = small_policy(kind)
    for _ in range(4):
        said = {form: said_of(policy, table) for form, table in tables.items()}
        for form in ("mask", "bits"):
            for one, other in zip(said["list"], said[form], strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
        for table in tables.values():
            table.play_at_random()


def said_of(policy: Policy, table: Table) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability of each lane's highest legal action, entropy and value."""
    legal = legal_choices(table.environment.groups[0], table.observation[0].legal)
    actions = np.array([table.legal(lane)[-1] for lane in range(table.copies)])
    with torch.no_grad():
        return evaluated(policy, table.values, legal, column_of(legal, actions))


@pytest.mark.parametrize("form", FORMS)
def test_all_593_moves_can_be_chosen(form: LegalForm) -> None:
    table = Table(1, observation="packed", legal=form, openings=(MOST_MOVES,))
    legal = legal_choices(table.environment.groups[0], table.observation[0].legal)
    assert int(legal.mask.sum()) == 593
    rows = 2000
    values = np.repeat(np.asarray(table.values), rows, axis=0)
    many = LegalChoices(None if legal.actions is None else legal.actions.expand(rows, -1), legal.mask.expand(rows, -1))
    policy = small_policy(game=small_game(legal=form))
    with torch.no_grad():
        logits, _ = policy.network(policy.encode(table.values), legal.actions)
    numbers = np.append((np.arange(rows - 1) / (rows - 1)).astype(np.float32), ALMOST_ONE)
    decision = policy.act(values[:1], legal, numbers[:1])
    assert decision.action[0] in table.legal(0)
    log_probabilities = double_log_softmax(logits[0][legal.mask[0]])
    chances = Chances.of(logits.expand(rows, -1).numpy(), many.mask.numpy())
    chosen = chances.sample(numbers)
    actions = chosen if many.actions is None else many.actions[0][chosen]
    assert set(actions.tolist()) <= set(table.legal(0))
    assert log_probabilities.exp().sum().item() == pytest.approx(1)
    counts = np.bincount(chosen, minlength=legal.mask.shape[1])[legal.mask[0].numpy()]
    assert np.abs(counts - rows * log_probabilities.exp().numpy()).max() <= 1.5


def test_values_alone_are_those_that_come_with_decisions() -> None:
    policy, table = small_policy("residual"), Table(4, observation="packed", random_plies=30)
    legal = legal_choices(table.environment.groups[0], table.observation[0].legal)
    assert (policy.values(table.values) == policy.act(table.values, legal, constant(0.1, 4)).value).all()


# --- encoders


def test_packed_positions_are_encoded_as_planes_channels_last() -> None:
    encode = PlanesEncoder(partial(write_planes, move_limit=200), (9, 9, PLANES))
    many, few = positions(24), positions(24)[5:12]
    for packed in (few, many, few, many):  # its memory is used again, and grows once
        planes = encode(packed)
        assert planes.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(planes.numpy(), expand(packed, 200, np.float32))


def test_every_form_of_observation_gives_the_network_the_same_numbers() -> None:
    packed = Table(5, observation="packed", random_plies=30)
    floats = Table(5, observation="float32", random_plies=30)
    game = small_game(block_size=5)
    assert np.array_equal(game.encoder()(packed.values).numpy(), encode_numbers(floats.values).numpy())
    assert encode_numbers(np.array([[3, 250]], np.uint8)).tolist() == [[3, 250]]
