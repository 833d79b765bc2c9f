"""PPO: loss, gradients and steps against a slow reference; what it counts, skips, repeats and reports."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from keisei.environment import Array, Float32, Float64, Int64, LegalForm
from keisei.learning.ppo import PPO, PPOSettings, Schedule
from keisei.policy import Policy, encode_numbers
from keisei.rollout import Rollout
from lived import Experience, random_experience
from slow_learning import LinearNetwork, Row, SlowAdam, SlowSettings, slow_advantages, slow_gradient, slow_numbers
from small_ppo import ANY_RATE, SETTINGS, learner, linear_policy, same, weights

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")


# --- against the slow reference


def slow_copy(ppo: PPO) -> LinearNetwork:
    """The same weights in double precision: policy, its bias, value, its bias."""
    return LinearNetwork(*(parameter.numpy().astype(np.float64) for parameter in weights(ppo)))


def parameters_of(network: LinearNetwork) -> list[Float64]:
    return [network.policy, network.policy_bias, network.value, network.value_bias]


def slow_rows(experience: Experience, settings: PPOSettings) -> list[Row]:
    rollout, decisions = experience.rollout, experience.decisions
    raw = slow_advantages(rollout, settings.gamma, settings.lam)
    scaled = raw
    if settings.normalize_advantages:
        chosen = [float(raw[place]) for place in decisions]
        mean = sum(chosen) / len(chosen)
        deviation = math.sqrt(sum((number - mean) ** 2 for number in chosen) / len(chosen))
        scaled = (raw - mean) / (deviation + 1e-8)
    return [
        Row(
            seen=rollout.observation[place].tolist(),
            legal=experience.legal[place],
            action=experience.action[place],
            log_probability=float(rollout.log_probability[place]),
            value=float(rollout.value[place]),
            advantage=float(scaled[place]),
            target=float(raw[place] + rollout.value[place]),
        )
        for place in decisions
    ]


def slow_settings(settings: PPOSettings) -> SlowSettings:
    return SlowSettings(settings.clip, settings.value_clip, settings.value_weight, settings.entropy.first)


CASES = {
    "plain": SETTINGS,
    "values clipped": replace(SETTINGS, value_clip=0.3),
    "values clipped at once": replace(SETTINGS, value_clip=0.01),
    "advantages as they are": replace(SETTINGS, normalize_advantages=False),
    "narrow clip, no entropy": replace(SETTINGS, clip=0.05, entropy=Schedule(0.0, 0.0)),
    "values count most": replace(SETTINGS, value_weight=9.0, gamma=0.5, lam=0.0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_loss_and_gradients_agree_with_the_formulas(seed: int, case: str, form: LegalForm) -> None:
    settings, experience = CASES[case], random_experience(seed, form)
    ppo = learner(settings)
    slow, rows = slow_copy(ppo), slow_rows(experience, settings)
    reported = ppo.learn(experience.rollout, 0, 0.0)
    expected = slow_numbers(slow, rows, slow_settings(settings))
    for name in ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction"):
        assert reported[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    gradients = slow_gradient(parameters_of(slow), lambda: slow_numbers(slow, rows, slow_settings(settings))["loss"])
    for parameter, gradient in zip(ppo.network.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), gradient, rtol=1e-3, atol=2e-6)
    length = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
    assert reported["gradient_norm"] == pytest.approx(length, rel=1e-4)


def test_random_data_reach_every_branch_of_the_loss() -> None:
    """Otherwise the comparison above would compare nothing."""
    rows = [row for seed in (1, 2, 3) for row in slow_rows(random_experience(seed), SETTINGS)]
    network = slow_copy(learner())
    ratios = [math.exp(network.log_probabilities(row)[row.action] - row.log_probability) for row in rows]
    reached = {(ratio > 1.2, ratio < 0.8, row.advantage > 0) for row, ratio in zip(rows, ratios, strict=True)}
    assert len(reached) == 6  # above, below and between, each with either sign
    assert {len(row.legal) for row in rows} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("limit", [0.05, 1e9])
@pytest.mark.parametrize("case", ["plain", "values clipped"])
def test_several_steps_agree_with_the_formulas_and_adam(case: str, limit: float) -> None:
    settings, experience = replace(CASES[case], epochs=6, gradient_norm=limit), random_experience(4)
    ppo = learner(settings)
    slow, rows = slow_copy(ppo), slow_rows(experience, settings)
    adam = SlowAdam(parameters_of(slow), 0.01, 1e-5)
    before = weights(ppo)
    assert ppo.learn(experience.rollout, 0, 0.0)["updates"] == 6
    for _ in range(6):
        gradients = slow_gradient(
            parameters_of(slow), lambda: slow_numbers(slow, rows, slow_settings(settings))["loss"]
        )
        length = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
        adam.step([gradient * min(1, limit / length) for gradient in gradients])
        assert 0.05 < length < 1e9  # shortened by the one limit, left alone by the other
    for found, expected, first in zip(weights(ppo), parameters_of(slow), before, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-4)
        assert np.abs(found.numpy() - first.numpy()).max() > 0.03


def test_gradient_is_shortened_to_the_limit_and_never_lengthened() -> None:
    for limit in (0.01, 1e9):
        ppo = learner(replace(SETTINGS, gradient_norm=limit))
        reported = ppo.learn(random_experience(1).rollout, 0, 0.0)["gradient_norm"]
        squares = sum(
            float(parameter.grad.square().sum()) for parameter in ppo.network.parameters() if parameter.grad is not None
        )
        assert math.sqrt(squares) == pytest.approx(min(limit, reported), rel=1e-4)
        assert 0.1 < reported < 100


# --- minibatches


class NumberedPolicy(Policy):
    """Remembers which rows it was shown; each observation begins with its number."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.network, self.noted)
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()

    def noted(self, seen: Array) -> Tensor:
        self.batches.append(seen[:, 0].astype(int).tolist())
        self.threads.add(torch.get_num_threads())
        return encode_numbers(seen)


