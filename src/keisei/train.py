"""The training loop. It gets its parts and builds none: collect, learn, publish, evaluate, save, again."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from keisei.checkpoint import JSON, Checkpoint, CheckpointKeeper, Found, restore
from keisei.collect.collector import Collector
from keisei.errors import CheckpointError, LearningError
from keisei.learning.learner import Learner
from keisei.metrics import Metrics
from keisei.rollout import ARRAYS, Rollout
from keisei.stopping import StopRequest

FAILED = "failed"
"""Where batches are kept whose update raised an exception."""


class Evaluator(Protocol):
    """Plays matches with the learner's network."""

    def evaluate(self, iteration: int, games: int) -> Mapping[str, float]:
        """Numbers to record, such as `evaluate/random/score`."""


@dataclass(frozen=True)
class Plan:
    """How long the run is, and what happens how often; all intervals are in iterations, 0 is never."""

    total_steps: int
    model_sync_interval: int
    evaluation_interval: int
    evaluation_games: int
    final_games: int


@dataclass
class Progress:
    """How far the run is. Part of every checkpoint."""

    iteration: int = 0
    steps: int = 0
    games: int = 0
    seconds: float = 0.0
    version: int = 0  # of the published weights
    failed_updates: int = 0

    def facts(self) -> dict[str, JSON]:
        """As a checkpoint keeps it."""
        return dict(self.__dict__)

    @classmethod
    def of(cls, facts: Mapping[str, JSON]) -> Progress:
        """As a checkpoint kept it."""
        if facts.keys() != cls().facts().keys() or not all(isinstance(value, int | float) for value in facts.values()):
            raise CheckpointError(f"expected the progress of a run, found {dict(facts)!r:.200}")
        return cls(**facts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Parts:
    """What the loop works with."""

    run: Path
    config: str  # resolved, as YAML
    learner: Learner
    collector: Collector
    evaluator: Evaluator
    keeper: CheckpointKeeper
    metrics: Metrics
    stop: StopRequest
    seats: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass
class Training:
    """One run, from where it stands to its end."""

    parts: Parts
    plan: Plan
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self._published = _copied(self.parts.learner.network.state_dict())
        self.parts.collector.publish(self.parts.learner.network, self.progress.version)

    def run(self) -> Path:
        """Train until the budget is spent or somebody asks to stop; gives the last checkpoint."""
        try:
            self.parts.keeper.prepare(self.checkpoint())
            while self.progress.steps < self.plan.total_steps and not self.parts.stop.requested:
                self._iterate()
            if not self.parts.stop.requested and self.plan.final_games:
                self._record(self.parts.evaluator.evaluate(self.progress.iteration, self.plan.final_games))
            return self.parts.keeper.finish(self.progress.iteration, self.checkpoint())
        finally:
            self.parts.collector.close()
            self.parts.keeper.close()

    def _iterate(self) -> None:
        progress, plan = self.progress, self.plan
        began = time.perf_counter()
        rollout = self.parts.collector.collect(progress.iteration)
        collected = time.perf_counter()
        learnt = self._learn(rollout)
        done = time.perf_counter()
        progress.iteration += 1
        progress.steps += rollout.steps
        progress.games += int(rollout.ended.sum())
        if progress.iteration % plan.model_sync_interval == 0:
            self._publish()
        numbers = {
            **{f"learn/{name}": value for name, value in learnt.items()},
            **self._collected(rollout, collected - began),
            "time/collect": collected - began,
            "time/learn": done - collected,
        }
        if _due(progress.iteration, plan.evaluation_interval) and progress.steps < plan.total_steps:
            numbers |= self.parts.evaluator.evaluate(progress.iteration, plan.evaluation_games)
        progress.seconds += time.perf_counter() - began
        self._record(numbers)
        if progress.steps < plan.total_steps and self.parts.keeper.due(progress.iteration):
            self.parts.keeper.save(progress.iteration, self.checkpoint())

    def _learn(self, rollout: Rollout) -> Mapping[str, float]:
        """Learn; a batch whose update raises is kept for a replay and skipped, the first time."""
        progress = self.progress
        share = progress.steps / self.plan.total_steps
        try:
            return self.parts.learner.learn(rollout, progress.iteration, share)
        except LearningError:
            raise
        except Exception as error:
            progress.failed_updates += 1
            kept = _keep(self.parts.run / FAILED, progress.iteration, rollout)
            text = f"the update of iteration {progress.iteration} failed ({error!r}); its batch is kept in {kept}"
            self.parts.metrics.event(progress.iteration, "alarm", text)
            if progress.failed_updates > 1:
                self.parts.keeper.finish(progress.iteration, self.checkpoint())
                raise LearningError(
                    f"{text}; it is the second one, so the run has stopped with a checkpoint"
                ) from error
            return {"failed_updates": progress.failed_updates}

    def _publish(self) -> None:
        network = self.parts.learner.network
        if not _finite(network.state_dict()):
            raise LearningError("the network's weights are not finite")
        self.progress.version = self.progress.iteration
        self._published = _copied(network.state_dict())
        self.parts.collector.publish(network, self.progress.version)

    def _collected(self, rollout: Rollout, seconds: float) -> dict[str, float]:
        counts = np.bincount(rollout.reason.ravel(), minlength=len(self.parts.reasons))
        lengths = rollout.length[rollout.ended]
        numbers: dict[str, float] = {
            "collect/plies_per_second": rollout.steps / seconds,
            "collect/acted": float(rollout.acted.mean()),
            "memory/learner": _resident_bytes(),
        }
        if len(lengths):
            numbers["collect/mean_length"] = float(lengths.mean())
        numbers |= {f"collect/reason/{name}": int(counts[i]) for i, name in enumerate(self.parts.reasons) if i}
        return numbers | _wins(rollout, self.parts.seats)

    def _record(self, numbers: Mapping[str, float]) -> None:
        progress = self.progress
        counts = {
            "steps": progress.steps,
            "total_steps": self.plan.total_steps,
            "games": progress.games,
            "seconds": progress.seconds,
        }
        self.parts.metrics.record(progress.iteration, {**counts, **numbers})

    # --- saving and going back ---------------------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """Everything the run needs to go on from here."""
        tensors, facts = self.parts.learner.state()
        return Checkpoint(
            weights=self.parts.learner.network.state_dict(),
            tensors={
                "published": self._published,
                "optimizer": tensors,
                "environment": {"states": torch.from_numpy(self.parts.collector.save_state())},
            },
            facts={
                "progress": self.progress.facts(),
                "learner": facts,
                "metrics": self.parts.metrics.sizes(),
            },
            config=self.parts.config,
        )

    def restore(self, found: Found) -> None:
        """Go on from a checkpoint."""
        checkpoint = found.checkpoint
        learner, collector = self.parts.learner, self.parts.collector
        self.progress = Progress.of(part(checkpoint.facts, "progress"))
        restore(learner.network, checkpoint.tensors["published"])
        self._published = _copied(learner.network.state_dict())
        collector.publish(learner.network, self.progress.version)
        restore(learner.network, checkpoint.weights)
        learner.load_state(checkpoint.tensors["optimizer"], part(checkpoint.facts, "learner"))
        collector.load_state(checkpoint.tensors["environment"]["states"].numpy())


def part(facts: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    """A part of a checkpoint's facts. Raises CheckpointError where it is none."""
    found = facts.get(name)
    if not isinstance(found, Mapping):
        raise CheckpointError(f"the checkpoint's facts have no part '{name}'")
    return found


def _due(iteration: int, interval: int) -> bool:
    return interval > 0 and iteration % interval == 0


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _finite(tensors: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values() if tensor.is_floating_point())


def _wins(rollout: Rollout, seats: tuple[str, ...]) -> dict[str, float]:
    """How often each seat of a two-seat game won."""
    if len(seats) != 2:
        return {}
    mover, reward = rollout.seat[:, :-1][rollout.ended], rollout.reward[rollout.ended]
    winner = np.where(reward > 0, mover, 1 - mover)[reward != 0]
    return {f"collect/wins/{name}": int((winner == seat).sum()) for seat, name in enumerate(seats)}


def _keep(folder: Path, iteration: int, rollout: Rollout) -> Path:
    """Write the batch of a failed update, with the traceback of the exception being handled."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{iteration:08d}.npz"
    np.savez(path, **{name: getattr(rollout, name) for name in ARRAYS})
    path.with_suffix(".txt").write_text(traceback.format_exc(), encoding="utf-8")
    return path


def _resident_bytes() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
