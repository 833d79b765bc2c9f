"""Networks of action values, their targets and losses as the formulas say, one number at a time: slow and obvious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi

import numpy as np

from keisei.environment import Float64


@dataclass(frozen=True)
class SlowNetwork:
    """Fully connected layers, perhaps noisy, dueling or asked for quantiles; `parameters` by their names."""

    parameters: Mapping[str, Float64]
    noise: Mapping[str, tuple[Float64, Float64]]  # f(ε) of inputs and outputs by layer

    def worth(self, seen: Sequence[float], share: float | None = None) -> list[float]:
        """What each action is worth, or its quantile of that share."""
        features = [float(number) for number in seen]
        number = 0
        while f"dense.{number}.weight" in self.parameters:
            features = _relu(self._layer(f"dense.{number}", features))
            number += 1
        if share is not None:
            count = self.parameters["embedding.weight"].shape[1]
            embedded = _relu(self._layer("embedding", [cos(pi * i * share) for i in range(count)]))
            features = [one * other for one, other in zip(features, embedded, strict=True)]
        hidden = _relu(self._layer("hidden", features))
        advantage = self._layer("worth.advantage", hidden)
        if "worth.value.weight" not in self.parameters:
            return advantage
        (value,) = self._layer("worth.value", hidden)
        return [value + one - sum(advantage) / len(advantage) for one in advantage]

    def expected(self, seen: Sequence[float], quantiles: int) -> list[float]:
        """What each action is worth on average: over the middles of as many equal parts."""
        if not quantiles:
            return self.worth(seen)
        found = [self.worth(seen, (i + 0.5) / quantiles) for i in range(quantiles)]
        return [sum(column) / quantiles for column in zip(*found, strict=True)]

    def _layer(self, name: str, inputs: Sequence[float]) -> list[float]:
        weight, bias = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        if name in self.noise:
            noise_in, noise_out = self.noise[name]
            weight = weight + self.parameters[f"{name}.weight_spread"] * np.outer(noise_out, noise_in)
            bias = bias + self.parameters[f"{name}.bias_spread"] * noise_out
        return [float(row @ np.array(inputs) + number) for row, number in zip(weight, bias, strict=True)]


def _relu(numbers: Sequence[float]) -> list[float]:
    return [max(0.0, number) for number in numbers]


def slow_huber(error: float, threshold: float) -> float:
    """Half the square, beyond the threshold linear."""
    if abs(error) <= threshold:
        return 0.5 * error**2
    return threshold * (abs(error) - 0.5 * threshold)


def slow_quantile_huber(
    said: Sequence[float], wanted: Sequence[float], shares: Sequence[float], threshold: float
) -> float:
    """The loss of one row: over each pair of what was said and what was wanted."""
    loss = 0.0
    for quantile, share in zip(said, shares, strict=True):
        for sample in wanted:
            error = sample - quantile
            blame = abs(share - (1.0 if error < 0 else 0.0))
            loss += blame * slow_huber(error, threshold) / threshold / len(wanted)
    return loss


@dataclass(frozen=True)
class SlowRow:
    """One window of a batch."""

    seen: Sequence[float]
    action: int
    reward: float
    factor: float
    next_seen: Sequence[float]
    next_legal: Sequence[int]
    weight: float
    shares: tuple[Sequence[float], Sequence[float]]  # of the network, of the target network; empty: no quantiles


def slow_wanted(row: SlowRow, own: SlowNetwork, target: SlowNetwork, *, double: bool) -> list[float]:
    """What the row's action turned out to be worth."""
    after: list[list[float]] = [target.worth(row.next_seen, share) for share in row.shares[1]]
    if not row.shares[1]:
        after = [target.worth(row.next_seen)]
    if not row.factor:  # the game is over
        return [row.reward for _ in after]
    if double:
        choice = own.expected(row.next_seen, len(row.shares[0]))
    else:
        choice = [sum(column) / len(after) for column in zip(*after, strict=True)]
    best = max(sorted(row.next_legal), key=lambda action: choice[action])
    return [row.reward + row.factor * sample[best] for sample in after]


def slow_loss(rows: Sequence[SlowRow], wanted: Sequence[Sequence[float]], own: SlowNetwork, threshold: float) -> float:
    """The mean loss of a batch."""
    total = 0.0
    for row, samples in zip(rows, wanted, strict=True):
        if row.shares[0]:
            said = [own.worth(row.seen, share)[row.action] for share in row.shares[0]]
            total += row.weight * slow_quantile_huber(said, samples, row.shares[0], threshold)
        else:
            total += row.weight * slow_huber(samples[0] - own.worth(row.seen)[row.action], threshold)
    return total / len(rows)
