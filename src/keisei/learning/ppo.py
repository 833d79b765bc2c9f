"""Proximal policy optimisation over rollouts, for whatever game they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from keisei.checkpoint import JSON, optimizer_facts, optimizer_tensors, restore_optimizer
from keisei.environment import Float32, Int64
from keisei.errors import CheckpointError, LearningError
from keisei.learning.advantage import advantages
from keisei.learning.learner import Facts
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
    """The rows of one update."""

    log_probability: Tensor  # [n] of the policy that acted
    value: Tensor  # [n] that it expected
    advantage: Tensor  # [n]
    target: Tensor  # [n] what the value is to become


@dataclass
class Tally:
    """Means over the updates of one rollout."""

    sums: dict[str, float] = field(default_factory=dict)
    updates: int = 0

    def add(self, numbers: Mapping[str, float]) -> None:
        """Count one update."""
        self.updates += 1
        for name, number in numbers.items():
            self.sums[name] = self.sums.get(name, 0.0) + number

    def means(self) -> dict[str, float]:
        """The mean of each number."""
        return {name: total / self.updates for name, total in self.sums.items()}


class PPO:
    """Learns from each rollout in a few epochs of minibatches."""

    def __init__(self, policy: Policy, settings: PPOSettings, seed: int) -> None:
        self.policy = policy
        self.network = policy.network
        self.settings = settings
        self.seed = seed
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate.first, eps=1e-5, fused=True
        )
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
        advantage = advantages(rollout, self.settings.gamma, self.settings.lam)
        rows = np.flatnonzero(rollout.acted)
        target = (advantage + rollout.value).ravel()
        numbers = {
            "explained_variance": _explained_variance(rollout.value.ravel()[rows], target[rows]),
            "learning_rate": rate,
            "entropy_weight": entropy_weight,
        }
        scaled = self._normalized(advantage.ravel(), rows)
        tally = Tally()
        for minibatch in self._minibatches(rows, iteration):
            report = self._update(rollout, minibatch, scaled, target, entropy_weight)
            tally.add(report)
            if self.settings.target_kl and report["kl"] > 1.5 * self.settings.target_kl:
                break
        return {**tally.means(), **numbers, "updates": tally.updates, "skipped_updates": self.skipped}

    def _normalized(self, advantage: Float32, rows: Int64) -> Float32:
        if not self.settings.normalize_advantages or len(rows) < 2:
            return advantage
        chosen = advantage[rows]
        scaled: Float32 = ((advantage - chosen.mean()) / (chosen.std() + 1e-8)).astype(np.float32)
        return scaled

    def _minibatches(self, rows: Int64, iteration: int) -> Iterator[Int64]:
        """The rows in `epochs` random orders, cut into parts of about the same size."""
        parts = max(1, round(len(rows) / self.settings.minibatch_size))
        for epoch in range(self.settings.epochs if len(rows) else 0):
            order = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, iteration, epoch]))
            yield from np.array_split(order.permutation(rows), parts)

    def _update(
        self, rollout: Rollout, rows: Int64, advantage: Float32, target: Float32, entropy_weight: float
    ) -> dict[str, float]:
        flat = {name: torch.from_numpy(getattr(rollout, name).ravel()[rows]) for name in ("log_probability", "value")}
        batch = Batch(**flat, advantage=torch.from_numpy(advantage[rows]), target=torch.from_numpy(target[rows]))
        choice = torch.from_numpy(rollout.choice.ravel()[rows].astype(np.int64))
        now = self.policy.evaluate(rollout.observations_of(rows), rollout.choices_of(rows), choice)
        loss, numbers = ppo_loss(now, batch, self.settings, entropy_weight)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_norm)
        self._step_if_finite(loss, norm)
        return {**{name: float(number) for name, number in numbers.items()}, "gradient_norm": float(norm)}

    def _step_if_finite(self, loss: Tensor, norm: Tensor) -> None:
        if bool(torch.isfinite(loss) & torch.isfinite(norm)):
            self.optimizer.step()
            self.skipped_in_a_row = 0
            return
        self.skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            raise LearningError(
                f"{self.skipped_in_a_row} updates in a row had a loss or gradient that is not finite "
                f"(loss {float(loss)}, gradient norm {float(norm)})"
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


def ppo_loss(
    now: Evaluation, batch: Batch, settings: PPOSettings, entropy_weight: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped objective, value loss and entropy bonus, and what is worth reporting of them."""
    log_ratio = now.log_probability - batch.log_probability
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    policy_loss = -torch.minimum(ratio * batch.advantage, clipped * batch.advantage).mean()
    value_loss = _value_loss(now.value, batch, settings.value_clip)
    entropy = now.entropy.mean()
    loss = policy_loss + settings.value_weight * value_loss - entropy_weight * entropy
    with torch.no_grad():
        numbers = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1).abs() > settings.clip).float().mean(),
        }
    return loss, numbers


def _value_loss(value: Tensor, batch: Batch, clip: float) -> Tensor:
    error = (value - batch.target).square()
    if clip:
        near = batch.value + (value - batch.value).clamp(-clip, clip)
        error = torch.maximum(error, (near - batch.target).square())
    return 0.5 * error.mean()


def _explained_variance(value: Float32, target: Float32) -> float:
    variance = float(target.var()) if len(target) else 0.0
    return 1.0 - float((target - value).var()) / variance if variance > 0 else 0.0
