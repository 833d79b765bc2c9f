"""A step of Adam in one call is torch's own, bit for bit."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.optim import Adam

from keisei.learning import adam


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def optimizer_of(module: nn.Module) -> Adam:
    return Adam(module.parameters(), lr=1e-2, eps=1e-5, fused=True)


def gradients(module: nn.Module, number: int) -> None:
    """Gradients of the number-th batch; every third one is none of the last layer's."""
    generator = torch.Generator().manual_seed(number)
    for at, parameter in enumerate(module.parameters()):
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.grad = None if number % 3 == 2 and at >= 2 else drawn


def test_steps_are_those_of_torch() -> None:
    ours, theirs = network(), network()
    one, other = optimizer_of(ours), optimizer_of(theirs)
    for number in range(12):
        for module in (ours, theirs):
            gradients(module, number)
        for group in (*one.param_groups, *other.param_groups):
            group["lr"] = 1e-2 / (1 + number)
        adam.step(one)
        other.step()
        for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(mine, its)
            for name, number_of in other.state[its].items():
                assert torch.equal(one.state[mine][name], number_of), name


def test_parameter_that_gets_its_first_gradient_late_begins_then() -> None:
    ours, theirs = network(), network()
    one, other = optimizer_of(ours), optimizer_of(theirs)
    for number in (2, 5, 0, 1):
        for module, step in ((ours, lambda: adam.step(one)), (theirs, other.step)):
            gradients(module, number)
            step()
    assert all(torch.equal(mine, its) for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_state_goes_on_from_a_copy() -> None:
    ours = network()
    one = optimizer_of(ours)
    gradients(ours, 0)
    adam.step(one)
    twin = network()
    twin.load_state_dict(ours.state_dict())
    other = optimizer_of(twin)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for module, optimizer in ((ours, one), (twin, other)):
        gradients(module, 1)
        adam.step(optimizer)
    assert all(torch.equal(mine, its) for mine, its in zip(ours.parameters(), twin.parameters(), strict=True))
