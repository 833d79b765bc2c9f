"""How fast gridworld societies live and learn: worlds alone, acting, whole epochs, and many agents as one.

The learner is IQN with two layers of 250, 12 quantiles, 64 cosines and batches of 64.
"""

from __future__ import annotations

import os
import time

import numpy as np

from keisei.acting import Actions
from keisei.bench.gridworld_epochs import measure_epochs
from keisei.bench.gridworld_society import Acting, Deciding, Learning, bare_forward, chosen, learning_config
from keisei.bench.harness import Report, Result, Sample, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.build.environments import environment
from keisei.environment import new_observation, new_step
from keisei.threads import torch_threads

UNIT = "agent-steps/s"
WORLDS = 64
AGENTS, CLEANUP_AGENTS = 8, 10
DECIDING = (8, 32)
LEARNING = (3, 8, 32, 128)
EPOCHS = (2, 8, 128)
DRAWN_STEPS = 256
"""So many steps of random actions are drawn beforehand."""

Found = tuple[list[Result], list[str]]
"""Results and notes."""


def run(settings: Settings) -> Report:
    """Worlds and acting on one core; learning and epochs on two where there are two, by the clock on the wall."""
    cores = [settings.core, *sorted(os.sched_getaffinity(0) - {settings.core})[:1]]
    machine = describe(cores)
    with torch_threads(1):
        with held_to([settings.core]):
            alone = [*_worlds(settings), *_acting(settings), *_deciding(settings)]
        with held_to(cores):
            learning, learnt = _learning(settings, len(cores))
            epochs, lived = _epochs(settings, len(cores))
    notes = (f"train_auto_* and epoch_* had {len(cores)} cores, the others one", *learnt, *lived)
    return Report("gridworld", machine, (*alone, *learning, *epochs), notes)


def _worlds(settings: Settings) -> list[Result]:
    contenders = [
        RandomPlay("treasure_random", "treasure_hunt", AGENTS),
        RandomPlay("cleanup_random", "cleanup", CLEANUP_AGENTS),
    ]
    measured = take_turns(contenders, settings)
    for one in contenders:
        one.close()
    return [result(found, UNIT) for found in measured.values()]


def _acting(settings: Settings) -> list[Result]:
    one, many = Acting("treasure_iqn_1", AGENTS, 1), Acting("treasure_iqn_64", AGENTS, WORLDS)
    measured = take_turns([one, many, bare_forward("forward", many)], settings)
    one.close()
    many.close()
    return [
        result(measured["treasure_iqn_1"], UNIT),
        result_against(measured["treasure_iqn_64"], UNIT, measured["forward"], "forward"),
        result(measured["forward"], UNIT),
    ]


def _deciding(settings: Settings) -> list[Result]:
    results = []
    for agents in DECIDING:
        name, acting = f"stacked_act_{agents}", Acting("", agents, 1)
        ways: tuple[tuple[str, Actions], ...] = ((name, "stacked"), ("loop", "looped"))
        measured = take_turns([Deciding(called, acting.rollout, acting.config, way) for called, way in ways], settings)
        acting.close()
        results.append(result_against(measured[name], UNIT, measured["loop"], "loop"))
    return results


def _learning(settings: Settings, cores: int) -> Found:
    results: list[Result] = []
    notes: list[str] = []
    for agents in LEARNING:
        name, acting = f"train_auto_{agents}", Acting("", agents, 1)
        settings.say(f"choosing how {agents} agents learn")
        auto, loop = chosen(learning_config(agents, "auto", cores)), learning_config(agents, "looped", cores)
        pair = [Learning(name, acting.rollout, auto), Learning("loop", acting.rollout, loop)]
        measured = take_turns(pair, settings)
        acting.close()
        results.append(result_against(measured[name], "updates/s", measured["loop"], "loop"))
        notes.append(f"{name}: auto has chosen {auto.parallel.parallel_training}")
    return results, notes


def _epochs(settings: Settings, cores: int) -> Found:
    results: list[Result] = []
    notes: list[str] = []
    for agents in EPOCHS:
        name = f"epoch_{agents}"
        settings.say(f"measuring: {name}")
        found, said = measure_epochs(name, agents, cores, settings.rounds, settings.seconds)
        results.append(found)
        notes += said
    return results, notes


class RandomPlay:
    """Worlds in which agents do anything; everything is written that a learner would read."""

    def __init__(self, name: str, world: str, agents: int) -> None:
        self.name = name
        made = environment(world, copies=WORLDS, agents=agents, seed=1, observation="packed")
        self._environment = made
        (group,) = made.groups
        self._actions = np.random.default_rng(0).integers(group.actions, size=(DRAWN_STEPS, made.lanes))
        self._seen, self._step = new_observation(made), new_step(made)
        made.reset(self._seen)

    def measure(self, seconds: float) -> Sample:
        """Play for about so long; in processor seconds."""
        played = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            for actions in self._actions:
                self._environment.step([actions], self._step, self._seen)
            played += self._actions.size
        return Sample(played, spent)

    def close(self) -> None:
        """Give the worlds back."""
        self._environment.close()
