"""The training loop. It gets its parts and builds none: collect, learn, publish, save, evaluate, again."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from torch import Tensor

from keisei import failed_batch
from keisei.checkpoint import JSON, Checkpoint, CheckpointKeeper, Found, is_finite, latest, restore
from keisei.collect.collector import Collector
from keisei.errors import CheckpointError, KeiseiError, LearningError
from keisei.figures import figure_numbers
from keisei.learning.learner import Learner
from keisei.learning.population import Failure
from keisei.learning.updating import Updating
from keisei.metrics import Metrics
from keisei.progress import Progress, part
from keisei.rollout import Rollout
from keisei.spectator import Spectator
from keisei.stopping import Stopped, StopRequest
from keisei.threads import torch_threads

GROUPS = ("published", "optimizer", "environment")
"""The groups of tensors in a run's checkpoints, beside the weights."""


class Evaluator(Protocol):
    """Plays matches with the learner's network."""

    def evaluate(self, iteration: int, games: int) -> Mapping[str, float]:
        """Numbers to record, such as `evaluate/random/score`. Raises Stopped where the run is asked to stop."""


@dataclass(frozen=True)
class Plan:
    """How long the run is, and what happens how often; all intervals are in iterations, 0 is never."""

    total_steps: int
    model_sync_interval: int
    evaluation_interval: int
    evaluation_games: int
    final_games: int


@dataclass(frozen=True)
class Parts:
    """What the loop works with."""

    run: Path
    config: str  # resolved, as YAML
    learner: Learner
    updating: Updating
    collector: Collector
    evaluator: Evaluator
    keeper: CheckpointKeeper
    metrics: Metrics
    stop: StopRequest
    seats: tuple[str, ...]
    reasons: tuple[str, ...]
    agents: int = 1  # who learn for themselves; each has every so-manieth lane
    spectator: Spectator = field(default_factory=Spectator)


