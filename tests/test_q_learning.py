"""DQN and IQN: targets, losses, gradients and steps against a slow reference; what they count, skip and save."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from keisei.acting import ValuePolicy
from keisei.environment import Float64, LegalForm
from keisei.errors import CheckpointError, LearningError
from keisei.learning.dqn import DQN, huber
from keisei.learning.iqn import quantile_huber
from keisei.learning.q_learner import Draw, QLearner
from keisei.networks.flat import Layout
from keisei.policy import encode_numbers
from lived import random_experience
from slow_learning import SlowAdam, slow_gradient
from slow_values import SlowNetwork, SlowRow, slow_huber, slow_loss, slow_quantile_huber, slow_wanted
from small_learners import CASES, LANES, SETTINGS, VALUES, bits, life, same, small_learner
from small_values import small_network

EVERY = pytest.mark.parametrize("case", list(CASES))


# --- against the formulas


def slow_rows(draw: Draw) -> list[SlowRow]:
    windows = draw.windows
    return [
        SlowRow(
            seen=windows.seen[i].tolist(),
            action=int(windows.action[i]),
            reward=float(windows.reward[i]),
            factor=float(windows.factor[i]),
            next_seen=windows.next_seen[i].tolist(),
            next_legal=np.flatnonzero(windows.next_legal[i]).tolist(),
            weight=float(windows.weight[i]),
            shares=(draw.shares[0, i].astype(np.float64).tolist(), draw.shares[1, i].astype(np.float64).tolist()),
        )
        for i in range(len(windows.rows))
    ]


class SlowLearner:
    """The same learner, as the formulas say; it is told what chance gave."""

    def __init__(self, learner: QLearner) -> None:
        self.settings = learner.settings
        self.own = {name: one.detach().numpy().copy() for name, one in learner.network.named_parameters()}
        self.target = {name: one.copy() for name, one in self.own.items()}
        self.adam = SlowAdam(list(self.own.values()), learner.settings.learning_rate, 1e-8)

    def update(self, draw: Draw) -> float:
        rows = slow_rows(draw)
        noise = [{name: (i.double().numpy(), o.double().numpy()) for name, (i, o) in one.items()} for one in draw.noise]
        own, target = SlowNetwork(self.own, noise[0]), SlowNetwork(self.target, noise[1])
        wanted = [slow_wanted(row, own, target, double=self.settings.double) for row in rows]
        parameters = list(self.own.values())
        gradients = slow_gradient(parameters, lambda: slow_loss(rows, wanted, own, self.settings.threshold))
        loss = slow_loss(rows, wanted, own, self.settings.threshold)
        length = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
        self.adam.step([gradient * min(1, self.settings.gradient_norm / length) for gradient in gradients])
        for name, target_one in self.target.items():
            target_one += self.settings.target_rate * (self.own[name] - target_one)
        return loss


@EVERY
def test_updates_agree_with_the_formulas_and_adam(case: str) -> None:
    learner = small_learner(case)
    slow = SlowLearner(learner)
    learner.remember(life(9))
    before = bits(learner)
    for iteration in range(3):
        twin = small_learner(case)  # it sees what the learner is about to draw
        twin.network.load_state_dict(learner.network.state_dict())
        tensors, facts = learner.state()
        twin.load_state(tensors, facts)
        twin.remember(life(iteration))
        loss = slow.update(twin.draw(iteration, 0, 0.25))
        assert learner.learn(life(iteration), iteration, 0.25)["loss"] == pytest.approx(loss, rel=1e-6)
        for name, parameter in learner.network.named_parameters():
            np.testing.assert_allclose(parameter.detach().numpy(), slow.own[name], rtol=0, atol=2e-6)
        for name, view in Layout.of(learner.network).views(learner.target[None]).items():
            np.testing.assert_allclose(view[0].numpy(), slow.target[name], rtol=0, atol=2e-6)
    after = bits(learner)
    assert all(not torch.equal(before[name], after[name]) for name in slow.own)


def random_quantiles(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    said, wanted = (torch.randn(2, 6, count, generator=generator, dtype=torch.float64) for count in (4, 5))
    shares = torch.rand(2, 6, 4, generator=generator, dtype=torch.float64)
    return said, wanted, shares, torch.rand(2, 6, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("threshold", [0.2, 1.0, 5.0])
def test_quantile_huber_and_its_gradient(threshold: float) -> None:
    said, wanted, shares, weight = random_quantiles(1)
    by_said, losses, errors = quantile_huber(said, wanted, shares, weight, threshold)
    numbers: Float64 = said.numpy().copy()

    def slow(n: int) -> float:
        rows = [
            weight[n, b].item()
            * slow_quantile_huber(numbers[n, b].tolist(), wanted[n, b].tolist(), shares[n, b].tolist(), threshold)
            for b in range(6)
        ]
        return sum(rows) / len(rows)

    for n in range(2):
        assert float((losses[n] * weight[n]).mean()) == pytest.approx(slow(n))
        (expected,) = slow_gradient([numbers], lambda n=n: slow(n))  # type: ignore[misc]
        np.testing.assert_allclose(by_said[n].numpy(), expected[n], rtol=0, atol=1e-7)
    np.testing.assert_allclose(errors.numpy(), (said.mean(2) - wanted.mean(2)).abs().numpy())


def test_huber_and_its_gradient() -> None:
    said = torch.tensor([[-3.0, -0.5, 0.0, 0.2, 2.0]], dtype=torch.float64)[:, :, None]
    weight = torch.tensor([[1.0, 0.5, 1.0, 1.0, 0.25]], dtype=torch.float64)
    by_said, losses, errors = huber(said, torch.zeros_like(said), None, weight, 0.7)
    assert losses[0].tolist() == pytest.approx([slow_huber(error, 0.7) for error in (-3, -0.5, 0, 0.2, 2)])
    assert by_said[0, :, 0].tolist() == pytest.approx([-0.14, -0.05, 0, 0.04, 0.035])
    assert errors[0].tolist() == [3, 0.5, 0, 0.2, 2]


@pytest.mark.parametrize(("threshold", "worth"), [(1.0, 0.25), (10.0, 1.0)])
def test_threshold_below_what_rewards_are_hides_rare_ones(threshold: float, worth: float) -> None:
    paid = torch.tensor([5.0, 0, 0, 0, 0])[None, :, None]
    gradient, _, _ = huber(torch.full_like(paid, worth), paid, None, torch.ones(1, 5), threshold)
    assert float(gradient.sum()) == pytest.approx(0, abs=1e-6)


# --- what belongs to what


@EVERY
def test_same_calls_give_the_same_bits_whatever_the_global_generators_say(case: str) -> None:
    found = []
    for salt in (1, 2):
        torch.manual_seed(salt)
        learner = small_learner(case, dtype=torch.float32)
        for iteration in range(4):
            learner.learn(life(iteration), iteration, 0.1)
        found.append(bits(learner))
    assert same(*found)
    other = small_learner(case, seed=4, dtype=torch.float32)
    for iteration in range(4):
        other.learn(life(iteration), iteration, 0.1)
    assert not same(found[0], bits(other))


@EVERY
def test_learner_goes_on_from_its_state_with_the_same_bits(case: str) -> None:
    through, fresh = small_learner(case, dtype=torch.float32), small_learner(case, 1, dtype=torch.float32)
    fresh.agent = 0
    for iteration in range(3):
        through.learn(life(iteration), iteration, 0.1)
    tensors, facts = through.state()
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    fresh.network.load_state_dict(through.network.state_dict())
    for iteration in range(3, 6):
        reported = through.learn(life(iteration), iteration, 0.1)
        if iteration == 3:
            fresh.load_state(kept, json.loads(json.dumps(facts)))
        assert fresh.learn(life(iteration), iteration, 0.1) == reported
    assert same(bits(through), bits(fresh))


@EVERY
def test_state_of_another_learner_is_refused_and_changes_nothing(case: str) -> None:
    learner = small_learner(case)
    learner.learn(life(0), 0, 0.0)
    before = bits(learner)
    tensors, facts = learner.state()
    for wrong in ({}, {**facts, "exploration": "some"}):
        with pytest.raises(CheckpointError):
            learner.load_state(tensors, wrong)
    for missing in ("target", "moment", "memory.reward"):
        with pytest.raises(CheckpointError):
            learner.load_state({name: one for name, one in tensors.items() if name != missing}, facts)
    assert same(bits(learner), before)


def test_nothing_is_learnt_before_a_batch_is_there() -> None:
    learner = DQN(
        ValuePolicy(small_network(architecture=VALUES), encode_numbers),
        life(0).group,
        replace(SETTINGS, batch_size=100),
        seed=0,
        lanes=LANES,
    )
    before = bits(learner)
    assert "loss" not in learner.learn(life(0), 0, 0.0)
    assert torch.equal(bits(learner)["target"], before["target"])
    for iteration in range(1, 6):
        numbers = learner.learn(life(iteration), iteration, 0.0)
    assert numbers["loss"] > 0


@pytest.mark.parametrize("form", ["list", "bits"])
def test_form_of_legal_actions_makes_no_difference(form: LegalForm) -> None:
    found = []
    for legal in ("mask", form):
        learner = small_learner("dqn")
        for iteration in range(3):
            learner.learn(random_experience(iteration, legal, steps=7).rollout, iteration, 0.0)
        found.append({name: one for name, one in bits(learner).items() if not name.startswith("memory")})
    assert same(*found)


def test_exploration_falls_by_a_share_of_itself_and_travels_with_the_weights() -> None:
    learner = small_learner("dqn")
    assert learner.network.state_dict()["exploration"] == pytest.approx(0.6)
    for iteration in range(3):
        learner.learn(life(iteration), iteration, 0.0)
    assert learner.network.state_dict()["exploration"] == pytest.approx(0.6 * 0.9**3)
    for iteration in range(40):
        numbers = learner.learn(life(iteration), iteration, 0.0)
    assert numbers["exploration"] == 0.05


def test_noise_to_act_with_is_drawn_anew_for_each_iteration() -> None:
    learner = small_learner("iqn, everything")
    seen = []
    for iteration in range(3):
        seen.append(bits(learner)["hidden.noise_in"])
        learner.learn(life(iteration), iteration, 0.0)
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])
    assert not torch.equal(seen[0], bits(small_learner("iqn, everything", 1))["hidden.noise_in"])


# --- updates that are not finite


@pytest.mark.parametrize("case", ["dqn", "iqn, everything"])
def test_update_that_is_not_finite_is_skipped_and_five_in_a_row_stop(case: str) -> None:
    learner = small_learner(case)
    learner.learn(life(0), 0, 0.0)
    spoilt = life(1)
    spoilt.reward[:] = math.nan
    learner.memory.reward[:] = math.nan
    before = bits(learner)
    for iteration in range(1, 5):
        with np.errstate(invalid="ignore"):
            assert learner.learn(spoilt, iteration, 0.0)["skipped_updates"] == iteration
    after = bits(learner)
    for name in ("hidden.weight", "target", "moment", "square", "steps"):
        assert torch.equal(before[name], after[name])
    with np.errstate(invalid="ignore"), pytest.raises(LearningError, match=r"^5 updates of agent 0 in a row"):
        learner.learn(spoilt, 5, 0.0)
