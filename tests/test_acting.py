"""Acting by what actions are worth: the best legal one, another at random as often as was asked; alone or stacked."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from keisei.acting import Actions, Society, ValuePolicy, explore
from keisei.environment import Array, Bool, Float32, Int64, LegalForm
from keisei.networks import DenseNetwork
from keisei.networks.flat import noisy_layers
from keisei.policy import Policy, encode_numbers
from plain_network import choices
from small_values import ARCHITECTURES, PLAIN, small_network

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")
WAYS: tuple[Actions, ...] = ("stacked", "looped")
EVERY_FORM = pytest.mark.parametrize("form", FORMS)
EVERY = pytest.mark.parametrize("name", list(ARCHITECTURES))


def some_legal(lanes: int, actions: int, seed: int = 0) -> Bool:
    mask: Bool = np.random.default_rng(seed).random((lanes, actions)) < 0.6
    mask[np.arange(lanes), np.random.default_rng(seed + 1).integers(actions, size=lanes)] = True
    return mask


def policy_of(name: str, seed: int = 0, exploration: float = 0.0) -> ValuePolicy:
    network = small_network(name, seed, torch.float32)
    network.exploration.fill_(exploration)
    return ValuePolicy(network, encode_numbers)


def seen_by(name: str, lanes: int, seed: int = 0) -> Float32:
    shape = ARCHITECTURES[name].shape
    return np.random.default_rng(seed).normal(size=(lanes, *shape)).astype(np.float32)


def noise(lanes: int, seed: int = 0) -> Float32:
    return np.random.default_rng(seed).random(lanes, np.float32)


# --- one agent


@EVERY_FORM
@EVERY
def test_without_exploration_the_legal_action_worth_most_is_taken(name: str, form: LegalForm) -> None:
    policy, seen = policy_of(name), seen_by(name, 40)
    mask = some_legal(40, policy.network.architecture.actions)
    for decision in (policy.act(seen, choices(mask, form), noise(40)), policy.act_greedily(seen, choices(mask, form))):
        worth = policy.network.expected(torch.from_numpy(seen)).detach().numpy()
        best = np.where(mask, worth, -np.inf)
        assert decision.action.tolist() == best.argmax(1).tolist()
        np.testing.assert_allclose(decision.value, best.max(1), rtol=0, atol=1e-5)
        assert (decision.log_probability == 0).all()
    np.testing.assert_allclose(policy.values(seen), worth.max(1), rtol=0, atol=1e-5)
    assert len(set(decision.action.tolist())) > 1


@EVERY_FORM
def test_each_action_is_taken_as_often_as_its_probability_says(form: LegalForm) -> None:
    mask = np.array([[True, False, True, True, False]] * 30_000)
    worth = np.array([[0.0, 9.0, 0.5, 0.2, 9.0]] * len(mask), np.float32)
    exploration = np.full(len(mask), 0.3, np.float32)
    uniform = ((np.arange(len(mask)) + 0.5) / len(mask)).astype(np.float32)  # each number once
    decision = explore(worth, choices(mask, form), exploration, uniform)
    found = Counter(decision.action.tolist())
    assert set(found) == {0, 2, 3}
    for action, share in ((0, 0.1), (2, 0.8), (3, 0.1)):
        assert found[action] / len(mask) == pytest.approx(share, abs=1e-3)
        (told,) = set(decision.log_probability[decision.action == action].tolist())
        assert told == pytest.approx(math.log(share), abs=1e-5)
    assert (decision.value == np.float32(0.5)).all()


@EVERY_FORM
def test_exploring_agents_choose_legal_actions_only(form: LegalForm) -> None:
    policy = policy_of("plain", exploration=1.0)
    mask = some_legal(500, 3)
    for uniform in (noise(500), np.zeros(500, np.float32), np.full(500, 1 - 2**-24, np.float32)):
        decision = policy.act(seen_by("plain", 500), choices(mask, form), uniform)
        assert mask[np.arange(500), decision.action].all()
        np.testing.assert_allclose(np.exp(decision.log_probability), 1 / mask.sum(1), rtol=1e-5)


def test_choice_is_the_column_of_the_action() -> None:
    mask = some_legal(50, 3)
    legal = choices(mask, "list")
    decision = policy_of("plain", exploration=0.5).act(seen_by("plain", 50), legal, noise(50))
    assert legal.actions is not None
    assert legal.actions.numpy()[np.arange(50), decision.choice].tolist() == decision.action.tolist()


def test_published_weights_and_exploration_count_at_once() -> None:
    policy, other = policy_of("quantiles, dueling, noisy"), policy_of("quantiles, dueling, noisy", 1, exploration=1.0)
    seen, legal = seen_by("quantiles, dueling, noisy", 30), choices(np.ones((30, 3), np.bool_), "mask")
    before = policy.act(seen, legal, noise(30))
    policy.network.load_state_dict(other.network.state_dict())
    after = policy.act(seen, legal, noise(30))
    expected = other.act(seen, legal, noise(30))
    assert not np.array_equal(before.value, after.value)
    assert np.array_equal(after.value, expected.value)
    assert np.array_equal(after.action, expected.action)
    for layer in noisy_layers(policy.network).values():
        layer.noise_in.zero_()
    assert not np.array_equal(policy.act(seen, legal, noise(30)).value, after.value)


# --- several agents


def lanes_of(agents: int, each: int) -> list[Int64]:
    """Lane by lane the agents take turns, as in worlds of so many agents."""
    return [np.arange(agent, agents * each, agents) for agent in range(agents)]


def check_same(one: Society, other: Society, seen: Array, mask: Bool, form: LegalForm) -> None:
    uniform = noise(len(seen))
    mine, yours = one.act(seen, choices(mask, form), uniform), other.act(seen, choices(mask, form), uniform)
    assert np.array_equal(mine.action, yours.action)
    assert np.array_equal(mine.choice, yours.choice)
    np.testing.assert_allclose(mine.value, yours.value, rtol=0, atol=1e-5)
    np.testing.assert_allclose(mine.log_probability, yours.log_probability, rtol=0, atol=1e-6)
    best, same = one.act_greedily(seen, choices(mask, form)), other.act_greedily(seen, choices(mask, form))
    assert np.array_equal(best.action, same.action)
    np.testing.assert_allclose(one.values(seen), other.values(seen), rtol=0, atol=1e-5)


@EVERY_FORM
@EVERY
def test_stacked_and_looped_agents_choose_alike(name: str, form: LegalForm) -> None:
    policies = [policy_of(name, agent, exploration=0.1 * agent) for agent in range(4)]
    lanes = lanes_of(4, 6)
    check_same(
        Society(policies, lanes, "stacked"),
        Society(policies, lanes, "looped"),
        seen_by(name, 24),
        some_legal(24, 3),
        form,
    )


def test_agents_of_any_mix_of_architectures_act_side_by_side() -> None:
    kinds = [PLAIN, replace(PLAIN, layer=9), PLAIN, replace(PLAIN, quantiles=4, cosines=5), replace(PLAIN, layer=9)]
    policies: list[ValuePolicy | Policy] = [
        ValuePolicy(small_network(architecture=kind, seed=i, dtype=torch.float32), encode_numbers)
        for i, kind in enumerate(kinds)
    ]
    ppo = DenseNetwork(nn.Identity(), 6, 3)
    policies.insert(1, Policy(ppo, encode_numbers))
    stacked, looped = (Society(policies, lanes_of(6, 3), actions) for actions in WAYS)
    check_same(stacked, looped, seen_by("plain", 18), some_legal(18, 3), "mask")


@pytest.mark.parametrize("name", ["plain", "planes, quantiles, dueling, noisy"])
def test_what_one_agent_sees_or_is_changes_no_bit_of_what_another_does(name: str) -> None:
    policies = [policy_of(name, agent, exploration=0.3) for agent in range(4)]
    society = Society(policies, lanes_of(4, 5), "stacked")
    seen, legal = seen_by(name, 20), choices(np.ones((20, 3), np.bool_), "mask")
    before = society.act(seen, legal, noise(20))
    seen[2::4] += 1
    policies[2].network.load_state_dict(policy_of(name, 9).network.state_dict())
    after = society.act(seen, legal, noise(20))
    others = np.arange(20) % 4 != 2
    assert np.array_equal(before.value[others], after.value[others])
    assert np.array_equal(before.action[others], after.action[others])
    assert not np.array_equal(before.value[~others], after.value[~others])


def test_networks_of_a_society_are_published_by_agent() -> None:
    policies = [policy_of("plain", agent) for agent in range(3)]
    society = Society(policies, lanes_of(3, 2), "stacked")
    seen, legal = seen_by("plain", 6), choices(np.ones((6, 3), np.bool_), "mask")
    society.act(seen, legal, noise(6))
    other = Society([policy_of("plain", agent + 5) for agent in range(3)], lanes_of(3, 2), "stacked")
    society.network.load_state_dict(other.network.state_dict())
    assert "2.hidden.weight" in other.network.state_dict()
    assert np.array_equal(society.act(seen, legal, noise(6)).value, other.act(seen, legal, noise(6)).value)
