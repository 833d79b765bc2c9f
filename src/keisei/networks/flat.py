"""All parameters of a network in one flat piece of memory, and what of many such pieces makes one stack of weights.

Noisy and dueling layers are only another way to write plain ones: here they become plain, and gradients by plain
weights become gradients by what they are made of. Whoever computes with weights need not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from keisei.networks.quantile import Architecture, NoisyLayer

Views = Mapping[str, Tensor]
"""Parameters of n networks by name, each `[n, *shape]`."""

Noise = Mapping[str, tuple[Tensor, Tensor]]
"""By the name of a noisy layer `[n, inputs]` and `[n, outputs]`; empty: no noise."""

Pair = tuple[Tensor, Tensor]
"""Weights `[n, outputs, inputs, …]` and biases `[n, outputs]` of one layer of n networks."""


@dataclass(frozen=True)
class Layout:
    """Where the parameters of a network lie in its flat memory."""

    places: Mapping[str, tuple[int, tuple[int, ...]]]
    size: int

    @classmethod
    def of(cls, network: nn.Module) -> Layout:
        """That of a network, and of every other of its architecture."""
        places, at = {}, 0
        for name, parameter in network.named_parameters():
            places[name] = at, tuple(parameter.shape)
            at += parameter.numel()
        return cls(places, at)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters in flat memory `[n, size]`, without a copy."""
        return {
            name: flat[:, at : at + prod(shape)].view(len(flat), *shape) for name, (at, shape) in self.places.items()
        }


def flatten(network: nn.Module) -> Tensor:
    """Move a network's parameters into one flat piece of memory `[size]` of its own, and give it."""
    layout = Layout.of(network)
    parameters = dict(network.named_parameters())
    flat = next(iter(parameters.values())).detach().new_zeros(layout.size)
    for name, view in layout.views(flat[None]).items():
        view[0].copy_(parameters[name].detach())
        parameters[name].data = view[0]
    return flat


@dataclass(frozen=True)
class Weights:
    """The plain weights of n networks, layer by layer."""

    convolutions: list[Pair]
    dense: list[Pair]
    embedding: Pair | None
    hidden: Pair
    worth: Pair


def plain_weights(views: Views, architecture: Architecture, noise: Noise) -> Weights:
    """What n networks compute with, under this noise."""
    return Weights(
        convolutions=[_pair(views, f"convolutions.{2 * i}") for i in range(architecture.convolutions)],
        dense=[_pair(views, f"dense.{i}") for i in range(len(architecture.widths))],
        embedding=_pair(views, "embedding") if architecture.quantiles else None,
        hidden=_noisy(views, "hidden", noise),
        worth=_worth(views, architecture, noise),
    )


def gradient_pairs(gradients: Views, architecture: Architecture) -> Weights:
    """Where the gradients by plain weights are written; `spread_gradients` makes of them those by parameters."""
    plain = plain_weights(gradients, architecture, {})
    if not architecture.dueling:
        return plain
    weight, bias = _pair(gradients, "worth.advantage")
    return Weights(plain.convolutions, plain.dense, plain.embedding, plain.hidden, (weight, bias))


def spread_gradients(gradients: Views, architecture: Architecture, noise: Noise) -> None:
    """Turn the gradients by plain weights into those by parameters, where they lie."""
    if architecture.dueling:  # Q = V + A - mean A
        for part, by_value in zip(_pair(gradients, "worth.advantage"), _pair(gradients, "worth.value"), strict=True):
            torch.sum(part, 1, keepdim=True, out=by_value)
            part -= by_value / architecture.actions
    for name, (inputs, outputs) in noise.items():
        weight, bias = _pair(gradients, name)
        torch.mul(weight, outputs[:, :, None], out=gradients[f"{name}.weight_spread"]).mul_(inputs[:, None])
        torch.mul(bias, outputs, out=gradients[f"{name}.bias_spread"])


def noisy_layers(network: nn.Module) -> dict[str, NoisyLayer]:
    """The noisy layers of a network by name, in the order in which their noise is drawn."""
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, NoisyLayer)}


def _pair(views: Views, name: str) -> Pair:
    return views[f"{name}.weight"], views[f"{name}.bias"]


def _noisy(views: Views, name: str, noise: Noise) -> Pair:
    weight, bias = _pair(views, name)
    if name not in noise:
        return weight, bias
    inputs, outputs = noise[name]
    drawn = (views[f"{name}.weight_spread"] * outputs[:, :, None]).mul_(inputs[:, None]).add_(weight)
    return drawn, torch.addcmul(bias, views[f"{name}.bias_spread"], outputs)


def _worth(views: Views, architecture: Architecture, noise: Noise) -> Pair:
    weight, bias = _noisy(views, "worth.advantage", noise)
    if not architecture.dueling:
        return weight, bias
    value_weight, value_bias = _noisy(views, "worth.value", noise)
    return weight - weight.mean(1, keepdim=True) + value_weight, bias - bias.mean(1, keepdim=True) + value_bias
