"""`auto`: which way of acting and of training is the fastest for these agents on this machine, by a short measurement.

Twins of the agents are measured, so that nothing of the agents themselves changes. One by one is the way that others
must beat: they are chosen only where they take clearly less time.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch

from keisei.acting import Actions, Society, ValuePolicy
from keisei.environment import Float32, Group, Int64
from keisei.learning.learner import Learner
from keisei.learning.population import Failure, Population, Training
from keisei.learning.q_learner import QLearner
from keisei.networks.quantile import action_values
from keisei.policy import LegalChoices, Policy
from keisei.rollout import Rollout, RolloutLayout
from keisei.threads import torch_threads

_MOST_TWINS = 32
_ROUNDS, _SECONDS = 5, 3.0
_STEPS = 32
"""So long is what learners that keep no memory learn from."""
_CLEARLY = 0.95
"""What another way may take of the time of the first, to be chosen."""

Way = TypeVar("Way")


def fastest_training(
    learners: Sequence[Learner], threads: int, group: Group
) -> tuple[Training, Mapping[Training, float]]:
    """How a population of these learners trains the fastest; and the seconds that each way took for some of them.

    `group` is of one agent's lanes. Only learners of action values are ever stacked; the others learn one by one.
    """
    some = learners[:: -(-len(learners) // _MOST_TWINS)]
    alike = sum(isinstance(learner, QLearner) for learner in some)
    ways: list[Training] = ["looped", *(["threads"] if threads > 1 else [])]  # type: ignore[list-item]
    ways += [size for size in (4, 8, 16) if size < alike]
    ways += ["stacked"] if alike > 1 else []
    if len(ways) == 1:
        return ways[0], {}
    with torch_threads(1):
        return _fastest({way: _epoch(some, way, threads, group) for way in ways})


def fastest_actions(
    policies: Sequence[ValuePolicy | Policy], lanes: Sequence[Int64], group: Group
) -> tuple[Actions, Mapping[Actions, float]]:
    """How these policies act the fastest in lanes of this group; and the seconds that each way took for a step."""
    ways: tuple[Actions, ...] = ("looped", "stacked")
    with torch_threads(1):
        return _fastest({way: _step(Society(policies, lanes, way), group) for way in ways})


def _fastest(ways: Mapping[Way, Callable[[], None]]) -> tuple[Way, Mapping[Way, float]]:
    """The way that takes the least time; the first unless another takes clearly less."""
    seconds = {way: float("inf") for way in ways}
    for run in ways.values():
        run()  # memory is laid out, and everything warm
    began = time.perf_counter()
    for number in range(_ROUNDS):
        for way, run in ways.items():
            start = time.perf_counter()
            run()
            seconds[way] = min(seconds[way], time.perf_counter() - start)
        if number and time.perf_counter() - began > _SECONDS:
            break
    first, best = next(iter(ways)), min(seconds, key=seconds.__getitem__)
    return (best if seconds[best] < _CLEARLY * seconds[first] else first), seconds


def _epoch(learners: Sequence[Learner], way: Training, threads: int, group: Group) -> Callable[[], None]:
    twins = [
        _twin(one, agent) if isinstance(one, QLearner) else copy.deepcopy(one) for agent, one in enumerate(learners)
    ]
    population = Population(twins, way, threads=threads, on_failure=_raise)
    short = [
        _life(one.memory.group, len(one.memory.action), 1)
        if isinstance(one, QLearner)
        else _life(group, len(group.lanes), _STEPS)
        for one in learners
    ]

    def epoch() -> None:
        population.learn(short, 0, 0.0)

    return epoch


def _twin(learner: QLearner, agent: int) -> QLearner:
    """A learner of the same kind, with a full memory of nothing in particular."""
    network = action_values(learner.network.architecture, agent).to(learner.weights)
    lanes, depth = learner.memory.action.shape
    policy = ValuePolicy(network, learner.encode)
    twin = type(learner)(policy, learner.memory.group, learner.settings, seed=0, agent=agent, lanes=lanes)
    twin.remember(_life(learner.memory.group, lanes, depth))
    return twin


def _life(group: Group, lanes: int, steps: int) -> Rollout:
    everything = replace(group, lanes=np.arange(lanes, dtype=np.int32), legal="mask")
    layout = RolloutLayout(everything, steps, finals=True)
    rollout = layout.rollout(layout.allocate(1))
    rollout.acted[:], rollout.valid[:], rollout.discount[:], rollout.legal_actions[:] = True, True, 1, 1
    return rollout


def _step(society: Society, group: Group) -> Callable[[], None]:
    lanes = len(group.lanes)
    seen = np.zeros((lanes, *group.shape), group.dtype)
    legal = LegalChoices(None, torch.ones((lanes, group.actions), dtype=torch.bool))
    uniform: Float32 = np.full(lanes, 0.5, np.float32)

    def step() -> None:
        for _ in range(10):
            society.act(seen, legal, uniform)

    return step


def _raise(failure: Failure) -> None:
    raise RuntimeError(failure.traceback)
