"""`ParallelManager`: gives blocks to workers and gets rollouts back, whoever dies on the way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

import keisei
from keisei.collect.blocks import BlockPlayer, BlockRules, check_states
from keisei.errors import WorkerError
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew, Lost, Said, Watch
from keisei.parallel.messages import Done, Failed, Play, Setup, Stale
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.shared_memory import SharedMemory, Slab, SlabLayout
from keisei.rollout import Rollout, RolloutLayout

OnFailure = Literal["serial", "stop"]


@dataclass(frozen=True)
class ParallelSettings:
    """How many work, and what happens when they fail."""

    blocks: int
    num_workers: int
    model_sync_interval: int = 1
    buffers: int = 1
    worker_timeout: float = 30.0
    max_restarts: int = 10
    on_failure: OnFailure = "serial"


class ParallelManager:
    """A collector whose blocks are played by worker processes."""

    def __init__(self, rules: BlockRules, settings: ParallelSettings, say: Callable[[str], None] = print) -> None:
        self.settings = settings
        self._rules = rules
        self._say = say
        self._player = BlockPlayer.of(rules)  # plays on when no worker may
        environment = self._player.environment
        layout = RolloutLayout(environment.groups[0], rules.steps)
        self._layout = SlabLayout(layout, environment.copies, environment.state_bytes)
        self._memory = [SharedMemory(settings.blocks * self._layout.bytes) for _ in range(settings.buffers)]
        self._rows = [memory.bytes.reshape(settings.blocks, self._layout.bytes) for memory in self._memory]
        self._slabs = [[self._layout.slab(row) for row in rows] for rows in self._rows]
        self._rollouts = [self._layout.all_rollouts(rows) for rows in self._rows]
        self._heartbeats = SharedMemory(8 * (settings.num_workers + 1))
        weights = self._player.policy.network.state_dict()
        self._sync = ModelSynchronizer(weights, settings.buffers + 1)
        self._states = np.stack([self._player.first_state(block) for block in range(settings.blocks)])
        self._version, self._slot = -1, 0
        self._iteration = 0
        self._crew: Crew | None = None
        self._failures: dict[int, int] = {}
        self._degraded = False

    # --- as a library ------------------------------------------------------------------------------------------------

    def start_workers(self, model: nn.Module) -> None:
        """Start the workers with these weights."""
        self.publish(model.state_dict(), 0)
        self._started()

    def collect_experiences(self) -> Rollout:
        """The next rollout; valid until the next call."""
        rollout = self.collect(self._iteration)
        self._iteration += 1
        return rollout

    def sync_model_if_needed(self, model: nn.Module, step: int) -> bool:
        """Publish the weights after every `model_sync_interval`-th step; says whether it did."""
        due = (step + 1) % self.settings.model_sync_interval == 0
        if due:
            self.publish(model.state_dict(), step + 1)
        return due

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

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """From now on act with these weights."""
        self._slot = self._sync.publish(weights, version)
        self._version = version
        self._weights = weights

    def collect(self, iteration: int) -> Rollout:
        """Play every block on; the rollout is valid for as many calls as there are buffers."""
        buffer = iteration % self.settings.buffers
        slabs = self._slabs[buffer]
        for slab, state in zip(slabs, self._states, strict=True):
            slab.start[:] = state
        self._failures = {}
        self._play_all(iteration, buffer)
        for slab, state in zip(slabs, self._states, strict=True):
            state[:] = slab.end
        return self._rollouts[buffer]

    def _play_all(self, iteration: int, buffer: int) -> None:
        crew = None if self._degraded else self._started()
        waiting = deque(range(self.settings.blocks))
        missing = set(waiting)
        while missing and crew is not None:
            for worker in crew.workers:
                if worker.ready and worker.order is None and (block := self._next(waiting, worker)) is not None:
                    worker.give(Play(block, iteration, self._version, self._slot, buffer))
            for event in crew.listen():
                block = self._block_of(event)
                if self._is_played(event, crew):
                    missing.discard(block)
                elif block in missing:
                    waiting.appendleft(block)
            if self._degraded:
                crew = None
        for block in sorted(missing):
            self._play_here(block, iteration, self._slabs[buffer][block])

    def _next(self, waiting: deque[int], worker: WorkerCommunicator) -> int | None:
        """The next block for a worker; without saved states a block stays with its worker."""
        if self._states.size:
            return waiting.popleft() if waiting else None
        own = [block for block in waiting if block % self.settings.num_workers == worker.setup.number]
        if own:
            waiting.remove(own[0])
        return own[0] if own else None

    def _block_of(self, event: Said | Lost) -> int:
        return event.worker.order.block if event.worker.order else -1

    def _is_played(self, event: Said | Lost, crew: Crew) -> bool:
        """See to an event; whether the block that it is about is played, and whole."""
        worker = event.worker
        order, worker.order = worker.order, None
        if isinstance(event, Lost):
            self._replace(event, order, crew)
        elif order is not None and isinstance(event.answer, Done):
            return self._accept(worker, order, event.answer, crew)
        elif order is not None and isinstance(event.answer, Stale):
            self._say(
                f"{worker.name} refused block {order.block}: {event.answer.reason}; the weights are published again"
            )
            self._slot = self._sync.publish(self._weights, self._version)
        elif isinstance(event.answer, Failed):
            self._count_failure(worker, event.answer)
        return False

    def _accept(self, worker: WorkerCommunicator, order: Play, done: Done, crew: Crew) -> bool:
        """Count a block that is whole; a worker that handed out anything else is replaced."""
        slab = self._slabs[order.buffer][order.block]
        complaint = slab.complaint(worker.setup.incarnation, order.iteration, order.version)
        if complaint or (done.block, done.iteration) != (order.block, order.iteration):
            crew.workers.remove(worker)
            how = f"handed out {complaint or f'block {done.block} of iteration {done.iteration}'}; {worker.end()}"
            self._replace(Lost(worker, how), order, crew)
            return False
        played = slab.rollout
        worker.count(done.seconds, played.steps, int(played.ended.sum()), float(played.reward.sum()))
        return True

    def _replace(self, lost: Lost, order: Play | None, crew: Crew) -> None:
        at = f", block {order.block}, iteration {order.iteration}" if order else ""
        replacement = crew.replace()
        if replacement is not None:
            self._say(
                f"{lost.worker.name}{at}: {lost.how}; {replacement.name} takes its place, restart {crew.restarts}"
            )
            return
        text = f"{lost.worker.name}{at}: {lost.how}; the budget of {self.settings.max_restarts} restarts is spent"
        if self.settings.on_failure == "stop":
            raise WorkerError(text)
        self._say(f"{text}: from here on the blocks are played in the learner's process")
        self._degraded = True

    def _count_failure(self, worker: WorkerCommunicator, failed: Failed) -> None:
        self._failures[failed.block] = self._failures.get(failed.block, 0) + 1
        text = f"{worker.name} failed at step {failed.step} of block {failed.block}: {failed.traceback.strip()}"
        if self._failures[failed.block] > 1:
            raise WorkerError(f"block {failed.block} of iteration {failed.iteration} failed twice; {text}")
        self._say(f"{text}\nthe block is played again")

    def _play_here(self, block: int, iteration: int, slab: Slab) -> None:
        if self._degraded:
            self._player.policy.network.load_state_dict(dict(self._weights))
        self._player.play(block, iteration, slab.start, slab.end, slab.rollout)

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _started(self) -> Crew:
        if self._crew is None:
            watch = Watch(self.settings.worker_timeout, self.settings.max_restarts)
            beats = self._heartbeats.bytes.view(np.uint64)
            self._crew = Crew(self.settings.num_workers, self._setup, beats, watch, self._say)
            self._crew.start()
        return self._crew

    def _setup(self, number: int, incarnation: int) -> Setup:
        return Setup(
            incarnation=incarnation,
            number=number,
            code=keisei.__version__,
            rules=self._rules,
            blocks=self.settings.blocks,
            slab_descriptors=tuple(memory.descriptor for memory in self._memory),
            slab_bytes=self._layout.bytes,
            weights_descriptor=self._sync.memory.descriptor,
            weights_bytes=self._sync.memory.size,
            slot_bytes=self._sync.layout.bytes,
            heartbeat_descriptor=self._heartbeats.descriptor,
            heartbeat_bytes=self._heartbeats.size,
        )

    def state(self) -> Mapping[str, Tensor]:
        """The states of all blocks, as they will go on."""
        return {"states": torch.from_numpy(self._states.copy())}

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from saved states."""
        check_states(self._states, saved["states"].numpy())
        self._states[:] = saved["states"].numpy()

    def statistics(self) -> dict[str, float]:
        """Numbers about workers, restarts and weights, to record."""
        sync = self._sync.statistics
        numbers: dict[str, float] = {
            "parallel/restarts": self._crew.restarts if self._crew else 0,
            "parallel/syncs": sync.count,
            "parallel/sync_bytes": sync.bytes,
            "parallel/sync_ms": 1e3 * sync.seconds / max(1, sync.count),
        }
        for worker in self._crew.workers if self._crew else ():
            numbers |= worker.numbers(time.monotonic())
        return numbers

    def close(self) -> None:
        """End all processes and give back all memory; may be called twice."""
        self.stop_workers()
        self._player.close()
        self._sync.close()
        for memory in (*self._memory, self._heartbeats):
            memory.close()
