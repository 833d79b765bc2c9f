"""`ParallelManager`: gives blocks to workers and gets rollouts back, whoever dies on the way."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import numpy as np
import torch
from torch import nn

from keisei.collect.blocks import BlockRules, check_states
from keisei.collect.collector import Compression, Weights, as_published
from keisei.errors import NoWorkersError, WorkerError
from keisei.parallel.code import package_files
from keisei.parallel.communication import resident_bytes
from keisei.parallel.crew import Crew, Watch
from keisei.parallel.messages import Inference, Setup
from keisei.parallel.playing import Playing
from keisei.parallel.shared_memory import SharedMemory
from keisei.parallel.slabs import HEARTBEATS
from keisei.parallel.stepping import Stepping
from keisei.parallel.work import Task, Work
from keisei.rollout import Rollout

OnFailure = Literal["serial", "stop"]


@dataclass(frozen=True)
class ParallelSettings:
    """How many work, and what happens when they fail."""

    blocks: int
    num_workers: int
    model_sync_interval: int = 1
    buffers: int = 1  # how many rollouts stay valid at once
    worker_timeout: float = 30.0
    start_timeout: float = 120.0  # a worker imports torch and builds a network
    max_restarts: int = 10
    on_failure: OnFailure = "serial"
    use_shared_memory: bool = True
    compression: Compression = "none"
    inference: Inference = "worker"


class ParallelManager:
    """A collector whose blocks are played by worker processes."""

    def __init__(self, rules: BlockRules, settings: ParallelSettings, say: Callable[[str], None] = print) -> None:
        """`say` is told what goes wrong, in lines."""
        self.settings = settings
        self._rules = rules
        self._say = say
        self._code = package_files()
        self._work = _work(rules, settings, say)
        self._incarnations = itertools.count(1)
        self._heartbeats = SharedMemory(8 * HEARTBEATS * (settings.num_workers + 1))
        self._crew: Crew | None = None
        self._pause = _Pause()
        self._progress = _Progress()
        if not self._work.player.environment.state_bytes:
            say(
                "this environment cannot save its states, so each block stays with its worker: "
                "where a worker dies, and on resume, its games begin anew, and the bits are others"
            )

    # --- as a library ------------------------------------------------------------------------------------------------

    def start_workers(self, model: nn.Module) -> None:
        """Start the workers with these weights."""
        self.publish(model.state_dict(), 0)
        self._progress.degraded = False
        self._working_crew()

    def collect_experiences(self) -> Rollout:
        """The next rollout; valid until the next call."""
        rollout = self.collect(self._progress.iteration)
        self._progress.iteration += 1
        return rollout

    def sync_model_if_needed(self, model: nn.Module, step: int) -> bool:
        """Publish the weights after every `model_sync_interval`-th step; says whether it did."""
        due = (step + 1) % self.settings.model_sync_interval == 0
        if due:
            self.publish(model.state_dict(), step + 1)
        return due

    def pause(self) -> None:
        """Give out no more blocks; those that are being played are finished, and `collect` in other threads waits."""
        self._pause.begin()

    def resume(self) -> None:
        """Go on after a pause."""
        self._pause.end()

    def reset(self) -> None:
        """Let all games begin anew, as at the very start, from iteration 0."""
        self._work.reset()
        self._progress.iteration = 0
        self._progress.epoch += 1

    def stop_workers(self) -> None:
        """End the workers; they can be started again."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- as a collector ----------------------------------------------------------------------------------------------

    def publish(self, weights: Weights, version: int) -> None:
        """From now on act with these weights."""
        self._progress.slot = self._work.sync.publish(weights, version)
        self._work.past.offer(as_published(weights, self.settings.compression), version)

    def collect(self, iteration: int) -> Rollout:
        """Play every block on; the rollout is valid for as many calls as there are buffers.

        Raises WorkerError where a block fails twice, NoWorkersError where the budget is spent and the run is to stop;
        then the states are those before the call.
        """
        version = self._work.sync.version
        if version < 0:
            raise WorkerError("expected weights before experience: call start_workers(model) or publish()")
        self._pause.check()
        progress = self._progress
        task = Task(iteration, iteration % self.settings.buffers, version, progress.slot, progress.epoch)
        self._work.begin(task)
        try:
            if not progress.degraded:
                self._by_workers(task)
            if self._work.missing:
                self._work.here(task)
        except BaseException:
            self.stop_workers()  # nobody may still write what the next call reads
            raise
        progress.collected_version = version
        return self._work.commit(task)

    def _by_workers(self, task: Task) -> None:
        """Let workers play as much as they can."""
        crew = self._working_crew()
        crew.listen(0.0)  # who died while there was nothing to do gets nothing to do
        self._work.by_workers(crew, task, lambda: self._pause.is_on)
        if self._work.missing:
            self._degrade(crew)

    def _degrade(self, crew: Crew) -> None:
        text = f"the budget of {self.settings.max_restarts} restarts is spent, or no worker can be started"
        if self.settings.on_failure == "stop":
            raise NoWorkersError(text)
        self._say(f"{text}: FROM HERE ON BLOCKS ARE PLAYED IN THE LEARNER'S PROCESS")
        self._progress.degraded = True
        self._progress.restarts += crew.restarts
        self.stop_workers()

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _working_crew(self) -> Crew:
        if self._crew is None:
            watch = Watch(self.settings.worker_timeout, self.settings.max_restarts, self.settings.start_timeout)
            beats = self._heartbeats.bytes.view(np.uint64).reshape(-1, HEARTBEATS)
            self._crew = Crew(
                self.settings.num_workers,
                self._setup,
                code=self._code,
                heartbeats=beats,
                watch=watch,
                say=self._say,
            )
            self._crew.start()
        return self._crew

    def _setup(self, number: int) -> Setup:
        return Setup(
            incarnation=next(self._incarnations),
            number=number,
            inference=self.settings.inference,
            rules=self._rules,
            blocks=self.settings.blocks,
            slab_descriptors=self._work.slabs.descriptors,
            slab_bytes=self._work.slabs.layout.bytes,
            slab_layout=self._work.slabs.layout.fingerprint,
            weights_descriptor=self._work.sync.memory.descriptor,
            weights_bytes=self._work.sync.memory.size,
            slot_layout=self._work.sync.layout.fingerprint,
            past_descriptor=self._work.past.sync.memory.descriptor,
            past_bytes=self._work.past.sync.memory.size,
            compression=self.settings.compression,
            heartbeat_descriptor=self._heartbeats.descriptor,
            heartbeat_bytes=self._heartbeats.size,
        )

    def state(self) -> Weights:
        """The states of all blocks, as they will go on, and the past selves."""
        return {"states": torch.from_numpy(self._work.states.copy()), **self._work.past.selves.state()}

    def load_state(self, saved: Weights) -> None:
        """Go on from saved states."""
        check_states(self._work.states, saved["states"].numpy())
        self._work.states[:] = saved["states"].numpy()
        self._work.past.load_state(saved)

    def statistics(self) -> dict[str, float]:
        """Numbers about workers, restarts and weights, to record."""
        work, progress, crew = self._work, self._progress, self._crew
        sync = work.sync.statistics
        numbers: dict[str, float] = {
            "opponents/past_selves": len(work.past.selves),
            "parallel/restarts": progress.restarts + (crew.restarts if crew else 0),
            "parallel/degraded": float(progress.degraded),
            "parallel/queue_depth": self.settings.blocks - work.missing if work.missing else 0,
            "parallel/syncs": sync.count,
            "parallel/sync_bytes": sync.bytes,
            "parallel/sync_ms": 1e3 * sync.seconds / max(1, sync.count),
            "parallel/version_lag": max(0, work.sync.version - progress.collected_version),
        }
        if crew is not None:
            numbers |= crew.numbers()
        numbers["memory/all"] = resident_bytes(os.getpid()) + (crew.resident_bytes() if crew else 0)
        return numbers

    def processes(self) -> list[int]:
        """The numbers of the processes that are ready to play, the spare's not among them."""
        return [worker.process.pid for worker in self._crew.workers if worker.ready] if self._crew else []

    def close(self) -> None:
        """End all processes and give back all memory; may be called twice."""
        self.stop_workers()
        self._work.player.close()
        self._work.sync.close()
        self._work.past.close()
        self._work.slabs.close()
        self._heartbeats.close()


def _work(rules: BlockRules, settings: ParallelSettings, say: Callable[[str], None]) -> Work:
    return _WAYS[settings.inference](
        rules,
        blocks=settings.blocks,
        buffers=settings.buffers,
        shared=settings.use_shared_memory,
        compression=settings.compression,
        say=say,
    )


_WAYS: dict[Inference, type[Playing] | type[Stepping]] = {"worker": Playing, "learner": Stepping}


@dataclass
class _Progress:
    """Where a manager stands."""

    iteration: int = 0  # of `collect_experiences`
    slot: int = 0  # of the published weights
    collected_version: int = 0
    epoch: int = 0
    restarts: int = 0  # of earlier crews
    degraded: bool = False


class _Pause:
    """Whether blocks may be given out, and who said that they may not."""

    def __init__(self) -> None:
        self._paused_by: int | None = None

    def begin(self) -> None:
        self._paused_by = threading.get_ident()

    def end(self) -> None:
        self._paused_by = None

    @property
    def is_on(self) -> bool:
        return self._paused_by is not None

    def check(self) -> None:
        """Raise WorkerError where the thread that paused would wait for itself."""
        if self._paused_by == threading.get_ident():
            raise WorkerError("experience is paused by the thread that now asks for it: call resume() first")
