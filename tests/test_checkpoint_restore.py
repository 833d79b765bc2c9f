"""Networks and optimisers go on from a checkpoint as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from checkpoints import bits, small
from keisei.checkpoint import (
    JSON,
    optimizer_facts,
    optimizer_tensors,
    read,
    restore,
    restore_optimizer,
    write,
)
from keisei.errors import CheckpointError

Build = Callable[[nn.Module], Optimizer]

BUILDS: dict[str, Build] = {
    "Adam": lambda net: Adam(net.parameters(), lr=0.01, betas=(0.8, 0.99)),
    "Adam with amsgrad": lambda net: Adam(net.parameters(), amsgrad=True),
    "Adam with a tensor": lambda net: Adam(net.parameters(), lr=torch.tensor(0.01)),
    "Adam fused": lambda net: Adam(net.parameters(), fused=True),
    "AdamW": lambda net: AdamW(net.parameters(), weight_decay=0.1),
    "AdamW in groups": lambda net: AdamW(
        [
            {"params": list(net.parameters())[2:], "lr": 0.1},
            {"params": list(net.parameters())[:2], "weight_decay": 0},
        ]
    ),
    "Adam with names": lambda net: Adam(net.named_parameters()),
    "SGD": lambda net: SGD(net.parameters(), lr=0.1),
    "SGD with momentum": lambda net: SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def network(seed: int = 0) -> nn.Module:
    """Convolutions in channels-last, with buffers of several types, and a layer that is never used."""
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(100, 5))
    layers.register_module("unused", nn.ParameterList([nn.Parameter(torch.ones(2))]))
    for parameter in layers.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.to(memory_format=torch.channels_last)
    return layers


def step(net: nn.Module, optimizer: Optimizer, number: int) -> None:
    generator = torch.Generator().manual_seed(number)
    layers = [layer for name, layer in net.named_children() if name != "unused"]
    value = torch.randn(8, 3, 5, 5, generator=generator).to(memory_format=torch.channels_last)
    for layer in layers:
        value = layer(value)
    optimizer.zero_grad()
    torch.autograd.backward(value.square().mean())
    optimizer.step()


def state(net: nn.Module, optimizer: Optimizer) -> object:
    return bits(dict(net.state_dict())), bits(optimizer_tensors(optimizer, net.named_parameters()))


@pytest.mark.parametrize("name", BUILDS)
def test_training_goes_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    net = network()
    optimizer = BUILDS[name](net)
    for number in range(3):
        step(net, optimizer, number)
    for group in optimizer.param_groups:
        if not isinstance(group["lr"], Tensor):
            group["lr"] = 1 / 3
    tensors = optimizer_tensors(optimizer, net.named_parameters())
    facts = {"optimizer": optimizer_facts(optimizer, net.named_parameters())}
    folder = write(tmp_path, 3, replace(small(), weights=net.state_dict(), tensors={"optimizer": tensors}, facts=facts))

    other = network(seed=1)
    resumed = BUILDS[name](other)
    step(other, resumed, 9)
    found = read(folder)
    restore(other, found.weights)
    saved = found.facts["optimizer"]
    assert isinstance(saved, Mapping)
    restore_optimizer(resumed, other.named_parameters(), found.tensors["optimizer"], saved)

    assert state(other, resumed) == state(net, optimizer)
    for number in range(3, 6):
        step(net, optimizer, number)
        step(other, resumed, number)
    assert state(other, resumed) == state(net, optimizer)
    assert optimizer_facts(resumed, other.named_parameters()) == optimizer_facts(optimizer, net.named_parameters())


def test_memory_layout_is_that_of_the_network() -> None:
    net, other = network(), network(1)
    optimizer, resumed = Adam(net.parameters()), Adam(other.parameters())
    step(net, optimizer, 0)
    tensors = {name: value.contiguous() for name, value in net.state_dict().items()}
    moments = {name: value.contiguous() for name, value in optimizer_tensors(optimizer, net.named_parameters()).items()}
    restore(other, tensors)
    restore_optimizer(resumed, other.named_parameters(), moments, optimizer_facts(optimizer, net.named_parameters()))
    weight = other.get_parameter("0.weight")
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert resumed.state[weight]["exp_avg"].stride() == weight.stride()
    assert not resumed.state[weight]["exp_avg"].requires_grad


def test_names_in_the_file_are_those_of_the_network() -> None:
    net = network()
    optimizer = Adam(net.parameters())
    assert optimizer_tensors(optimizer, net.named_parameters()) == {}
    step(net, optimizer, 0)
    names = optimizer_tensors(optimizer, net.named_parameters())
    assert {"0.weight.exp_avg", "4.bias.exp_avg_sq", "1.weight.step"} <= names.keys()
    assert not any(name.startswith("unused") for name in names)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"0.bias": None}, "'0.bias' of the network is missing"),
        ({"0.other": torch.ones(4)}, "the network has no '0.other'"),
        ({"0.bias": torch.ones(5)}, r"tensor 0.bias is torch.float32 \[5\], expected torch.float32 \[4\]"),
        ({"0.bias": torch.ones(4, 1)}, r"tensor 0.bias is torch.float32 \[4, 1\], expected"),
        ({"0.bias": torch.ones(4).double()}, r"tensor 0.bias is torch.float64 \[4\], expected torch.float32 \[4\]"),
        ({"1.num_batches_tracked": torch.tensor(1.0)}, "num_batches_tracked is torch.float32"),
    ],
)
def test_weights_of_another_network_are_refused(change: dict[str, Tensor | None], reason: str) -> None:
    net = network()
    before = bits(dict(net.state_dict()))
    changed: dict[str, Tensor | None] = {name: value + 1 for name, value in net.state_dict().items()} | change
    with pytest.raises(CheckpointError, match=reason):
        restore(net, {name: value for name, value in changed.items() if value is not None})
    assert bits(dict(net.state_dict())) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"0.weight.exp_avg": None}, "tensor 0.weight.exp_avg of the optimizer is missing"),
        ({"0.weight.step": None}, "tensor 0.weight.step of the optimizer is missing"),
        ({"0.weight.momentum_buffer": torch.ones(2)}, "'0.weight.momentum_buffer' belongs to no parameter"),
        ({"9.weight.exp_avg": torch.ones(2)}, "'9.weight.exp_avg' belongs to no parameter"),
        ({"step": torch.ones(2)}, "'step' belongs to no parameter"),
        ({"0.bias.exp_avg": torch.ones(5)}, r"tensor 0.bias.exp_avg is torch.float32 \[5\]"),
        ({"0.bias.step": torch.ones(1)}, r"tensor 0.bias.step is torch.float32 \[1\], expected torch.float32 \[\]"),
    ],
)
def test_tensors_of_another_optimizer_are_refused(change: dict[str, Tensor | None], reason: str) -> None:
    net = network()
    optimizer = Adam(net.parameters())
    step(net, optimizer, 0)
    before = state(net, optimizer)
    named = list(net.named_parameters())
    changed: dict[str, Tensor | None] = {**optimizer_tensors(optimizer, named), **change}
    tensors = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(CheckpointError, match=reason):
        restore_optimizer(optimizer, named, tensors, optimizer_facts(optimizer, named))
    assert state(net, optimizer) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "SGD"}, "the optimizer is Adam, the saved one was 'SGD'"),
        ({"kind": None}, "the optimizer is Adam, the saved one was None"),
        ({"groups": []}, "the optimizer has 1 groups of parameters, the saved one not"),
        ({"groups": [1]}, "group 0 of the optimizer had other parameters"),
        ({"groups": [{}]}, "group 0 of the optimizer had other parameters"),
        ({"lr": None}, "setting lr cannot be None"),
        ({"lr": True}, "setting lr cannot be True"),
        ({"betas": [0.9]}, r"setting betas cannot be \[0.9\]"),
        ({"betas": [0.9, "x"]}, "setting betas cannot be 'x'"),
        ({"amsgrad": 0}, "setting amsgrad cannot be 0"),
        ({"new": 0}, "group 0 of the optimizer has no 'new'"),
        ({"parameters": ["0.weight"]}, "group 0 of the optimizer had other parameters"),
    ],
)
def test_facts_of_another_optimizer_are_refused(change: dict[str, JSON], reason: str) -> None:
    net = network()
    optimizer = Adam(net.parameters())
    named = list(net.named_parameters())
    facts = optimizer_facts(optimizer, named)
    assert isinstance(facts["groups"], list)
    if change.keys() & facts.keys():
        facts |= change
    else:
        facts["groups"] = [facts["groups"][0] | change]
    with pytest.raises(CheckpointError, match=reason):
        restore_optimizer(optimizer, named, {}, facts)


def test_what_cannot_be_saved_exactly_is_refused() -> None:
    net = network()
    with pytest.raises(CheckpointError, match="the state of RMSprop cannot be saved"):
        optimizer_tensors(RMSprop(net.parameters()), net.named_parameters())
    with pytest.raises(CheckpointError, match="10 parameters of the optimizer are none of the network's"):
        optimizer_facts(Adam([torch.ones(1, requires_grad=True) for _ in range(10)]), net.named_parameters())
