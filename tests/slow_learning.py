"""Advantages and PPO as the formulas say, in plain Python and double precision: slow and obvious."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, tanh

import numpy as np

from keisei.environment import Float32, Float64
from keisei.rollout import Rollout

# --- advantages


@dataclass
class Decision:
    """A decision, and what followed until the next one."""

    step: int
    value: float
    reward: float
    factor: float  # what the next decision's value counts
    trust: float


def _decisions(rollout: Rollout, block: int, lane: int, gamma: float, trust: Float32) -> list[Decision]:
    found: list[Decision] = []
    for t in range(rollout.reward.shape[1]):
        at = block, t, lane
        reward, factor = float(rollout.reward[at]), gamma * float(rollout.discount[at])
        if rollout.cut_off[at]:
            reward, factor = reward + factor * float(rollout.final_value[at]), 0.0
        if rollout.acted[at]:
            found.append(Decision(t, float(rollout.value[at]), reward, factor, float(trust[at])))
        elif found:
            found[-1].reward += found[-1].factor * reward
            found[-1].factor *= factor
    return found


def slow_advantages(rollout: Rollout, gamma: float, lam: float, trust: Float32 | None = None) -> Float64:
    """`[N, T, B]`, one lane at a time; 0 in rows without a decision. Without `trust`, everything is believed."""
    blocks, steps, lanes = rollout.reward.shape
    result = np.zeros((blocks, steps, lanes))
    believed = np.ones((blocks, steps, lanes), np.float32) if trust is None else trust
    for block, lane in np.ndindex(blocks, lanes):
        decisions = _decisions(rollout, block, lane, gamma, believed)
        bootstrap = float(rollout.bootstrap[block, lane])
        for number, decision in enumerate(decisions):
            result[block, decision.step, lane] = _advantage(decisions, number, bootstrap, lam)
    return result


def _advantage(decisions: list[Decision], number: int, bootstrap: float, lam: float) -> float:
    if number == len(decisions):
        return 0.0
    now = decisions[number]
    last = number + 1 == len(decisions)
    next_value = bootstrap if last else decisions[number + 1].value
    delta = now.reward + now.factor * next_value - now.value
    trust = 1.0 if last else decisions[number + 1].trust
    return delta + lam * now.factor * trust * _advantage(decisions, number + 1, bootstrap, lam)


# --- PPO of a network with one linear layer for each head


@dataclass(frozen=True)
class Row:
    """One decision to learn from."""

    seen: Sequence[float]
    legal: Sequence[int]
    action: int
    log_probability: float  # of the policy that acted
    value: float  # that it expected
    advantage: float
    target: float


@dataclass(frozen=True)
class SlowSettings:
    """What the loss depends on."""

    clip: float
    value_clip: float  # 0: none
    value_weight: float
    entropy_weight: float


@dataclass(frozen=True)
class LinearNetwork:
    """`logit_a = policy_a · seen + bias_a`, `value = tanh(value · seen + bias)`."""

    policy: Float64  # [A, F]
    policy_bias: Float64  # [A]
    value: Float64  # [1, F]
    value_bias: Float64  # [1]

    def log_probabilities(self, row: Row) -> dict[int, float]:
        """Of the legal actions."""
        logits = {a: _dot(self.policy[a], row.seen) + float(self.policy_bias[a]) for a in row.legal}
        most = max(logits.values())
        total = most + log(sum(exp(logit - most) for logit in logits.values()))
        return {a: logit - total for a, logit in logits.items()}

    def value_of(self, row: Row) -> float:
        """What the position is worth."""
        return tanh(_dot(self.value[0], row.seen) + float(self.value_bias[0]))


def slow_numbers(network: LinearNetwork, rows: Sequence[Row], settings: SlowSettings) -> dict[str, float]:
    """The loss and its parts, each a mean over the rows."""
    sums = dict.fromkeys(("policy_loss", "value_loss", "entropy", "kl", "clip_fraction"), 0.0)
    for row in rows:
        log_probabilities = network.log_probabilities(row)
        log_ratio = log_probabilities[row.action] - row.log_probability
        ratio = exp(log_ratio)
        kept = min(max(ratio, 1 - settings.clip), 1 + settings.clip)
        sums["policy_loss"] -= min(ratio * row.advantage, kept * row.advantage)
        sums["value_loss"] += 0.5 * _value_error(network.value_of(row), row, settings.value_clip)
        sums["entropy"] -= sum(exp(number) * number for number in log_probabilities.values())
        sums["kl"] += ratio - 1 - log_ratio
        sums["clip_fraction"] += abs(ratio - 1) > settings.clip
    means = {name: total / len(rows) for name, total in sums.items()}
    loss = means["policy_loss"] + settings.value_weight * means["value_loss"]
    return means | {"loss": loss - settings.entropy_weight * means["entropy"]}


def _value_error(value: float, row: Row, clip: float) -> float:
    error = (value - row.target) ** 2
    if not clip:
        return error
    near = row.value + min(max(value - row.value, -clip), clip)
    return max(error, (near - row.target) ** 2)


def _dot(weights: Float64, seen: Sequence[float]) -> float:
    return sum(float(weight) * number for weight, number in zip(weights, seen, strict=True))


def slow_gradient(parameters: Sequence[Float64], loss: Callable[[], float], by: float = 1e-6) -> list[Float64]:
    """The gradient of a loss that reads these parameters: each is moved a little up and down."""
    gradients = []
    for parameter in parameters:
        gradient = np.zeros_like(parameter)
        for place in np.ndindex(parameter.shape):
            before = parameter[place]
            parameter[place] = before + by
            above = loss()
            parameter[place] = before - by
            gradient[place] = (above - loss()) / (2 * by)
            parameter[place] = before
        gradients.append(gradient)
    return gradients


class SlowAdam:
    """Adam, after its paper, over parameters that it changes in place."""

    def __init__(self, parameters: Sequence[Float64], rate: float, eps: float) -> None:
        self.parameters = parameters
        self.rate = rate
        self.eps = eps
        self.steps = 0
        self.first = [np.zeros_like(parameter) for parameter in parameters]
        self.second = [np.zeros_like(parameter) for parameter in parameters]

    def step(self, gradients: Sequence[Float64]) -> None:
        """Move against the gradients."""
        self.steps += 1
        for i, gradient in enumerate(gradients):
            self.first[i] = 0.9 * self.first[i] + 0.1 * gradient
            self.second[i] = 0.999 * self.second[i] + 0.001 * gradient**2
            mean, square = self.first[i] / (1 - 0.9**self.steps), self.second[i] / (1 - 0.999**self.steps)
            self.parameters[i][...] -= self.rate * mean / (np.sqrt(square) + self.eps)
