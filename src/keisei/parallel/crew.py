"""The workers of a manager: kept at their number, watched, and replaced within a budget. Knows nothing of blocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait

from keisei.errors import WorkerError
from keisei.parallel.communication import Answer, Spawner, WorkerCommunicator
from keisei.parallel.messages import Ready, Setup
from keisei.parallel.shared_memory import UInt64

_START_SECONDS = 120.0
"""How long a worker may take until it is ready: it imports torch and builds a network."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LOOK_SECONDS = 0.05
"""How often heartbeats are looked at, at least."""


@dataclass(frozen=True)
class Lost:
    """A worker that is gone, and how."""

    worker: WorkerCommunicator
    how: str


@dataclass(frozen=True)
class Said:
    """A worker that has said something."""

    worker: WorkerCommunicator
    answer: Answer


@dataclass(frozen=True)
class Watch:
    """What is allowed to workers."""

    timeout_seconds: float
    max_restarts: int


class Crew:
    """Workers, and one spare that is started and checked already."""

    def __init__(
        self,
        size: int,
        setup: Callable[[int, int], Setup],
        heartbeats: UInt64,
        watch: Watch,
        say: Callable[[str], None],
    ) -> None:
        """`setup` makes a worker's first message from its number and incarnation."""
        self.size = size
        self.restarts = 0
        self.workers: list[WorkerCommunicator] = []
        self._setup = setup
        self._heartbeats = heartbeats
        self._watch = watch
        self._say = say
        self._spawner = Spawner()
        self._incarnation = 0
        self._spare: WorkerCommunicator | None = None
        self._pause = _FIRST_PAUSE
        self._spare_after = 0.0
        self._looked_at = time.monotonic()

    def start(self) -> None:
        """Start all workers and the spare, and wait until the workers are ready."""
        self.workers = [self._new(number) for number in range(self.size)]
        self._spare = self._new(self.size)
        limit = time.monotonic() + _START_SECONDS
        for worker in self.workers:
            if not worker.pipe.poll(max(0.0, limit - time.monotonic())):
                raise WorkerError(f"{worker.name} was not ready after {_START_SECONDS:.0f} s")
            self._check_ready(worker)

    @property
    def spent(self) -> bool:
        """Whether the budget of restarts is spent."""
        return self.restarts > self._watch.max_restarts

    def listen(self) -> list[Said | Lost]:
        """What happens next: answers, deaths and hangs. Comes back soon, with nothing if nothing happens."""
        self._keep_a_spare()
        watched = self._everybody()
        waited = wait([*(w.pipe for w in watched), *(w.descriptor for w in watched)], _LOOK_SECONDS)
        ready = set(map(id, waited)) | {one for one in waited if isinstance(one, int)}
        happened: list[Said | Lost] = []
        for worker in watched:
            if id(worker.pipe) in ready and worker.pipe.poll():
                happened += self._hear(worker)
            elif worker.descriptor in ready:
                happened += self._lost(worker, worker.died())
        return happened + self._hung()

    def _everybody(self) -> list[WorkerCommunicator]:
        return [*self.workers, *([self._spare] if self._spare else [])]

    def _hear(self, worker: WorkerCommunicator) -> list[Said | Lost]:
        answer = worker.answer()
        if answer is None:
            return self._lost(worker, f"an answer that is none; {worker.end()}")
        if isinstance(answer, Ready):
            worker.ready = True
            return []
        return [Said(worker, answer)]

    def _hung(self) -> list[Said | Lost]:
        """Workers without a sign of life for too long. Where this process itself stood still, nobody is to blame."""
        now = time.monotonic()
        stood_still = now - self._looked_at > max(1.0, self._watch.timeout_seconds / 2)
        self._looked_at = now
        found: list[Said | Lost] = []
        for worker in self._everybody():
            if stood_still:
                worker.alive_at = now
            limit = self._watch.timeout_seconds if worker.ready else _START_SECONDS
            silent = worker.silent_for(now)
            if silent > limit:
                found += self._lost(worker, f"no sign of life for {silent:.1f} s; {worker.end()}")
        return found

    def _lost(self, worker: WorkerCommunicator, how: str) -> list[Said | Lost]:
        if worker is self._spare:
            self._spare = None
            self._say(f"the spare {worker.name} is gone: {how}")
            self._pause_before_spare()
            return []
        self.workers.remove(worker)
        return [Lost(worker, how)]

    def replace(self) -> WorkerCommunicator | None:
        """A worker in place of one that was lost; None where the budget is spent."""
        self.restarts += 1
        if self.spent:
            return None
        worker, self._spare = self._spare or self._new(self.size), None
        self.workers.append(worker)
        self._pause_before_spare()
        return worker

    def _pause_before_spare(self) -> None:
        self._spare_after = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _keep_a_spare(self) -> None:
        if self._spare is None and not self.spent and time.monotonic() >= self._spare_after:
            self._spare = self._new(self.size)

    def _new(self, number: int) -> WorkerCommunicator:
        self._incarnation += 1
        taken = {worker.setup.number for worker in self._everybody()}
        free = next(one for one in range(self.size + 1) if one not in taken) if number in taken else number
        return WorkerCommunicator(self._setup(free, self._incarnation), self._heartbeats, self._spawner)

    def _check_ready(self, worker: WorkerCommunicator) -> None:
        answer = worker.answer()
        if not isinstance(answer, Ready):
            raise WorkerError(f"{worker.name} could not start: {worker.end()}")
        setup = worker.setup
        expected = Ready(setup.code, setup.slab_bytes, setup.slot_bytes)
        if answer != expected:
            raise WorkerError(f"{worker.name} does not fit: it has {answer}, expected {expected}")
        worker.ready = True

    def close(self) -> None:
        """End all processes; may be called twice."""
        for worker in self._everybody():
            worker.end()
        self.workers, self._spare = [], None
        self._spawner.close()
