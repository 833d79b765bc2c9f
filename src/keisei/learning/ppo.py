"""Proximal policy optimisation over rollouts, for whatever game they come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from keisei.checkpoint import JSON, optimizer_facts, optimizer_tensors, restore_optimizer
from keisei.environment import Bool, Float32, Int64
from keisei.errors import CheckpointError, LearningError
from keisei.learning import adam
from keisei.learning.advantage import advantages
from keisei.learning.learner import Facts
from keisei.learning.tally import Tally
from keisei.learning.trust import Trust, full_trust
from keisei.policy import Evaluation, Policy
from keisei.rollout import Rollout
from keisei.threads import torch_threads

MOST_SKIPPED_IN_A_ROW = 5


@dataclass(frozen=True)
class Schedule:
    """A number that moves linearly over the run."""

    first: float
    last: float

    def at(self, progress: float) -> float:
        """Its value `progress` (0..1) into the run."""
        return self.first + (self.last - self.first) * min(max(progress, 0.0), 1.0)


@dataclass(frozen=True)
class PPOSettings:
    """What can be chosen about PPO."""

    learning_rate: Schedule
    entropy: Schedule
    gamma: float
    lam: float
    epochs: int
    minibatch_size: int
    clip: float
    value_clip: float  # 0: none
    value_weight: float
    gradient_norm: float
    target_kl: float  # 0: never stop early
    normalize_advantages: bool
    threads: int


@dataclass(frozen=True)
class Batch:
    """What is known of the rows of one update, all [n]."""

    log_probability: Tensor  # of the policy that acted
    value: Tensor  # that it expected
    advantage: Tensor
    target: Tensor  # what the value is to become


@dataclass(frozen=True)
class Lessons:
    """What is to be learnt of a rollout: a batch of all its rows, from which minibatches are taken at once."""

    numbers: Float32  # [4, N · T · B], in the order of `Batch`
    choice: Int64  # [N · T · B]

    @classmethod
    def of(cls, rollout: Rollout, advantage: Float32, target: Float32) -> Lessons:
        """Those of a rollout, with its advantages and targets `[N, T, B]`."""
        numbers = [array.ravel() for array in (rollout.log_probability, rollout.value, advantage, target)]
        return cls(np.stack(numbers), rollout.choice.ravel().astype(np.int64))

    def batch(self, rows: Int64) -> tuple[Batch, Tensor]:
        """Some rows and their choices."""
        return Batch(*torch.from_numpy(self.numbers[:, rows]).unbind()), torch.from_numpy(self.choice[rows])


class PPO:
    """Learns from each rollout in a few epochs of minibatches."""

    def __init__(self, policy: Policy, settings: PPOSettings, seed: int, trust: Trust = full_trust) -> None:
        self.policy = policy
        self.trust = trust
        self.network = policy.network
        self.settings = settings
        self.seed = seed
        self._parameters = list(self.network.parameters())
        self.optimizer = torch.optim.Adam(self._parameters, lr=settings.learning_rate.first, eps=1e-5, fused=True)
        self.skipped = 0  # updates, in the whole run
        self.skipped_in_a_row = 0

    def learn(self, rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        """Learn from a rollout; gives means over its updates."""
        with torch_threads(self.settings.threads):
            return self._learn(rollout, iteration, progress)

    def _learn(self, rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        rate, entropy_weight = self.settings.learning_rate.at(progress), self.settings.entropy.at(progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        trust = self.trust(self.policy, rollout, self.settings.minibatch_size)
        advantage = advantages(rollout, self.settings.gamma, self.settings.lam, trust)
        target = trust * advantage + rollout.value
        rows = np.flatnonzero(rollout.acted)
        lessons = self._lessons(rollout, self._normalized(advantage, rollout.acted), target)
        tally = Tally()
        for minibatch in self._minibatches(rows, iteration):
            report = self._update(rollout, lessons, minibatch, entropy_weight)
            tally.add(report)
            if self.settings.target_kl and report["kl"] > 1.5 * self.settings.target_kl:
                break
        return {
            **tally.means(),
            "explained_variance": _explained_variance(rollout.value[rollout.acted], target[rollout.acted]),
            "learning_rate": rate,
            "entropy_weight": entropy_weight,
            "trust": float(trust[rollout.acted].mean()) if len(rows) else 1.0,
            "updates": tally.updates,
            "skipped_updates": self.skipped,
        }

    def _lessons(self, rollout: Rollout, advantage: Float32, target: Float32) -> Lessons:
        return Lessons.of(rollout, advantage, target)

    def _normalized(self, advantage: Float32, acted: Bool) -> Float32:
        chosen = advantage[acted]
        if not self.settings.normalize_advantages or len(chosen) < 2:
            return advantage
        scaled: Float32 = ((advantage - chosen.mean()) / (chosen.std() + 1e-8)).astype(np.float32)
        return scaled

    def _minibatches(self, rows: Int64, iteration: int) -> Iterator[Int64]:
        """The rows in `epochs` random orders, cut into parts of about the same size."""
        parts = self._parts_of(len(rows))
        for epoch in range(self.settings.epochs if len(rows) else 0):
            order = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, iteration, epoch]))
            yield from np.array_split(order.permutation(rows), parts)

    def _parts_of(self, rows: int) -> int:
        return max(1, round(rows / self.settings.minibatch_size))

    def _update(self, rollout: Rollout, lessons: Lessons, rows: Int64, entropy_weight: float) -> dict[str, float]:
        batch, choice = lessons.batch(rows)
        now = self.policy.evaluate(rollout.observations_of(rows), rollout.choices_of(rows), choice)
        gradients, report = ppo_gradients(now, batch, self.settings, entropy_weight)
        for parameter in self._parameters:
            parameter.grad = None
        torch.autograd.backward((now.log_probability, now.entropy, now.value), gradients)
        report["gradient_norm"] = shorten(self._parameters, self.settings.gradient_norm)
        self._step_if_finite(report)
        return report

    def _step_if_finite(self, report: Mapping[str, float]) -> None:
        if all(map(math.isfinite, report.values())):
            adam.step(self.optimizer)
            self.skipped_in_a_row = 0
            return
        self.skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            raise LearningError(
                f"{self.skipped_in_a_row} updates in a row had a loss or gradient that is not finite "
                f"({', '.join(f'{name} {number}' for name, number in report.items())})"
            )

    def state(self) -> tuple[Mapping[str, Tensor], Facts]:
        """The optimiser's state and the counters."""
        named = list(self.network.named_parameters())
        facts: dict[str, JSON] = {"skipped": self.skipped, "skipped_in_a_row": self.skipped_in_a_row}
        return optimizer_tensors(self.optimizer, named), {**facts, "optimizer": optimizer_facts(self.optimizer, named)}

    def load_state(self, tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Go on from a saved state."""
        skipped, in_a_row, optimizer = (facts.get(name) for name in ("skipped", "skipped_in_a_row", "optimizer"))
        if not isinstance(skipped, int) or not isinstance(in_a_row, int) or not isinstance(optimizer, Mapping):
            raise CheckpointError(f"expected the facts of a PPO learner, found {dict(facts)!r:.200}")
        restore_optimizer(self.optimizer, self.network.named_parameters(), tensors, optimizer)
        self.skipped, self.skipped_in_a_row = skipped, in_a_row


@torch.no_grad()
def ppo_gradients(
    now: Evaluation, batch: Batch, settings: PPOSettings, entropy_weight: float
) -> tuple[tuple[Tensor, Tensor, Tensor], dict[str, float]]:
    """The gradients of the loss by log-probability, entropy and value, all [n], and what is worth reporting of it.

    The loss is that of the clipped objective, plus a value loss, minus an entropy bonus, each a mean over the rows.
    For so few numbers the formulas take a fraction of the time that a graph of them would.
    """
    log_ratio = now.log_probability - batch.log_probability
    ratio = log_ratio.exp()
    gain = ratio * batch.advantage
    clipped_gain = ratio.clamp(1 - settings.clip, 1 + settings.clip) * batch.advantage
    error, by_value = _value_error(now.value, batch, settings.value_clip)
    rows = len(ratio)
    gradients = (
        gain * (gain <= clipped_gain) / -rows,  # the ratio's own gradient is the ratio
        torch.full_like(ratio, -entropy_weight / rows),
        by_value * (settings.value_weight / rows),
    )
    moved = ratio - 1
    numbers = {
        "policy_loss": -torch.minimum(gain, clipped_gain),
        "value_loss": 0.5 * error.square(),
        "entropy": now.entropy,
        "kl": moved - log_ratio,
        "clip_fraction": moved.abs() > settings.clip,
    }
    means = torch.stack(list(numbers.values())).mean(1)
    return gradients, dict(zip(numbers, means.tolist(), strict=True))


def _value_error(value: Tensor, batch: Batch, clip: float) -> tuple[Tensor, Tensor]:
    """The errors that count [n], and what of them moves with the value."""
    error = value - batch.target
    if not clip:
        return error, error
    limited = batch.value + (value - batch.value).clamp(-clip, clip) - batch.target
    free = error.abs() >= limited.abs()
    return torch.where(free, error, limited), error * free


def shorten(parameters: Sequence[Tensor], limit: float) -> float:
    """Shorten the gradient of all parameters together to a limit; gives the length that it had."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    length = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if length > limit:
        torch._foreach_mul_(gradients, limit / length)
    return length


def _explained_variance(value: Float32, target: Float32) -> float:
    variance = float(target.var()) if len(target) else 0.0
    return 1.0 - float((target - value).var()) / variance if variance > 0 else 0.0
