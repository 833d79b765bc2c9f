"""The contenders of `gridworld.py` that have networks: acting in worlds, the bare forward pass, deciding, learning."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import count

import numpy as np
import torch
from torch import Tensor

from keisei import build
from keisei.acting import Actions, Society
from keisei.bench.harness import Sample
from keisei.build.societies import resolved, society_actor, society_learner
from keisei.config import GridworldRun, load_run
from keisei.environment import Array, Float32
from keisei.learning.population import Training
from keisei.learning.q_learner import QLearner
from keisei.networks.quantile import ActionValueNetwork
from keisei.networks.stacked import Stack
from keisei.policy import LegalChoices
from keisei.rollout import Rollout

TURNS = 100
PROGRESS = 0.5
READY_INPUTS = 8
"""So many steps of a rollout make the input of a bare forward pass, and of decisions."""


def society_config(agents: int, worlds: int, *more: str) -> GridworldRun:
    """A run of treasure hunt, one block in this process, whose agents learn by IQN with two layers of 250 units."""
    world = (f"environment.agents={agents}", f"environment.copies={worlds}", f"parallel.block_size={worlds}")
    network = ("network.kind=mlp", "network.policy=dense", "network.depth=1", "network.width=250")
    plan = ("learner.kind=iqn", "parallel.enabled=false", "parallel.parallel_actions=stacked")
    config = load_run(None, ("environment.name=treasure_hunt", *world, *network, *plan, *more))
    assert isinstance(config, GridworldRun)
    return config


class Acting:
    """Agents who act in their worlds, never at random, and all that belongs to it; a rollout is an episode."""

    def __init__(self, name: str, agents: int, worlds: int) -> None:
        self.name = name
        self.config = society_config(agents, worlds)
        self.game = build.game(self.config)
        self._collector = build.serial(self.config, self.game)
        self._iterations = count()
        self.rollout = self._collector.collect(next(self._iterations))

    @property
    def policy(self) -> Society:
        """How they act."""
        policy = self._collector.policy
        assert isinstance(policy, Society)
        return policy

    def measure(self, seconds: float) -> Sample:
        """Act for about so long; in processor seconds."""
        steps = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            self.rollout = self._collector.collect(next(self._iterations))
            steps += self.rollout.steps
        return Sample(steps, spent)

    def close(self) -> None:
        """Give the worlds back."""
        self._collector.close()


class BareForward:
    """All networks in one stacked call, and nothing else: on what was seen in a rollout, ready as numbers."""

    def __init__(self, name: str, stack: Stack, inputs: Iterable[Tensor]) -> None:
        """`inputs` are `[N, B, *shape]`."""
        self.name = name
        self._stack = stack
        self._inputs = [one.contiguous() for one in inputs]

    def measure(self, seconds: float) -> Sample:
        """Forward passes for about so long; in processor seconds."""
        rows = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            for seen in self._inputs:
                self._stack.expected(seen)
                rows += seen.shape[0] * seen.shape[1]
        return Sample(rows, spent)


def bare_forward(name: str, acting: Acting) -> BareForward:
    """The forward pass of those agents, on what they saw."""
    networks = [network for network in acting.policy.network if isinstance(network, ActionValueNetwork)]
    encode = acting.game.seat(0, acting.config.network).encoder()
    steps = range(0, TURNS, TURNS // READY_INPUTS)
    inputs = [_by_agent(encode(acting.rollout.observation[0, step]), len(networks)) for step in steps]
    return BareForward(name, Stack(networks), inputs)


def _by_agent(encoded: Tensor, agents: int) -> Tensor:
    """Lanes go through the agents world by world: `[worlds · N, …]` → `[N, worlds, …]`."""
    return encoded.reshape(-1, agents, *encoded.shape[1:]).transpose(0, 1).clone()


class Deciding:
    """Decisions of so many agents in one world each time: from what is seen to actions, without the world."""

    def __init__(self, name: str, rollout: Rollout, config: GridworldRun, actions: Actions) -> None:
        """`rollout` is what such agents have seen."""
        self.name = name
        section = config.parallel.model_copy(update={"parallel_actions": actions})
        self._society = society_actor(config.model_copy(update={"parallel": section}), build.game(config))
        self._seen: Array = rollout.observation[0, :READY_INPUTS]  # [T, N, …]
        agents = self._seen.shape[1]
        self._legal = LegalChoices(None, torch.ones((agents, rollout.group.actions), dtype=torch.bool))
        self._uniform: Float32 = np.full(agents, 0.5, np.float32)

    def measure(self, seconds: float) -> Sample:
        """Decide for about so long; in processor seconds."""
        decisions = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            for seen in self._seen:
                self._society.act(seen, self._legal, self._uniform)
            decisions += len(self._seen) * len(self._uniform)
        return Sample(decisions, spent)


class Learning:
    """One update of every agent, each from a memory of its own, again and again; by the clock on the wall."""

    def __init__(self, name: str, rollout: Rollout, config: GridworldRun) -> None:
        """`rollout` is an episode that they lived; how they learn is in the configuration."""
        self.name = name
        self._society = society_learner(config, build.game(config))
        self._iterations = count()
        self._step = rollout.until(1)
        learners = self._society.population.learners
        for agent, learner in enumerate(learners):
            assert isinstance(learner, QLearner)
            learner.remember(rollout.of_lanes(slice(agent, None, len(learners))))
        self._updates = len(learners)

    def measure(self, seconds: float) -> Sample:
        """Learn for about so long."""
        updates = 0
        start = time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            self._society.learn(self._step, next(self._iterations), PROGRESS)
            updates += self._updates
        return Sample(updates, spent)


def learning_config(agents: int, training: Training | str, threads: int) -> GridworldRun:
    """A run in whose one world so many agents learn in this way."""
    return society_config(agents, 1, f"parallel.parallel_training={training}", f"parallel.learner_threads={threads}")


def chosen(config: GridworldRun) -> GridworldRun:
    """The same run, with what `auto` finds the fastest."""
    return resolved(config, build.game(config), lambda kind, text: None)
