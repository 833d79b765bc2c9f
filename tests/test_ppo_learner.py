"""The PPO learner in a run: real games, the same bits again, states, and updates that are skipped."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from keisei.build import Game
from keisei.environment import LegalForm
from keisei.errors import CheckpointError, LearningError
from keisei.learning.ppo import PPO
from keisei.networks import TwoHeadedNetwork
from keisei.networks.network import DensePolicy
from keisei.policy import Policy, encode_numbers
from keisei.rollout import Rollout
from keisei.threads import torch_threads
from lived import random_experience
from small_ppo import ACTIONS, FEATURES, SETTINGS, learner, same, weights
from small_shogi import KINDS, small_collector, small_game, small_policy

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")


# --- real games


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("form", FORMS)
def test_first_minibatch_finds_the_probabilities_that_were_stored(kind: str, form: LegalForm) -> None:
    game = small_game(block_size=4, legal=form, random_plies=20, move_limit=25)
    policy = small_policy(kind, game=game)
    rollout = small_collector(game, policy, blocks=2, steps=8).collect(0)
    rows = np.random.default_rng(0).permutation(rollout.steps)[:37]
    choice = torch.from_numpy(rollout.choice.ravel()[rows].astype(np.int64))
    now = policy.evaluate(rollout.observations_of(rows), rollout.choices_of(rows), choice)
    stored = torch.from_numpy(rollout.log_probability.ravel()[rows])
    assert ((now.log_probability - stored).exp() - 1).abs().max() < 1e-5
    assert stored.std() > 0.05
    np.testing.assert_allclose(now.value.detach().numpy(), rollout.value.ravel()[rows], rtol=0, atol=1e-5)
    before = weights(learner(policy=policy))
    ppo = learner(replace(SETTINGS, clip=1e-5), policy=policy)
    assert ppo.learn(rollout, 0, 0.0)["clip_fraction"] == 0  # it was counted before the first step, not after
    assert not same(weights(ppo), before)
    assert ppo.learn(rollout, 0, 0.0)["clip_fraction"] > 0.9


def shogi_game() -> Game:
    return small_game(block_size=8, random_plies=20, move_limit=25)


def shogi_rollouts() -> tuple[Policy, list[Rollout]]:
    """Real games, each rollout in memory of its own; and the policy that played them."""
    policy = small_policy("residual", game=shogi_game())
    rollouts = [small_collector(shogi_game(), policy, blocks=2, steps=8, seed=seed).collect(0) for seed in range(2)]
    return policy, rollouts


SHOGI = replace(SETTINGS, epochs=2, minibatch_size=32, gradient_norm=1.0)


@pytest.mark.parametrize("threads", [1, 2])
def test_same_call_twice_gives_the_same_bits(threads: int) -> None:
    found = []
    for outside in (1, 2):
        policy, (rollout, _) = shogi_rollouts()
        ppo = learner(replace(SHOGI, threads=threads), policy=policy)
        before = weights(ppo)
        with torch_threads(outside):
            reported = ppo.learn(rollout, 3, 0.1)
        assert not same(weights(ppo), before)
        found.append((weights(ppo), reported))
    assert same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_learner_goes_on_from_its_state_with_the_same_bits() -> None:
    policy, rollouts = shogi_rollouts()
    through = learner(SHOGI, policy=policy)
    through.learn(rollouts[0], 0, 0.0)
    tensors, facts = through.state()
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    facts = json.loads(json.dumps(facts))
    fresh = learner(SHOGI, policy=small_policy("residual", 1, game=shogi_game()))
    fresh.network.load_state_dict(through.network.state_dict())
    reported = through.learn(rollouts[1], 1, 0.5)
    fresh.load_state(kept, facts)
    assert fresh.learn(rollouts[1], 1, 0.5) == reported
    assert same(weights(fresh), weights(through))
    forgetful = learner(SHOGI, policy=small_policy("residual", 1, game=shogi_game()))
    forgetful.network.load_state_dict(fresh.network.state_dict())
    for ppo in (forgetful, fresh):
        ppo.learn(rollouts[0], 2, 0.5)
    assert not same(weights(forgetful), weights(fresh))  # the state is worth something


def test_facts_of_something_else_are_refused() -> None:
    ppo = learner()
    tensors, facts = ppo.state()
    for wrong in ({}, {**facts, "skipped": "many"}, {**facts, "optimizer": None}):
        with pytest.raises(CheckpointError):
            ppo.load_state(tensors, wrong)


# --- updates that are not finite


def spoilt(number: float = math.nan, seed: int = 1) -> Rollout:
    """A rollout with a reward that is not finite."""
    rollout = random_experience(seed).rollout
    rollout.reward[0, 0, 0], rollout.acted[0, 0, 0] = number, True
    return rollout


def moments(ppo: PPO) -> Mapping[str, Tensor]:
    return {name: tensor.clone() for name, tensor in ppo.state()[0].items()}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_update_that_is_not_finite_is_skipped_and_counted(number: float) -> None:
    ppo = learner()
    ppo.learn(random_experience(1).rollout, 0, 0.0)
    before, optimizer = weights(ppo), moments(ppo)
    with np.errstate(invalid="ignore"):
        assert ppo.learn(spoilt(number), 1, 0.0)["skipped_updates"] == 1
    assert same(weights(ppo), before)
    assert all(torch.equal(optimizer[name], tensor) for name, tensor in moments(ppo).items())
    assert ppo.learn(random_experience(1).rollout, 2, 0.0)["skipped_updates"] == 1
    assert not same(weights(ppo), before)
    assert ppo.skipped_in_a_row == 0


class Cliff(nn.Module):
    """A value of 0.5 whose gradient is not a number."""

    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.zeros(()))

    def forward(self, seen: Tensor) -> Tensor:
        return (0.5 + self.at.abs().sqrt()).expand(len(seen), 1)


def test_gradient_that_is_not_finite_skips_the_update_though_the_loss_is() -> None:
    policy = Policy(TwoHeadedNetwork(nn.Identity(), DensePolicy(FEATURES, ACTIONS), Cliff()), encode_numbers)
    ppo = learner(policy=policy)
    before = weights(ppo)
    reported = ppo.learn(random_experience(1).rollout, 0, 0.0)
    assert math.isfinite(reported["policy_loss"] + reported["value_loss"])
    assert reported["skipped_updates"] == 1
    assert same(weights(ppo), before)


def test_only_the_minibatches_that_are_spoilt_are_skipped() -> None:
    settings = replace(SETTINGS, gamma=0.0, normalize_advantages=False, minibatch_size=4)
    ppo = learner(settings)
    before = weights(ppo)
    reported = ppo.learn(spoilt(), 0, 0.0)
    assert reported["updates"] > 3
    assert reported["skipped_updates"] == 1
    assert not same(weights(ppo), before)
    assert all(torch.isfinite(tensor).all() for tensor in weights(ppo))


def test_five_in_a_row_stop_the_learning_and_fewer_do_not() -> None:
    ppo = learner()
    before = weights(ppo)
    with np.errstate(invalid="ignore"):
        for iteration in range(4):
            assert ppo.learn(spoilt(), iteration, 0.0)["skipped_updates"] == iteration + 1
        with pytest.raises(LearningError, match=r"^5 updates in a row .* not finite"):
            ppo.learn(spoilt(), 4, 0.0)
    assert same(weights(ppo), before)


def test_a_good_update_between_them_begins_the_count_anew() -> None:
    ppo = learner()
    with np.errstate(invalid="ignore"):
        for iteration in range(4):
            ppo.learn(spoilt(), iteration, 0.0)
        ppo.learn(random_experience(1).rollout, 4, 0.0)
        assert ppo.learn(spoilt(), 5, 0.0)["skipped_updates"] == 5


def test_count_in_a_row_goes_on_from_a_saved_state() -> None:
    ppo, fresh = learner(), learner()
    with np.errstate(invalid="ignore"):
        for iteration in range(4):
            ppo.learn(spoilt(), iteration, 0.0)
        fresh.load_state(*ppo.state())
        with pytest.raises(LearningError):
            fresh.learn(spoilt(), 4, 0.0)