@dataclass
class Training:
    """One run, from where it stands to its end: `restore` where it goes on, then `prepare`, then `run`."""

    parts: Parts
    plan: Plan
    progress: Progress = field(default_factory=Progress)
    pauses_seconds: tuple[float, ...] = (1, 2, 4, 8, 16, 32)  # between tries to write the last checkpoint

    def __post_init__(self) -> None:
        self._published = _copied(self.parts.learner.network.state_dict())
        self._restored: Path | None = None
        self._earlier_metrics: Mapping[str, JSON] = {}  # files of earlier sessions, with their sizes
        self._given_up = ""  # why, where the run stops by itself before its end
        self.parts.collector.publish(self.parts.learner.network.state_dict(), self.progress.version)

    @property
    def saved(self) -> Path | None:
        """The newest checkpoint that is known to be good."""
        return self.parts.keeper.statistics.last or self._restored

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to do."""
        return self.progress.complete(self.plan.total_steps, self.plan.final_games)

    def prepare(self) -> None:
        """See that checkpoints can be written, and write a new run's first one; raises CheckpointError."""
        first = self.checkpoint()
        self.parts.keeper.prepare(first)
        if self.progress.iteration == 0:
            self.parts.keeper.finish(0, first)
        if not first.tensors["environment"]["states"].numel():
            self._tell("mode", "this game cannot save its state: a resumed run begins new games, and ends with others")

    def run(self) -> Path:
        """Train until the budget is spent or somebody asks to stop; gives the last checkpoint.

        Raises LearningError where learning cannot go on, with the run saved or back at its last good checkpoint.
        """
        try:
            with torch_threads(1):  # who learns has as many as it is given; several make looking and copying slow
                last = self._run()
        except LearningError as error:
            raise LearningError(f"{error}; {self._go_back()}") from error
        finally:
            self.parts.collector.close()
            self.parts.keeper.close()
        if self._given_up:
            raise LearningError(f"{self._given_up}; the run has stopped with checkpoint {last}")
        return last

    def _run(self) -> Path:
        self._evaluate()  # what was due when the run was asked to stop
        while not self._ends():
            self._iterate()
            self._evaluate()
        return self._finish()

    def _ends(self) -> bool:
        return self._over() or self.parts.stop.requested or bool(self._given_up)

    def _over(self) -> bool:
        return self.progress.steps >= self.plan.total_steps

    def _iterate(self) -> None:
        progress = self.progress
        began = time.perf_counter()
        rollout = self._collect()
        self.parts.spectator.saw(rollout)
        collected = time.perf_counter()
        learnt = self._learn(rollout)
        learned = time.perf_counter()
        progress.iteration += 1
        progress.steps += rollout.steps
        progress.games += int(rollout.ended.sum()) // self.parts.agents
        if progress.iteration % self.plan.model_sync_interval == 0:
            self._publish()
        numbers = {
            **{f"learn/{name}": value for name, value in learnt.items()},
            **self._collected(rollout, collected - began),
            **self.parts.collector.statistics(),
            "time/collect": collected - began,
            "time/learn": learned - collected,
        }
        progress.seconds += time.perf_counter() - began
        self._record(numbers)
        if self._worth_saving():
            self.parts.keeper.save(progress.iteration, self.checkpoint())

    def _worth_saving(self) -> bool:
        """Whether a checkpoint is due, or the last matches come next, which take a while; the end saves by itself."""
        if self._over():
            return self.plan.final_games > 0 and not self.parts.stop.requested
        return not self._ends() and self.parts.keeper.due(self.progress.iteration)

    def _collect(self) -> Rollout:
        """The next rollout; where it cannot be collected, the run is saved as it stands, so that nothing is lost."""
        try:
            return self.parts.collector.collect(self.progress.iteration)
        except (Exception, SystemExit) as error:
            error.add_note(self._save_as_it_stands())
            raise

    # --- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, rollout: Rollout) -> Mapping[str, float]:
        outcome = self.parts.updating.update(rollout, self.progress.iteration, self._share())
        for failure in outcome.failures:
            self._keep(failure)
        self._given_up = self._given_up or outcome.given_up
        if not all(map(is_finite, self.parts.learner.network.state_dict().values())):
            raise LearningError(f"the weights are not finite after iteration {self.progress.iteration + 1}")
        self._count_skipped(int(outcome.numbers.get("skipped_updates", self.progress.skipped_updates)))
        return outcome.numbers

    def _share(self) -> float:
        return self.progress.steps / self.plan.total_steps

    def _keep(self, failure: Failure) -> None:
        """Count an update that has failed, and keep its batch for a replay; where one learner fails again, give up."""
        self.progress.failed_updates += 1
        text = failure.text
        try:
            failed_batch.keep(self.parts.run, failure, self.progress, self.parts.config)
            text += f"; see it again with `keisei replay {self.parts.run}`"
        except CheckpointError as why:
            text += f"; its batch is lost: {why}"
        if failure.agent is None and self.progress.failed_updates > 1:
            self._given_up = f"{text}; it is not the first one"
        else:
            self._tell("alarm", f"{text}; it is skipped")

    def _count_skipped(self, skipped: int) -> None:
        more, self.progress.skipped_updates = skipped - self.progress.skipped_updates, skipped
        if more > 0:
            self._tell("alarm", f"{more} updates are skipped: loss or gradient not finite ({skipped} in the whole run)")

    def _publish(self) -> None:
        self.progress.version = self.progress.iteration
        self._published = _copied(self.parts.learner.network.state_dict())
        self.parts.collector.publish(self.parts.learner.network.state_dict(), self.progress.version)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        """Play the matches that are due now; those that a request to stop leaves undone are played after resuming."""
        progress, plan = self.progress, self.plan
        due = plan.evaluation_interval and progress.iteration % plan.evaluation_interval == 0
        games = plan.final_games if self._over() else plan.evaluation_games if due else 0
        if not games or self._given_up or progress.evaluated_at == progress.iteration:
            return
        began = time.perf_counter()
        self.parts.keeper.close()  # an opponent may be a checkpoint: none is to be rotated out meanwhile
        numbers: Mapping[str, float] = {}
        try:
            numbers = self.parts.evaluator.evaluate(progress.iteration, games)
        except Stopped:
            return
        except KeiseiError as error:  # an opponent's checkpoint is damaged, the game is none for matches, …
            self._tell("alarm", f"the evaluation is left out: {error}")
        progress.evaluated_at = progress.iteration
        progress.seconds += time.perf_counter() - began
        if numbers:
            self._record(numbers)

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
        return numbers | _wins(rollout, self.parts.seats) | figure_numbers(rollout, self.parts.agents)

    def _record(self, numbers: Mapping[str, float]) -> None:
        progress, saving = self.progress, self.parts.keeper.statistics
        counts = {
            "steps": progress.steps,
            "total_steps": self.plan.total_steps,
            "games": progress.games,
            "seconds": progress.seconds,
            "run/failed_updates": progress.failed_updates,
            "run/failed_saves": saving.failed,
            "run/skipped_saves": saving.skipped,
        }
        self.parts.metrics.record(progress.iteration, {**counts, **numbers})

    def _tell(self, kind: str, text: str) -> None:
        self.parts.metrics.event(self.progress.iteration, kind, text)

    # --- saving and going back ---------------------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """Everything the run needs to go on from here."""
        tensors, facts = self.parts.learner.state()
        metrics = {**self._earlier_metrics, **self.parts.metrics.sizes()}
        return Checkpoint(
            weights=self.parts.learner.network.state_dict(),
            tensors={"published": self._published, "optimizer": tensors, "environment": self.parts.collector.state()},
            facts={"progress": self.progress.facts(), "learner": facts, "metrics": metrics},
            config=self.parts.config,
        )

    def restore(self, found: Found) -> None:
        """Go on from a checkpoint."""
        checkpoint = found.checkpoint
        learner, collector = self.parts.learner, self.parts.collector
        self.progress = Progress.of(part(checkpoint.facts, "progress"))
        restore(learner.network, checkpoint.tensors["published"])
        self._published = _copied(learner.network.state_dict())
        collector.publish(self._published, self.progress.version)
        self._restore_learner(checkpoint)
        collector.load_state(checkpoint.tensors["environment"])
        self.parts.spectator.begin(checkpoint.tensors["environment"])
        self._earlier_metrics = part(checkpoint.facts, "metrics")
        self._restored = found.folder

    def _restore_learner(self, checkpoint: Checkpoint) -> None:
        restore(self.parts.learner.network, checkpoint.weights)
        self.parts.learner.load_state(checkpoint.tensors["optimizer"], part(checkpoint.facts, "learner"))

    def _go_back(self) -> str:
        """Go back to the last good checkpoint; gives what to say about it."""
        self.parts.keeper.close()  # the one that is being written may be it
        iteration = self.progress.iteration
        try:
            found = latest(self.parts.run, GROUPS)
        except CheckpointError as error:
            return f"and there is nothing to go back to: {error}"
        self.restore(found)
        return f"the run is back at checkpoint {found.folder}, which costs {iteration - found.number} iterations"

    def _save_as_it_stands(self) -> str:
        """Write a checkpoint before the run ends by an error; gives what to say about it."""
        try:
            saved = self.parts.keeper.finish(self.progress.iteration, self.checkpoint())
        except CheckpointError as error:
            return f"the run cannot be saved: {error}"
        return f"the run is saved: {saved}; go on with `keisei resume {self.parts.run}`"

    def _finish(self) -> Path:
        """Write the last checkpoint, in several tries where the disk does not take it."""
        for pause in self.pauses_seconds:
            try:
                return self.parts.keeper.finish(self.progress.iteration, self.checkpoint())
            except CheckpointError as error:
                self._tell("alarm", f"{error}; tried again in {pause:g} s")
                time.sleep(pause)
        return self.parts.keeper.finish(self.progress.iteration, self.checkpoint())


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _wins(rollout: Rollout, seats: tuple[str, ...]) -> dict[str, float]:
    """How often each seat of a two-seat game won."""
    if len(seats) != 2:
        return {}
    mover, reward = rollout.seat[:, :-1][rollout.ended], rollout.reward[rollout.ended]
    winner = np.where(reward > 0, mover, 1 - mover)[reward != 0]
    return {f"collect/wins/{name}": int((winner == seat).sum()) for seat, name in enumerate(seats)}


def _resident_bytes() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