def numbered(seed: int = 3) -> Rollout:
    """A rollout whose observations begin with the rows' numbers."""
    rollout = random_experience(seed, steps=9).rollout
    rollout.observation[:, :-1, :, 0] = np.arange(rollout.steps).reshape(rollout.reward.shape)
    return rollout


def batches(settings: PPOSettings, seed: int = 0, iteration: int = 0) -> list[list[int]]:
    policy = NumberedPolicy(linear_policy())
    PPO(policy, replace(settings, learning_rate=ANY_RATE), seed).learn(numbered(), iteration, 0.0)
    return policy.batches


@pytest.mark.parametrize("size", [1, 7, 10, 16, 1000])
def test_each_epoch_takes_every_decision_once_in_parts_of_about_the_same_size(size: int) -> None:
    decisions = np.flatnonzero(numbered().acted).tolist()
    assert 10 < len(decisions) < numbered().steps
    found = batches(replace(SETTINGS, epochs=3, minibatch_size=size))
    parts = len(found) // 3
    assert len(found) == 3 * parts
    orders = []
    for epoch in range(3):
        order = [row for part in found[epoch * parts : (epoch + 1) * parts] for row in part]
        assert sorted(order) == decisions
        orders.append(order)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    sizes = {len(part) for part in found}
    assert max(sizes) - min(sizes) <= 1
    assert abs(len(decisions) / parts - min(size, len(decisions))) <= 0.5 * size


