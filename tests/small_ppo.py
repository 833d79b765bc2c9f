"""A small PPO learner and its weights, as its tests use it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from keisei.learning.ppo import PPO, PPOSettings, Schedule
from keisei.networks import TwoHeadedNetwork
from keisei.networks.network import DensePolicy
from keisei.policy import Policy, encode_numbers

FEATURES, ACTIONS, EVERYTHING = 4, 5, 10_000
SETTINGS = PPOSettings(
    learning_rate=Schedule(0.01, 0.01),
    entropy=Schedule(0.03, 0.03),
    gamma=0.99,
    lam=0.95,
    epochs=1,
    minibatch_size=EVERYTHING,
    clip=0.2,
    value_clip=0.0,
    value_weight=0.7,
    gradient_norm=1e9,
    target_kl=0.0,
    normalize_advantages=True,
    threads=1,
)
ANY_RATE = Schedule(0.0, 0.0)


class FlatValue(nn.Linear):
    """One number in -1..1 from flat features."""

    def __init__(self) -> None:
        super().__init__(FEATURES, 1)

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features).tanh()


def linear_policy(seed: int = 0) -> Policy:
    """A network of one linear layer for each head, with weights that say something."""
    network = TwoHeadedNetwork(nn.Identity(), DensePolicy(FEATURES, ACTIONS), FlatValue())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return Policy(network, encode_numbers)


def learner(settings: PPOSettings = SETTINGS, seed: int = 0, policy: Policy | None = None) -> PPO:
    return PPO(policy or linear_policy(), settings, seed)


def weights(ppo: PPO) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in ppo.network.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
