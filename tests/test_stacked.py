"""Many networks computed as one: the same numbers and gradients as each alone, and nothing shared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from keisei.networks.flat import Layout, flatten, gradient_pairs, noisy_layers, plain_weights, spread_gradients
from keisei.networks.quantile import ActionValueNetwork, QuantileNetwork
from keisei.networks.stacked import FEW_ROWS, Scratch, Stack, backward, forward
from small_values import ARCHITECTURES, observations, small_network

EVERY = pytest.mark.parametrize("name", list(ARCHITECTURES))
AGENTS = pytest.mark.parametrize("agents", [1, 3])


def networks(name: str, agents: int, dtype: torch.dtype = torch.float64) -> list[ActionValueNetwork]:
    return [small_network(name, seed, dtype) for seed in range(agents)]


@AGENTS
@EVERY
def test_stack_says_what_each_network_says(name: str, agents: int) -> None:
    alone = networks(name, agents)
    seen = observations(alone[0].architecture, agents, 5)
    expected = torch.stack([network.expected(own) for network, own in zip(alone, seen, strict=True)])
    torch.testing.assert_close(Stack(alone).expected(seen), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [1, FEW_ROWS, FEW_ROWS + 1])
@EVERY
def test_few_rows_of_mostly_zeros_say_the_same(name: str, rows: int) -> None:
    alone = networks(name, 3)
    seen = observations(alone[0].architecture, 3, rows)
    seen[torch.rand(seen.shape, generator=torch.Generator().manual_seed(rows)) < 0.7] = 0
    seen[1, 0] = 0
    expected = torch.stack([network.expected(own) for network, own in zip(alone, seen, strict=True)])
    stack = Stack(alone)
    for _ in range(2):
        torch.testing.assert_close(stack.expected(seen), expected, rtol=0, atol=1e-12)
    nothing = torch.stack([network.expected(torch.zeros_like(own)) for network, own in zip(alone, seen, strict=True)])
    torch.testing.assert_close(stack.expected(torch.zeros_like(seen)), nothing, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1])
def test_no_row_of_the_first_layer_depends_on_another(rows: int) -> None:
    alone = networks("quantiles, dueling, noisy", 3, torch.float32)
    seen = observations(alone[0].architecture, 3, rows).float()
    stack = Stack(alone)
    before = stack.expected(seen).clone()
    seen[1, 0, :2] = 0
    changed = np.argwhere((stack.expected(seen) != before).any(2).numpy())
    assert changed.tolist() == [[1, 0]]


@EVERY
def test_single_precision_agrees_within_rounding(name: str) -> None:
    alone = networks(name, 3, torch.float32)
    seen = observations(alone[0].architecture, 3, 5).float()
    expected = torch.stack([network.expected(own) for network, own in zip(alone, seen, strict=True)])
    torch.testing.assert_close(Stack(alone).expected(seen), expected, rtol=1e-4, atol=1e-4)


def passed(alone: list[ActionValueNetwork], seen: Tensor, shares: Tensor, by_worth: Tensor) -> tuple[Tensor, Tensor]:
    """Worths and flat gradients of a stack."""
    architecture, layout = alone[0].architecture, Layout.of(alone[0])
    layers = [noisy_layers(network) for network in alone]
    noise = {
        name: (torch.stack([of[name].noise_in for of in layers]), torch.stack([of[name].noise_out for of in layers]))
        for name in layers[0]
    }
    flat = torch.stack([flatten(network) for network in alone])
    gradient, scratch = torch.zeros_like(flat), Scratch()
    views = layout.views(gradient)
    with torch.no_grad():
        weights = plain_weights(layout.views(flat), architecture, noise)
        found = forward(weights, architecture, seen, shares if architecture.quantiles else None, scratch, "own")
        backward(weights, found, by_worth, gradient_pairs(views, architecture), scratch)
        spread_gradients(views, architecture, noise)
    return found.worth.clone(), gradient


@AGENTS
@EVERY
def test_gradients_are_those_of_autograd(name: str, agents: int) -> None:
    alone, rows = networks(name, agents), 5
    architecture = alone[0].architecture
    count = max(1, architecture.quantiles)
    generator = np.random.default_rng(1)
    seen, shares = observations(architecture, agents, rows), torch.from_numpy(generator.random((agents, rows, count)))
    by_worth = torch.from_numpy(generator.normal(size=(agents, rows * count, architecture.actions)))
    worth, gradient = passed(alone, seen, shares, by_worth)
    views = Layout.of(alone[0]).views(gradient)
    for i, network in enumerate(alone):
        if isinstance(network, QuantileNetwork):
            expected = network.quantiles(seen[i], shares[i]).flatten(0, 1)
        else:
            expected = network(seen[i])
        torch.testing.assert_close(worth[i], expected, rtol=0, atol=1e-12)
        (expected * by_worth[i]).sum().backward()  # type: ignore[no-untyped-call]
        for parameter, own in network.named_parameters():
            assert own.grad is not None
            torch.testing.assert_close(views[parameter][i], own.grad, rtol=0, atol=1e-11)


@EVERY
def test_flat_memory_holds_the_parameters_and_no_two_networks_share_any(name: str) -> None:
    alone = networks(name, 3)
    before = [{key: one.clone() for key, one in network.state_dict().items()} for network in alone]
    flat = [flatten(network) for network in alone]
    starts = {tensor.untyped_storage().data_ptr() for tensor in flat}
    for network, own, kept in zip(alone, flat, before, strict=True):
        assert all(torch.equal(one, kept[key]) for key, one in network.state_dict().items())
        storages = {one.untyped_storage().data_ptr() for one in network.parameters()}
        assert storages == {own.untyped_storage().data_ptr()}
        own.add_(1)
        assert all(torch.equal(one, kept[key] + 1) for key, one in network.named_parameters())
        own.sub_(1)
    assert len(starts) == 3


def test_stack_keeps_a_copy_and_follows_every_published_change() -> None:
    alone = networks("quantiles, dueling, noisy", 3)
    stack = Stack(alone)
    seen = observations(alone[0].architecture, 3, 2)
    before = stack.expected(seen).clone()
    stack._flat.mul_(2)  # a stack's own memory
    assert all(
        torch.equal(one, small_network("quantiles, dueling, noisy", i).get_parameter(name))
        for i, network in enumerate(alone)
        for name, one in network.named_parameters()
    )
    alone[1].load_state_dict(small_network("quantiles, dueling, noisy", 7).state_dict())
    after = stack.expected(seen)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not torch.equal(after[1], before[1])
    torch.testing.assert_close(after[1], alone[1].expected(seen[1]), rtol=0, atol=1e-12)
    alone[2].exploration.fill_(0.25)
    stack.expected(seen)
    assert stack.exploration.tolist() == [0, 0, 0.25]


def test_rows_do_not_depend_on_other_rows_or_networks() -> None:
    alone = networks("planes, quantiles, dueling, noisy", 3, torch.float32)
    seen = observations(alone[0].architecture, 3, 4).float()
    stack = Stack(alone)
    before = stack.expected(seen).clone()
    seen[1, 2] += 1
    after = stack.expected(seen)
    changed = np.argwhere((after != before).any(2).numpy())
    assert changed.tolist() == [[1, 2]]
