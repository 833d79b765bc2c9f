"""PPO on a device: rollouts lie there, a minibatch is one step there, and numbers to report come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from keisei.device import choosing
from keisei.device.policy import DevicePolicy
from keisei.device.rows import DeviceRows, Minibatch
from keisei.environment import Float32, Int64
from keisei.errors import LearningError
from keisei.learning.ppo import PPO, Lessons, PPOSettings, shorten
from keisei.learning.trust import Trust, full_trust
from keisei.rollout import Rollout

MOST_RATIO_ERROR = 0.01
"""The median of |ratio − 1| in a first minibatch beyond which old log-probabilities are computed again."""

_REPORTED = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")

Tell = Callable[[str, str], None]


@dataclass(frozen=True)
class DeviceLessons(Lessons):
    """What is to be learnt of a rollout that lies on the device."""

    rows: DeviceRows


class DevicePPO(PPO):
    """Learns from rollouts as PPO does. A minibatch may be computed in several parts that fit the device's memory."""

    def __init__(
        self,
        policy: DevicePolicy,
        settings: PPOSettings,
        seed: int,
        *,
        trust: Trust = full_trust,
        micro_batch: int | None = None,
        same_weights: bool = True,
        tell: Tell = lambda kind, text: None,
    ) -> None:
        """`same_weights`: rollouts are made with the weights that learn from them, so that first ratios are 1."""
        super().__init__(policy, settings, seed, trust)
        self.device_policy = policy
        self.micro_batch = min(micro_batch or settings.minibatch_size, settings.minibatch_size)
        self._same_weights = same_weights
        self._tell = tell
        self._halved = False
        self._loss = torch.compile(self._plain_loss, dynamic=False) if policy.place.compiled else self._plain_loss
        self.compile_seconds = 0.0
        self._seen_shapes: set[int] = set()
        self._first_error = 0.0
        self._recomputed = 0
        self.bytes_up_per_row = 0.0  # of the last rollout

    def _learn(self, rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        self._first_error = -1.0
        found = super()._learn(rollout, iteration, progress)
        return {
            **found,
            "first_ratio_error": max(0.0, self._first_error),
            "recomputed_rollouts": self._recomputed,
            "compile_seconds": self.compile_seconds,
        }

    def _lessons(self, rollout: Rollout, advantage: Float32, target: Float32) -> Lessons:
        plain = Lessons.of(rollout, advantage, target)
        rows = DeviceRows(rollout, plain.numbers, self.device_policy.place.device)
        self.bytes_up_per_row = rows.bytes_up / max(1, rollout.reward.size)
        return DeviceLessons(plain.numbers, plain.choice, rows)

    def _parts_of(self, rows: int) -> int:
        """None has more rows than a minibatch: all have one shape."""
        return max(1, -(-rows // self.settings.minibatch_size))

    def _update(self, rollout: Rollout, lessons: Lessons, rows: Int64, entropy_weight: float) -> dict[str, float]:
        assert isinstance(lessons, DeviceLessons)
        if self._first_error < 0:
            self._check_first(rollout, lessons.rows, rows)
        for parameter in self._parameters:
            parameter.grad = None
        sums = self._with_less_memory(lambda: self._gradients(lessons.rows, rows, entropy_weight))
        means = self._agreed(sums / max(1, len(rows)))
        report = dict(zip(_REPORTED, means.tolist(), strict=True))
        report["gradient_norm"] = shorten(self._parameters, self.settings.gradient_norm)
        self._step_if_finite(report)
        return report

    def _agreed(self, means: Tensor) -> Tensor:
        """What is reported of a minibatch `[5]`."""
        return means

    # --- one minibatch -----------------------------------------------------------------------------------------------

    def _gradients(self, lived: DeviceRows, rows: Int64, entropy_weight: float) -> Tensor:
        """Add a minibatch's gradients, part by part; gives sums over its rows `[5]`."""
        weight = torch.tensor(entropy_weight, device=self.device_policy.place.device)
        total = torch.zeros(len(_REPORTED), device=self.device_policy.place.device)
        for part in self._parts(rows):
            total += self.part(lived.minibatch(part, self.micro_batch), weight, len(rows))
        return total

    def part(self, minibatch: Minibatch, entropy_weight: Tensor, rows: int) -> Tensor:
        """Add the gradients of some of a minibatch's rows; gives sums over them `[5]`."""
        size = len(minibatch.weight)
        first = size not in self._seen_shapes
        began = time.perf_counter()
        loss = self._loss if minibatch.is_usual else self._plain_loss
        lost, sums = loss(minibatch, entropy_weight)
        (lost / max(1, rows)).backward()  # type: ignore[no-untyped-call]
        if first and self.device_policy.place.compiled:
            self._seen_shapes.add(size)
            self.compile_seconds += time.perf_counter() - began
        return sums.detach()

    def _plain_loss(self, minibatch: Minibatch, entropy_weight: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the rows' losses, and the sums to report `[5]`."""
        settings, batch, counts = self.settings, minibatch.batch, minibatch.weight
        log_probability, entropy, value = self._now(minibatch)
        log_ratio = log_probability - batch.log_probability
        ratio = log_ratio.exp()
        limited = ratio.clamp(1 - settings.clip, 1 + settings.clip)
        gain = torch.minimum(ratio * batch.advantage, limited * batch.advantage)
        error = (value - batch.target).square()
        if settings.value_clip:
            near = batch.value + (value - batch.value).clamp(-settings.value_clip, settings.value_clip)
            error = torch.maximum(error, (near - batch.target).square())
        losses = -gain + settings.value_weight * 0.5 * error - entropy_weight * entropy
        moved = ratio - 1
        told = [-gain, 0.5 * error, entropy, moved - log_ratio, (moved.abs() > settings.clip).float()]
        return (losses * counts).sum(), (torch.stack(told).detach() * counts).sum(1)

    def _now(self, minibatch: Minibatch) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of the choice, entropy and value as they are now, all float32 `[n]`."""
        logits, value = self._judged(minibatch)
        said = choosing.log_probabilities(logits, minibatch.mask)
        chosen = said.gather(1, minibatch.choice[:, None]).squeeze(1)
        return chosen, choosing.entropy(said, minibatch.mask), value

    def _judged(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        return self.device_policy.judge(minibatch.seen, minibatch.actions)

    # --- the first minibatch -----------------------------------------------------------------------------------------

    def _check_first(self, rollout: Rollout, lived: DeviceRows, rows: Int64) -> None:
        """See how far the graph that learns is from the one that acted; where it is far, have its numbers instead."""
        ratio = (self._said_now(lived, rows) - lived.said(rows)).exp()
        self._first_error = float((ratio - 1).abs().median())
        if self._same_weights and self._first_error > MOST_RATIO_ERROR:
            self._recomputed += 1
            everything = np.flatnonzero(rollout.acted)
            lived.say(self._said_now(lived, everything), everything)

    @torch.no_grad()
    def _said_now(self, lived: DeviceRows, rows: Int64) -> Tensor:
        """What the network now says of choices, `[n]`."""
        found = [self._now(lived.minibatch(part, self.micro_batch))[0][: len(part)] for part in self._parts(rows)]
        return torch.cat(found)

    # --- memory ------------------------------------------------------------------------------------------------------

    def _parts(self, rows: Int64) -> Sequence[Int64]:
        """The rows in parts that are computed at once."""
        return np.array_split(rows, max(1, -(-len(rows) // self.micro_batch)))

    def _with_less_memory(self, compute: Callable[[], Tensor]) -> Tensor:
        """Compute; where memory does not suffice, once with half as many rows at a time."""
        try:
            return compute()
        except torch.OutOfMemoryError as error:
            if self._halved:
                raise LearningError(f"there is no memory for {self.micro_batch} steps at a time: {error}") from error
            self._halved = True
            self.micro_batch = max(1, self.micro_batch // 2)
        self._tell("alarm", f"out of memory: from here on at most {self.micro_batch} steps are computed at a time")
        if self.device_policy.place.is_gpu:
            torch.cuda.empty_cache()
        for parameter in self._parameters:
            parameter.grad = None
        return self._with_less_memory(compute)