def test_order_belongs_to_seed_iteration_and_epoch() -> None:
    settings = replace(SETTINGS, epochs=2, minibatch_size=8)
    assert batches(settings) == batches(settings)
    assert batches(settings, seed=1) != batches(settings)
    assert batches(settings, iteration=1) != batches(settings)
    assert batches(settings, iteration=1)[0] != batches(settings)[len(batches(settings)) // 2]
    assert batches(settings, seed=2**64 - 1)


def test_learner_uses_its_own_number_of_threads_and_gives_them_back() -> None:
    policy = NumberedPolicy(linear_policy())
    PPO(policy, replace(SETTINGS, threads=2), 0).learn(numbered(), 0, 0.0)
    assert policy.threads == {2}
    assert torch.get_num_threads() == 1


def test_rollout_without_decisions_teaches_nothing() -> None:
    ppo, rollout = learner(), random_experience(1).rollout
    rollout.acted[:] = False
    before = weights(ppo)
    assert ppo.learn(rollout, 0, 0.0)["updates"] == 0
    assert same(weights(ppo), before)


def test_single_decision_can_be_learnt_from() -> None:
    ppo, rollout = learner(), random_experience(1).rollout
    rollout.acted[:] = False
    rollout.acted[0, 2, 1] = True
    before = weights(ppo)
    reported = ppo.learn(rollout, 0, 0.0)
    assert (reported["updates"], reported["skipped_updates"]) == (1, 0)
    assert not same(weights(ppo), before)


def test_advantages_that_are_all_alike_do_no_harm() -> None:
    rollout = random_experience(1).rollout
    rollout.reward[:], rollout.value[:], rollout.bootstrap[:], rollout.final_value[:] = 0, 0, 0, 0
    reported = learner().learn(rollout, 0, 0.0)
    assert reported["policy_loss"] == 0
    assert reported["skipped_updates"] == 0
    assert math.isfinite(reported["gradient_norm"])


# --- what is reported, and what stops early


def shifted(by: Float32 | float) -> Rollout:
    """A rollout whose actions are now exp(by) times as probable as when they were chosen; only decisions."""
    rollout = random_experience(6, steps=8).rollout
    rollout.acted[:] = True
    rows: Int64 = np.arange(rollout.steps)
    with torch.no_grad():
        now = linear_policy().evaluate(
            rollout.observations_of(rows),
            rollout.choices_of(rows),
            torch.from_numpy(rollout.choice.ravel().astype(np.int64)),
        )
    rollout.log_probability[:] = now.log_probability.numpy().reshape(rollout.reward.shape) - by
    return rollout


def test_kl_and_clip_fraction_are_those_of_known_ratios() -> None:
    settings = replace(SETTINGS, learning_rate=ANY_RATE)
    reported = learner(settings).learn(shifted(0.2), 0, 0.0)
    assert reported["kl"] == pytest.approx(math.exp(0.2) - 1.2, rel=1e-4)
    assert reported["clip_fraction"] == 1
    by = np.where(np.arange(8) % 4 == 0, 0.3, -0.1)[:, None].astype(np.float32)
    assert learner(settings).learn(shifted(by), 0, 0.0)["clip_fraction"] == 0.25
    reported = learner(settings).learn(shifted(0.0), 0, 0.0)
    assert reported["kl"] == pytest.approx(0, abs=1e-6)
    assert reported["clip_fraction"] == 0


def test_learning_stops_when_the_policy_has_moved_one_and_a_half_times_as_far_as_allowed() -> None:
    kl = math.exp(0.2) - 1.2

    def updates(target: float) -> float:
        settings = replace(SETTINGS, learning_rate=ANY_RATE, target_kl=target, epochs=3, minibatch_size=12)
        return learner(settings).learn(shifted(0.2), 0, 0.0)["updates"]

    assert updates(0.0) == 12
    assert updates(1.02 * kl / 1.5) == 12
    assert updates(0.98 * kl / 1.5) == 1


def test_policy_that_runs_away_is_stopped_on_its_way() -> None:
    settings = replace(SETTINGS, learning_rate=Schedule(1.0, 1.0), target_kl=0.01, epochs=5)
    assert learner(settings).learn(shifted(0.0), 0, 0.0)["updates"] == 2  # the first one had not moved yet


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, -1, 2, 0], 1),
        ([5, 3, 6, 4], 1),
        ([0.5] * 4, 0),
        ([0.5, 0.5, 0.5, 0.5], 0),
        ([0, 0, 1, 1], 0.2),
        ([-1, 1, -2, 0], -3),
    ],
)
def test_explained_variance_is_the_share_of_the_returns_that_values_foretold(
    values: list[float], expected: float
) -> None:
    rollout = returns([1, -1, 2, 0], values)
    assert learner(replace(SETTINGS, gamma=0.0)).learn(rollout, 0, 0.0)["explained_variance"] == pytest.approx(
        expected, abs=1e-6
    )


def returns(rewards: list[float], values: list[float]) -> Rollout:
    """Four decisions that were paid at once, and two rows without a decision that count nothing."""
    rollout = random_experience(1, blocks=1, steps=6, lanes=1).rollout
    rollout.cut_off[:], rollout.final_value[:] = False, 0
    rollout.acted[0, :, 0] = [True, False, True, True, False, True]
    rollout.reward[rollout.acted], rollout.value[rollout.acted] = rewards, values
    return rollout


def test_nothing_is_explained_of_returns_that_are_all_alike() -> None:
    rollout = returns([1, 1, 1, 1], [0, 1, 2, 3])
    assert learner(replace(SETTINGS, gamma=0.0)).learn(rollout, 0, 0.0)["explained_variance"] == 0


def test_schedules_move_in_a_line_and_stay_at_their_ends() -> None:
    schedule = Schedule(0.5, 0.1)
    assert [schedule.at(progress) for progress in (-1, 0, 0.25, 1, 7)] == pytest.approx([0.5, 0.5, 0.4, 0.1, 0.1])


def test_rate_and_entropy_follow_their_schedules() -> None:
    settings = replace(SETTINGS, learning_rate=Schedule(0.01, 0.0), entropy=Schedule(0.2, 0.4))
    experience = random_experience(2)
    for progress, rate, entropy in ((0.0, 0.01, 0.2), (0.5, 0.005, 0.3), (1.0, 0.0, 0.4)):
        ppo = learner(settings)
        slow, rows, before = slow_copy(ppo), slow_rows(experience, settings), weights(ppo)
        reported = ppo.learn(experience.rollout, 0, progress)
        assert reported["learning_rate"] == pytest.approx(rate)
        assert reported["entropy_weight"] == pytest.approx(entropy)
        of_the_time = SlowSettings(0.2, 0.0, 0.7, entropy)
        gradient = slow_gradient(parameters_of(slow), lambda: slow_numbers(slow, rows, of_the_time)["loss"])[0]  # noqa: B023
        moved = (weights(ppo)[0] - before[0]).numpy()
        np.testing.assert_allclose(moved, -rate * gradient / (np.abs(gradient) + 1e-5), rtol=0, atol=1e-4)
