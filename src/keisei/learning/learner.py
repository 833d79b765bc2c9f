"""The contract of whoever learns from rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor, nn

from keisei.checkpoint import JSON
from keisei.rollout import Rollout

Facts = Mapping[str, JSON]


class Learner(Protocol):
    """Improves one network."""

    @property
    def network(self) -> nn.Module:
        """What is improved, in place."""

    def learn(self, rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        """Learn from a rollout, `progress` (0..1) into the run; gives numbers to report.

        `skipped_updates` among them is how many were not made in the whole run, because they were not finite. Raises
        LearningError where there are too many of them in a row.
        """

    def state(self) -> tuple[Mapping[str, Tensor], Facts]:
        """All that learning goes on from, beside the network: tensors and facts."""

    def load_state(self, tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Go on from a saved state."""
