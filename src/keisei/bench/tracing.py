"""Which functions of a run are spans, and how they become so, in this process and in its workers.

The run knows nothing of it: functions are replaced by traced ones, for as long as it is traced, in the processes that
are traced. Environments are traced where they are built, which is also how workers come to trace themselves.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from keisei.acting import Society, ValuePolicy
from keisei.bench.spans import Recorder
from keisei.checkpoint.keeper import CheckpointKeeper
from keisei.collect import blocks
from keisei.collect.ahead import AheadCollector
from keisei.collect.blocks import BlockPlayer
from keisei.collect.collector import BuildEnvironment
from keisei.collect.serial import SerialCollector
from keisei.environment import Environment
from keisei.learning import ppo
from keisei.learning.population import Population
from keisei.learning.ppo import PPO
from keisei.learning.q_learner import QLearner
from keisei.learning.q_update import Chunk
from keisei.networks import Network
from keisei.parallel import stepper
from keisei.parallel.crew import Crew
from keisei.parallel.dispatch import Dispatch
from keisei.parallel.line import WorkerLine
from keisei.parallel.manager import ParallelManager
from keisei.parallel.model_sync import ModelSynchronizer, WeightsReader
from keisei.parallel.playing import Playing
from keisei.parallel.shared_memory import Slab
from keisei.parallel.stepper import SteppingWorker
from keisei.parallel.stepping import Stepping
from keisei.parallel.worker import SelfPlayWorker
from keisei.policy import Policy


@dataclass(frozen=True)
class Point:
    """A function that is traced, and what it is called."""

    owner: object
    function: str
    name: str


WAITS = "wait for "
"""So begins the name of what is not work."""

POINTS = (
    # learning
    Point(PPO, "learn", "learn"),
    Point(QLearner, "learn", "learn"),
    Point(Population, "learn", "learn"),
    Point(ppo, "advantages", "advantages"),
    Point(PPO, "_update", "update"),
    Point(Chunk, "update", "update"),
    Point(Policy, "evaluate", "forward pass"),
    Point(torch.autograd, "backward", "backward pass"),
    Point(PPO, "_step_if_finite", "optimiser"),
    Point(QLearner, "remember", "remember"),
    # collecting
    Point(SerialCollector, "collect", "collect"),
    Point(SerialCollector, "publish", "publish weights"),
    Point(BlockPlayer, "play", "play a block"),
    Point(Policy, "act", "act"),
    Point(ValuePolicy, "act", "act"),
    Point(Society, "act", "act"),
    Point(Policy, "values", "values"),
    Point(ValuePolicy, "values", "values"),
    Point(Network, "forward", "network"),
    Point(blocks, "check_rollout", "check what was played"),
    Point(stepper, "check_rollout", "check what was played"),
    # ahead of the learner
    Point(AheadCollector, "collect", WAITS + "a rollout"),
    Point(AheadCollector, "publish", "copy weights"),
    Point(AheadCollector, "_wait_for_room", WAITS + "the learner"),
    # by workers: their manager
    Point(ParallelManager, "collect", "collect"),
    Point(ModelSynchronizer, "publish", "publish weights"),
    Point(Playing, "begin", "lay out states"),
    Point(Playing, "commit", "keep states"),
    Point(Stepping, "commit", "keep states"),
    Point(Crew, "listen", WAITS + "workers"),
    Point(Dispatch, "_check", "verify"),
    # by workers: themselves
    Point(WorkerLine, "receive", WAITS + "an order"),
    Point(WorkerLine, "send", "answer"),
    Point(SelfPlayWorker, "carry_out", "carry out an order"),
    Point(SteppingWorker, "carry_out", "carry out an order"),
    Point(WeightsReader, "apply", "take weights"),
    Point(Slab, "seal", "seal"),
    # saving
    Point(CheckpointKeeper, "save", "take a checkpoint"),
    Point(CheckpointKeeper, "_write", "write a checkpoint"),
)

ENVIRONMENT = {
    "step": "step the games",
    "observe": "look",
    "load_state": "load states",
    "save_state": "save states",
}
"""The functions of an environment."""

NAMES = (*(point.name for point in POINTS), *ENVIRONMENT.values())
"""By the numbers that spans have."""


@contextlib.contextmanager
def traced_here(folder: Path) -> Iterator[Recorder]:
    """Trace this process for a while."""
    recorder = Recorder(folder)
    before = [getattr(point.owner, point.function) for point in POINTS]
    replace_all(recorder)
    try:
        yield recorder
    finally:
        for point, function in zip(POINTS, before, strict=True):
            setattr(point.owner, point.function, function)


def replace_all(recorder: Recorder) -> None:
    """From now on the functions are traced ones."""
    for name, point in enumerate(POINTS):
        setattr(point.owner, point.function, recorder.traced(name, getattr(point.owner, point.function)))


class Traced:
    """Builds environments that are traced; in a worker process, the first one lets all of it be traced."""

    def __init__(self, build: BuildEnvironment, recorder: Recorder, folder: Path) -> None:
        self._build = build
        self._folder = folder
        self._recorders = {os.getpid(): recorder}

    def __call__(self, first_lane: int) -> Environment:
        """The environment of a block."""
        made, recorder = self._build(first_lane), self._recorder()
        for name, function in enumerate(ENVIRONMENT, len(POINTS)):
            setattr(made, function, recorder.traced(name, getattr(made, function)))
        return made

    def _recorder(self) -> Recorder:
        home = os.getpid()
        if home not in self._recorders:
            self._recorders[home] = Recorder(self._folder)
            replace_all(self._recorders[home])
        return self._recorders[home]

    def __getstate__(self) -> tuple[BuildEnvironment, Path]:
        return self._build, self._folder

    def __setstate__(self, state: tuple[BuildEnvironment, Path]) -> None:
        self._build, self._folder = state
        self._recorders = {}
