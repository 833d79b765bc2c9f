"""Networks of action values against their formulas, one number at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from keisei.networks.flat import noisy_layers
from keisei.networks.quantile import QuantileNetwork, action_values, middles
from small_values import ARCHITECTURES, FLAT, observations, slow_copy, small_network

EVERY_FLAT = pytest.mark.parametrize("name", FLAT)
EVERY = pytest.mark.parametrize("name", list(ARCHITECTURES))


@EVERY_FLAT
def test_expected_worth_is_what_the_formulas_say(name: str) -> None:
    network = small_network(name)
    seen = observations(network.architecture, 5)
    expected = [slow_copy(network).expected(row.tolist(), network.architecture.quantiles) for row in seen]
    np.testing.assert_allclose(network.expected(seen).detach().numpy(), expected, rtol=0, atol=1e-12)
    assert np.std(expected) > 0.1


@pytest.mark.parametrize("name", [name for name in FLAT if "quantiles" in name])
def test_quantiles_are_what_the_formulas_say(name: str) -> None:
    network = small_network(name)
    assert isinstance(network, QuantileNetwork)
    seen, shares = observations(network.architecture, 4), torch.from_numpy(np.random.default_rng(1).random((4, 7)))
    found = network.quantiles(seen, shares).detach().numpy()
    slow = slow_copy(network)
    for row in range(4):
        expected = [slow.worth(seen[row].tolist(), share) for share in shares[row].tolist()]
        np.testing.assert_allclose(found[row], expected, rtol=0, atol=1e-12)
    assert found.std(axis=1).max() > 0.01  # different shares, different quantiles


@EVERY
def test_noise_changes_what_a_noisy_network_says_and_nothing_else(name: str) -> None:
    network = small_network(name)
    seen = observations(network.architecture, 5)
    before = network.expected(seen)
    for layer in noisy_layers(network).values():
        layer.noise_in.neg_()
    assert torch.equal(network.expected(seen), before) == (not network.architecture.noisy)
    for layer in noisy_layers(network).values():
        layer.noise_in.zero_()
        layer.noise_out.zero_()
        layer.weight_spread.data.fill_(9)
        layer.bias_spread.data.fill_(9)
    quiet = network.expected(seen)
    plain = {name: one for name, one in network.state_dict().items() if "spread" not in name and "noise_" not in name}
    other = small_network(architecture=replace(network.architecture, noisy=False))
    other.load_state_dict(plain)
    torch.testing.assert_close(other.expected(seen), quiet, rtol=0, atol=1e-12)


@EVERY
def test_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone(name: str) -> None:
    before = torch.random.get_rng_state()
    one, same, other = (action_values(ARCHITECTURES[name], seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@EVERY
def test_first_worths_are_near_zero_and_differ(name: str) -> None:
    network = action_values(ARCHITECTURES[name], 0)
    found = network.expected(observations(network.architecture, 50).float())
    assert 0 < found.abs().max() < 1


def test_middles_lie_in_the_middle_of_equal_parts() -> None:
    assert middles(4).tolist() == [0.125, 0.375, 0.625, 0.875]
