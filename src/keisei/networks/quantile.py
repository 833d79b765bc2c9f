"""Networks of action values: what each action is worth to the seat that decides, as one number or as quantiles.

This is how one network computes; `stacked.py` computes many of one architecture at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import pi, prod

import torch
from torch import Tensor, nn

from keisei.networks.network import orthogonal, shrink
from keisei.networks.small import MLP, ConvolutionalTower

_SPREAD = 0.5
"""Of the noise that noisy layers begin with, over the root of their inputs."""


@dataclass(frozen=True)
class Architecture:
    """What a network of action values is made of. Networks of one architecture can be computed as one."""

    shape: tuple[int, ...]  # of one observation as the network gets it
    actions: int
    convolutions: int  # of 3×3, before everything else
    channels: int  # of each of them
    widths: tuple[int, ...]  # of the fully connected layers behind them
    layer: int  # units of the last layer before the values
    dueling: bool
    noisy: bool
    quantiles: int  # how many are taken of what an action is worth; 0: its expected worth only
    cosines: int  # that tell a quantile's share; 0 where there are none

    @property
    def flat(self) -> int:
        """How many numbers the fully connected layers get."""
        return self.channels * prod(self.shape[1:]) if self.convolutions else prod(self.shape)

    @property
    def features(self) -> int:
        """How many numbers they make of them."""
        return self.widths[-1] if self.widths else self.flat


class NoisyLayer(nn.Linear):
    """A fully connected layer whose weights are drawn: `W = μ + σ ⊙ f(ε_out) f(ε_in)ᵀ`, `f(ε) = sign(ε) √|ε|`.

    The buffers hold `f(ε)` of the present draw and travel with the weights; 0 is no noise at all.
    """

    noise_in: Tensor  # [inputs]
    noise_out: Tensor  # [outputs]

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.weight_spread = nn.Parameter(torch.full((outputs, inputs), _SPREAD * inputs**-0.5))
        self.bias_spread = nn.Parameter(torch.full((outputs,), _SPREAD * inputs**-0.5))
        self.register_buffer("noise_in", torch.zeros(inputs))
        self.register_buffer("noise_out", torch.zeros(outputs))

    def forward(self, features: Tensor) -> Tensor:
        """`[…, inputs]` → `[…, outputs]`."""
        weight = self.weight + self.weight_spread * torch.outer(self.noise_out, self.noise_in)
        return nn.functional.linear(features, weight, self.bias + self.bias_spread * self.noise_out)


class Worth(nn.Module):
    """What actions are worth, from features: at once, or (dueling) as the position's value and each one's advantage."""

    def __init__(self, features: int, actions: int, *, dueling: bool, noisy: bool) -> None:
        super().__init__()
        kind = NoisyLayer if noisy else nn.Linear
        self.advantage = kind(features, actions)
        self.value = kind(features, 1) if dueling else None
        for layer in self.children():
            shrink(layer)

    def forward(self, features: Tensor) -> Tensor:
        """`[…, features]` → `[…, actions]`."""
        advantage: Tensor = self.advantage(features)
        if self.value is None:
            return advantage
        value: Tensor = self.value(features)
        return value + advantage - advantage.mean(-1, keepdim=True)


class ActionValueNetwork(nn.Module):
    """Convolutions, fully connected layers, one more layer, and what each action is worth."""

    exploration: Tensor  # [] the share of decisions that are made at random; it travels with the weights

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        planes, channels = architecture.shape[0], architecture.channels
        self.convolutions = ConvolutionalTower(planes, architecture.convolutions, channels)
        self.dense = MLP((architecture.flat,), architecture.widths)
        self._add_embedding(architecture)
        kind = NoisyLayer if architecture.noisy else nn.Linear
        self.hidden = kind(architecture.features, architecture.layer)
        orthogonal(self.hidden)
        self.worth = Worth(
            architecture.layer, architecture.actions, dueling=architecture.dueling, noisy=architecture.noisy
        )
        self.register_buffer("exploration", torch.zeros(()))

    def _add_embedding(self, architecture: Architecture) -> None:
        """Here, so that parameters have the order in which they are used."""

    def features(self, seen: Tensor) -> Tensor:
        """`[B, *shape]` → `[B, features]`."""
        through: Tensor = self.convolutions(seen) if self.architecture.convolutions else seen
        features: Tensor = self.dense(through)
        return features

    def expected(self, seen: Tensor) -> Tensor:
        """What each action is worth, `[B, A]`."""
        return self.worth_of(self.features(seen))

    def worth_of(self, features: Tensor) -> Tensor:
        """`[…, features]` → `[…, A]`."""
        worth: Tensor = self.worth(self.hidden(features).relu())
        return worth

    def forward(self, seen: Tensor) -> Tensor:
        """`[B, *shape]` → `[B, A]`."""
        return self.expected(seen)


class QuantileNetwork(ActionValueNetwork):
    """An implicit quantile network: asked for a share τ of 0..1, it says below what number the worth lies so often."""

    def _add_embedding(self, architecture: Architecture) -> None:
        self.embedding = nn.Linear(architecture.cosines, architecture.features)
        orthogonal(self.embedding)

    def quantiles(self, seen: Tensor, shares: Tensor) -> Tensor:
        """`seen [B, *shape]`, `shares [B, K]` → `[B, K, A]`."""
        embedded: Tensor = self.embedding(cosines(shares, self.architecture.cosines)).relu_()
        return self.worth_of(self.features(seen)[:, None] * embedded)

    def expected(self, seen: Tensor) -> Tensor:
        """The mean of quantiles whose shares lie in the middle of as many equal parts, `[B, A]`."""
        shares = middles(self.architecture.quantiles).to(seen)
        return self.quantiles(seen, shares.expand(len(seen), -1)).mean(1)


def cosines(shares: Tensor, count: int) -> Tensor:
    """`cos(π i τ)` for i = 0, 1, …: shares `[…]` → `[…, count]`."""
    return (shares[..., None] * _multiples(count, shares.dtype, shares.device)).cos_()


@cache
def _multiples(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.arange(count, dtype=dtype, device=device) * pi


def middles(count: int) -> Tensor:
    """The middles of `count` equal parts of 0..1."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def action_values(architecture: Architecture, seed: int) -> ActionValueNetwork:
    """A network of an architecture with fresh weights; the same seed gives the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return QuantileNetwork(architecture) if architecture.quantiles else ActionValueNetwork(architecture)
