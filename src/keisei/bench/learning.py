"""How much of the network's own speed is left when Shogi is collected with it, and when it learns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from keisei import build
from keisei.bench.harness import Report, Sample, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.bench.peer import ROOT
from keisei.collect.collector import Collector
from keisei.config import load_run
from keisei.learning.ppo import PPO
from keisei.rollout import Rollout
from keisei.threads import torch_threads

CONFIG = ROOT / "configs" / "shogi-quick.yaml"
OVERRIDES = (
    "parallel.learner_threads=1",
    "learner.final_learning_rate=0",  # weights that stay as they are make all rounds alike
    "learner.target_kl=0",
)
AT_THE_END = 1.0
"""The progress at which the learning rate is 0."""

SPREAD = 6
"""So many rollouts are played first, until games stand at different plies."""

READY = 8
"""So many batches of ready-made input take turns: they differ, and together they are not much."""


@dataclass(frozen=True)
class Input:
    """What a network gets, and what comes back to it."""

    seen: Tensor  # [B, …]
    actions: Tensor | None  # [B, L]
    gradients: tuple[Tensor, Tensor] | None = None  # of the loss, by logits [B, L] and values [B]


class Play:
    """Collecting rollouts, with all that belongs to it."""

    name = "collect"

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._iteration = 0
        self.rollout = self.play()

    def play(self) -> Rollout:
        """The next rollout."""
        self.rollout = self._collector.collect(self._iteration)
        self._iteration += 1
        return self.rollout

    def measure(self, seconds: float) -> Sample:
        """Play whole rollouts for about so long; in processor seconds."""
        plies = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            plies += self.play().steps
        return Sample(plies, spent)
