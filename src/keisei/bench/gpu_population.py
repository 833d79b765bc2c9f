"""Many agents on a device: IQN on treasure hunt, stacked against one by one; steps alone, and whole iterations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

from keisei import build
from keisei.acting import Society, ValuePolicy
from keisei.bench.harness import Result, Sample, Settings, result, result_against, take_turns
from keisei.build.players import values
from keisei.collect.blocks import BlockRules, nobody
from keisei.collect.serial import SerialCollector
from keisei.config import Config, load_run
from keisei.config_learner import IQNConfig
from keisei.learning.iqn import IQN
from keisei.learning.population import Failure, Population
from keisei.learning.q_learner import QSettings
from keisei.learning.q_update import Chunk
from keisei.networks.stacked import Scratch

Way = Literal["stacked", "looped"]

_SETTINGS = QSettings(
    learning_rate=2.5e-4,
    gamma=0.99,
    steps=1,
    double=True,
    batch_size=64,
    memory=4096,
    updates=1,
    target_rate=1e-3,
    exploration=0.6,
    exploration_decay=5e-4,
    final_exploration=0.0,
    gradient_norm=10.0,
    threshold=1.0,
    priority=0.0,
    priority_weight=0.4,
    threads=1,
)
_WORLDS, _STEPS = 4, 16


class Village:
    """Agents that live in the same worlds, act and learn one way or the other."""

    def __init__(self, agents: int, way: Way, kind: str) -> None:
        config = _config(agents)
        self.agents = agents
        self._game = build.game(config)
        self._device = torch.device(kind)
        section = config.learner
        assert isinstance(section, IQNConfig)
        self.policies = [self._policy(config, section, seed) for seed in range(agents)]
        learners = [
            IQN(policy, self._game.group, _SETTINGS, seed=1, agent=agent, lanes=_WORLDS)
            for agent, policy in enumerate(self.policies)
        ]
        lanes = [np.arange(_WORLDS * agents)[agent::agents] for agent in range(agents)]
        self.population = Population(learners, way, on_failure=_raise)
        together = [learners] if way == "stacked" else [[learner] for learner in learners]
        scratch = Scratch(self._device)
        self._chunks = [Chunk(some, scratch) for some in together]
        society = Society(self.policies, lanes, way)
        rules = BlockRules(self._game.build_environment, lambda: society, lambda past: nobody, _STEPS, 7, finals=True)
        self._collector = SerialCollector(rules, blocks=1)
        self._lanes = [slice(agent, None, agents) for agent in range(agents)]
        self._iteration = 0
        for _ in range(5):
            self.live()

    def _policy(self, config: Config, section: IQNConfig, seed: int) -> ValuePolicy:
        made = values(config.network, section, self._game, seed)
        return ValuePolicy(made.network.to(self._device), made.encode)

    def live(self) -> int:
        """One rollout, and what all agents learn of it; gives steps of agents."""
        rollout = self._collector.collect(self._iteration)
        self.population.learn([rollout.of_lanes(lanes) for lanes in self._lanes], self._iteration, 0.5)
        self._iteration += 1
        return rollout.steps

    def train(self) -> int:
        """One update of every agent; gives how many were made."""
        for chunk in self._chunks:
            chunk.update(self._iteration, 0, 0.5)
        self._iteration += 1
        return self.agents


class _Timed:
    """Something that a village does, by the clock on the wall."""

    def __init__(self, name: str, once: Callable[[], int], device: torch.device) -> None:
        self.name = name
        self._once = once
        self._device = device

    def measure(self, seconds: float) -> Sample:
        """Work for about so long."""
        work, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds or not work:
            work += self._once()
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
        return Sample(work, spent)


def measure_population(agents: int, kind: str, settings: Settings) -> list[Result]:
    """Updates, and whole iterations, of so many agents."""
    device, stacked, looped = torch.device(kind), Village(agents, "stacked", kind), Village(agents, "looped", kind)
    name = f"population_{agents}", f"population_run_{agents}"
    measured = take_turns(
        [
            _Timed(name[0], stacked.train, device),
            _Timed(f"{name[0]}_looped", looped.train, device),
            _Timed(name[1], stacked.live, device),
            _Timed(f"{name[1]}_looped", looped.live, device),
        ],
        settings,
    )
    found = []
    for each, unit in zip(name, ("updates/s", "agent-steps/s"), strict=True):
        loop = measured[f"{each}_looped"]
        found += [result_against(measured[each], unit, loop, "looped"), result(loop, unit)]
    return found


def _config(agents: int) -> Config:
    overrides = (
        f"environment={{name: treasure_hunt, agents: {agents}, copies: {_WORLDS}, max_turns: 100}}",
        "network={kind: mlp, depth: 2, width: 250, policy: dense}",
        "learner={kind: iqn, layer: 250, quantiles: 12}",
        f"parallel={{block_size: {_WORLDS}, rollout_length: {_STEPS}}}",
    )
    return load_run(None, overrides)


def _raise(failure: Failure) -> None:
    raise RuntimeError(failure.text)
