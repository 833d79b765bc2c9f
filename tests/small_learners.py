"""Small learners of action values, and random lives for them to learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from keisei.acting import ValuePolicy
from keisei.learning.dqn import DQN
from keisei.learning.iqn import IQN
from keisei.learning.q_learner import QLearner, QSettings
from keisei.networks.quantile import Architecture
from keisei.policy import encode_numbers
from keisei.rollout import Rollout
from lived import random_experience
from small_values import small_network

LANES = 6
SETTINGS = QSettings(
    learning_rate=0.01,
    gamma=0.9,
    steps=1,
    double=True,
    batch_size=8,
    memory=600,
    updates=1,
    target_rate=0.1,
    exploration=0.6,
    exploration_decay=0.1,
    final_exploration=0.05,
    gradient_norm=1e9,
    threshold=1.0,
    priority=0.0,
    priority_weight=0.4,
    threads=1,
)
VALUES = Architecture((4,), 5, 0, 0, (5,), 4, False, False, 0, 0)
QUANTILES = replace(VALUES, quantiles=3, cosines=4)
EVERYTHING = {"dueling": True, "noisy": True}
CASES: dict[str, tuple[Architecture, QSettings]] = {
    "dqn": (VALUES, replace(SETTINGS, double=False)),
    "dqn, double": (VALUES, SETTINGS),
    "dqn, everything": (
        replace(VALUES, dueling=True, noisy=True),
        replace(SETTINGS, steps=3, priority=0.6, gradient_norm=0.5, threshold=0.5),
    ),
    "iqn": (QUANTILES, SETTINGS),
    "iqn, single": (QUANTILES, replace(SETTINGS, double=False, threshold=0.3)),
    "iqn, everything": (
        replace(QUANTILES, dueling=True, noisy=True),
        replace(SETTINGS, steps=3, priority=0.6, gradient_norm=0.5),
    ),
}


def small_learner(case: str, agent: int = 0, *, seed: int = 3, dtype: torch.dtype = torch.float64) -> QLearner:
    """A learner whose network says something."""
    architecture, settings = CASES[case]
    network = small_network(architecture=architecture, seed=agent, dtype=dtype)
    kind = IQN if architecture.quantiles else DQN
    group = life(0, agent).group
    return kind(ValuePolicy(network, encode_numbers), group, settings, seed=seed, agent=agent, lanes=LANES)


def life(iteration: int, agent: int = 0) -> Rollout:
    """What an agent lived in an iteration."""
    return random_experience(1000 * agent + iteration, "mask", steps=7).rollout


def bits(learner: QLearner) -> dict[str, Tensor]:
    """Everything that a learner has learnt, in memory of its own."""
    tensors = {**learner.network.state_dict(), **learner.state()[0]}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of any number."""
    return max(float(np.abs(one[name].double().numpy() - other[name].double().numpy()).max(initial=0)) for name in one)
