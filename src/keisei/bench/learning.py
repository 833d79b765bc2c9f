"""How much of the network's own speed is left when Shogi is played with it, and when it learns.

The network, the block and the minibatches are those of `configs/shogi-quick.yaml`; one core, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from keisei import build
from keisei.bench.harness import Report, Sample, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.bench.peer import ROOT
from keisei.collect.collector import Collector
from keisei.config import load_run
from keisei.config_learner import PPOConfig
from keisei.environment import Int64
from keisei.learning.ppo import PPO
from keisei.networks import Network
from keisei.policy import Policy, cell_head
from keisei.rollout import Rollout
from keisei.threads import torch_threads

UNIT = "plies/s"
CONFIG = ROOT / "configs" / "shogi-quick.yaml"
OVERRIDES = ("parallel.learner_threads=1", "learner.final_learning_rate=0", "learner.target_kl=0")
AT_THE_END = 1.0
"""The progress at which the learning rate is 0: with weights that stay as they are, all rounds are alike."""

SPREAD = 6
"""So many rollouts are played first, until the games stand at different plies."""

READY_INPUTS = 8
"""So many steps of a rollout make the input of the bare forward pass: they differ, and stay near the processor."""


def run(settings: Settings) -> Report:
    """Play and learn, against the bare passes of the same network."""
    machine = describe([settings.core])
    config = load_run(CONFIG, OVERRIDES)
    game, section = build.game(config), config.learner
    assert isinstance(section, PPOConfig)
    with held_to([settings.core]), torch_threads(1):
        learner = build.ppo(config, section, game)
        playing = Playing(build.serial(config, game))
        contenders = (
            playing,
            BareForward(learner.policy, playing),
            BareCells(learner.policy, playing),
            Learning(learner, playing),
            BareSteps(learner, playing, section.minibatch_size),
        )
        measured = take_turns(contenders, settings)
    by_cells = replace(measured["collect"], name="collect_by_cells")
    results = []
    for ours, bare in ((measured["collect"], "forward"), (by_cells, "forward_cells"), (measured["update"], "step")):
        results += [result_against(ours, UNIT, measured[bare], bare), result(measured[bare], UNIT)]
    network = f"{config.network.kind} {config.network.depth}×{config.network.width}"
    shape = f"blocks of {config.parallel.block_size}, rollouts of {config.parallel.rollout_length} steps"
    return Report("learning", machine, tuple(results), (f"the network is {network}; {shape}",))


class Playing:
    """Collecting rollouts, and all that belongs to it."""

    name = "collect"

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._iteration = 0
        for _ in range(SPREAD):
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


class BareForward:
    """The network alone, on input that is ready: positions and legal moves of the last rollout, a block at a time."""

    name = "forward"

    def __init__(self, policy: Policy, playing: Playing) -> None:
        self._policy = policy
        self._playing = playing

    @torch.inference_mode()
    def measure(self, seconds: float) -> Sample:
        """Forward passes for about so long; in processor seconds."""
        inputs = list(self._inputs())
        plies = 0
        start = time.process_time()
        for seen, actions in cycle(inputs):
            self._pass(self._policy.network, seen, actions)
            plies += len(seen)
            if (spent := time.process_time() - start) >= seconds:
                break
        return Sample(plies, spent)

    def _pass(self, network: Network, seen: Tensor, actions: Tensor | None) -> None:
        network(seen, actions)

    def _inputs(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        block = self._playing.rollout.block(0)
        steps = block.reward.shape[1]
        for step in range(0, steps, max(1, steps // READY_INPUTS)):
            yield self._policy.encode(block.observation[0, step]).clone(), block.choices_at(step).actions


class BareCells(BareForward):
    """The same up to the cells that logits are sums of: acting sums up only those of legal moves, natively."""

    name = "forward_cells"

    def _pass(self, network: Network, seen: Tensor, actions: Tensor | None) -> None:
        head = cell_head(network)
        assert head is not None, "the policy head of the run that is measured has cells"
        features = network.body(seen)
        network.judge_value(features)
        head.cells(features)


class Learning:
    """Learning from the last rollout, and all that belongs to it."""

    name = "update"

    def __init__(self, learner: PPO, playing: Playing) -> None:
        self._learner = learner
        self._playing = playing
        self._iteration = 0

    def measure(self, seconds: float) -> Sample:
        """Learn from whole rollouts for about so long; in processor seconds."""
        plies = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            self._learner.learn(self._playing.rollout, self._iteration, AT_THE_END)
            self._iteration += 1
            plies += self._learner.settings.epochs * int(self._playing.rollout.acted.sum())
        return Sample(plies, spent)


@dataclass(frozen=True)
class Minibatch:
    """Input that is ready, and what comes back to the network."""

    seen: Tensor  # [n, …]
    actions: Tensor | None  # [n, L]
    by_logits: Tensor  # [n, L]
    by_value: Tensor  # [n]


class BareSteps:
    """Forward pass, backward pass and optimiser step alone, on minibatches that are ready."""

    name = "step"

    def __init__(self, learner: PPO, playing: Playing, minibatch_size: int) -> None:
        self._policy = learner.policy
        self._playing = playing
        self._minibatch_size = minibatch_size
        self._optimizer = torch.optim.Adam(self._policy.network.parameters(), lr=0.0, eps=1e-5, fused=True)

    def measure(self, seconds: float) -> Sample:
        """Steps for about so long; in processor seconds."""
        minibatches = list(self._minibatches())
        plies = 0
        start = time.process_time()
        for minibatch in cycle(minibatches):
            self._step(self._policy.network, minibatch)
            plies += len(minibatch.seen)
            if (spent := time.process_time() - start) >= seconds:
                break
        return Sample(plies, spent)

    def _step(self, network: Network, minibatch: Minibatch) -> None:
        logits, value = network(minibatch.seen, minibatch.actions)
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward((logits, value), (minibatch.by_logits, minibatch.by_value))
        self._optimizer.step()

    def _minibatches(self) -> Iterator[Minibatch]:
        rollout = self._playing.rollout
        rows: Int64 = np.random.default_rng(0).permutation(np.flatnonzero(rollout.acted))
        generator = torch.Generator().manual_seed(0)
        for part in np.array_split(rows, max(1, round(len(rows) / self._minibatch_size))):
            choices = rollout.choices_of(part)
            yield Minibatch(
                seen=self._policy.encode(rollout.observations_of(part)).clone(),
                actions=choices.actions,
                by_logits=torch.randn(choices.mask.shape, generator=generator) / len(part),
                by_value=torch.randn(len(part), generator=generator) / len(part),
            )
