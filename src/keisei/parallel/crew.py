"""The workers of a manager: kept at their number, watched, and replaced within a budget. Knows nothing of blocks."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from keisei.errors import WorkerError
from keisei.parallel.code import other_files
from keisei.parallel.communication import WorkerCommunicator, how_it_ended, is_of_its_own
from keisei.parallel.line import LineError
from keisei.parallel.messages import Answer, Done, Failed, Order, Ready, Refused, Setup, Stale
from keisei.parallel.shared_memory import UInt64
from keisei.parallel.spawner import Spawner
from keisei.rollout import Rollout

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_QUIET_SECONDS = 60.0
"""After so long without a loss, the next one is the first again."""
_LOOK_SECONDS = 0.05
"""How often heartbeats are looked at."""


@dataclass(frozen=True)
class Said:
    """A worker has said something about the order that it had."""

    worker: WorkerCommunicator
    order: Order
    answer: Answer


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and with it what it was about to do, if anything."""

    worker: WorkerCommunicator
    order: Order | None
    block: int  # of the order, at which it was
    text: str  # who, where and how
    its_own_fault: bool  # not a signal that somebody sent


Event = Said | Lost


@dataclass(frozen=True)
class Watch:
    """What is allowed to workers."""

    timeout_seconds: float
    max_restarts: int
    start_seconds: float


@dataclass(frozen=True)
class Record:
    """What the workers of one place have done."""

    blocks: int = 0
    steps: int = 0
    games: int = 0
    reward: float = 0.0
    busy_seconds: float = 0.0
    restarts: int = 0

    def with_blocks(self, number: int, played: Rollout) -> Record:
        """After so many blocks more."""
        return replace(
            self,
            blocks=self.blocks + number,
            steps=self.steps + played.steps,
            games=self.games + int(played.ended.sum()),
            reward=self.reward + float(played.reward.sum()),
        )

    def busy_for(self, seconds: float) -> Record:
        """After so much work more."""
        return replace(self, busy_seconds=self.busy_seconds + seconds)


class Crew:
    """Workers in their places, and one spare that is started and checked already."""

    def __init__(
        self,
        size: int,
        setup: Callable[[int], Setup],
        *,
        code: Mapping[str, str],
        heartbeats: UInt64,
        watch: Watch,
        say: Callable[[str], None],
    ) -> None:
        """`setup` makes a worker's first message from the number of its heartbeat; there is one more than workers."""
        self.records = [Record() for _ in range(size)]
        self.restarts = 0
        self.started = time.monotonic()
        self._setup = setup
        self._heartbeats = heartbeats
        self._watch = watch
        self._say = say
        self._spawner = Spawner()
        self._everybody: list[WorkerCommunicator] = []
        self._code = code
        self._has_begun = False
        self._refused = False  # whether a fresh worker would have other code
        self._failed_to_start = False  # whether the system had no process to give
        self._pause, self._start_after, self._lost_at = _FIRST_PAUSE, 0.0, self.started
        self._looked_at = self.started

    def start(self) -> None:
        """Start the workers and wait until they are ready. Raises WorkerError where they cannot be."""
        for place in range(len(self.records)):
            self._new(place)
        while not self.spent and not all(worker.ready for worker in self._everybody):
            for event in self.listen():
                if isinstance(event, Lost) and event.its_own_fault:
                    raise WorkerError(f"{event.text}, before it was ready")
        self._has_begun = True

    @property
    def workers(self) -> list[WorkerCommunicator]:
        """The workers, without the spare, in the order of their places."""
        return sorted((one for one in tuple(self._everybody) if one.place >= 0), key=lambda one: one.place)

    @property
    def spent(self) -> bool:
        """Whether the budget of restarts is spent, or nobody is left and nobody can be started."""
        nobody = (self._refused or self._failed_to_start) and not self.workers
        return nobody or self.restarts > self._watch.max_restarts

    def listen(self, seconds: float = _LOOK_SECONDS) -> list[Event]:
        """What happens next: answers, deaths and hangs. Comes back soon, with nothing if nothing happens."""
        self._fill()
        poll = select.poll()
        for worker in self._everybody:
            poll.register(worker.line, select.POLLIN | (select.POLLOUT if worker.line.wants_to_send else 0))
            poll.register(worker.descriptor, select.POLLIN)
        ready = dict(poll.poll(1e3 * seconds))
        happened: list[Event] = []
        for worker in tuple(self._everybody):
            if ready.get(worker.line.fileno(), 0) & select.POLLOUT:
                worker.line.flush()
            if ready.get(worker.line.fileno(), 0) & ~select.POLLOUT:
                happened += self._hear(worker)
            elif worker.descriptor in ready:
                happened += self._ended(worker)
        return happened + self._hung()

    def numbers(self) -> dict[str, float]:
        """What the workers have done and do, to record."""
        now = time.monotonic()
        numbers: dict[str, float] = {}
        for place, record in enumerate(self.records):
            numbers |= {
                f"worker/{place}/steps": record.steps,
                f"worker/{place}/games": record.games,
                f"worker/{place}/reward": record.reward,
                f"worker/{place}/busy": record.busy_seconds / max(1e-9, now - self.started),
                f"worker/{place}/restarts": record.restarts,
            }
        numbers["parallel/spares"] = sum(one.ready and one.place < 0 for one in tuple(self._everybody))
        for worker in self.workers:
            numbers[f"worker/{worker.place}/silent_seconds"] = worker.silent_for(now)
            numbers[f"memory/worker_{worker.place}"] = worker.resident_bytes()
        return numbers

    def resident_bytes(self) -> float:
        """The memory of all workers and of the spare."""
        return sum(worker.resident_bytes() for worker in tuple(self._everybody))

    # --- what workers do ---------------------------------------------------------------------------------------------

    def _hear(self, worker: WorkerCommunicator) -> list[Event]:
        try:
            messages = worker.line.receive()
        except EOFError:
            return self._ended(worker)
        except LineError as error:
            return self.dismiss(worker, f"handed out {error}")
        happened: list[Event] = []
        worker.is_alive()
        for message in messages:
            if worker in self._everybody:
                happened += self._understand(worker, message)
        return happened

    def _understand(self, worker: WorkerCommunicator, message: object) -> list[Event]:
        order = worker.order
        if isinstance(message, Ready) and not worker.ready:
            return self._check_ready(worker, message)
        if isinstance(message, Refused) and not worker.ready:
            return self._refuse(worker, f"could not start: {message.traceback.strip()}")
        if not isinstance(message, Done | Stale | Failed) or order is None:
            return self.dismiss(worker, f"said {type(message).__name__}, which nobody asked for")
        if message.number != order.number:
            return self.dismiss(worker, f"answered for order {message.number} instead of {order.number}")
        worker.order = None
        return [Said(worker, order, message)]

    def _check_ready(self, worker: WorkerCommunicator, ready: Ready) -> list[Event]:
        others = other_files(ready.code, self._code)
        if others:
            return self._refuse(worker, f"runs other code than this process: {', '.join(others)} changed on the disk")
        setup = worker.setup
        for what, expected, found in (
            ("slabs", setup.slab_layout, ready.slab_layout),
            ("weights", setup.slot_layout, ready.slot_layout),
        ):
            if found != expected:
                return self._refuse(
                    worker, f"does not fit: its {what} have other shapes or dtypes, {found} not {expected}"
                )
        worker.ready = True
        return []

    def _refuse(self, worker: WorkerCommunicator, why: str) -> list[Event]:
        """A worker that cannot be set up; another one could not either."""
        text = f"{worker.name} ({worker.process_name}) {why}"
        self._everybody.remove(worker)
        worker.end()
        if not self._has_begun:
            raise WorkerError(text)
        self._refused = True
        self._say(f"{text}; lost workers are not replaced any more")
        return []

    def _ended(self, worker: WorkerCommunicator) -> list[Event]:
        where = worker.where
        status = worker.ended()
        return self._lost(worker, f"{where}, {how_it_ended(status)}", is_of_its_own(status))

    def _hung(self) -> list[Event]:
        """Workers without a sign of life for too long. Where this process itself stood still, nobody is to blame."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS / 2:
            return []
        stood_still = now - self._looked_at > max(1.0, self._watch.timeout_seconds / 2)
        self._looked_at = now
        found: list[Event] = []
        for worker in tuple(self._everybody):
            if stood_still:
                worker.is_alive()
            silent = worker.silent_for(now)
            if silent > (self._watch.timeout_seconds if worker.ready else self._watch.start_seconds):
                stopped = worker.is_stopped()
                how = f"no sign of life for {silent:.2f} s{', stopped by a signal' if stopped else ''}"
                found += self.dismiss(worker, how, its_own_fault=not stopped)
        return found

    def dismiss(self, worker: WorkerCommunicator, why: str, *, its_own_fault: bool = True) -> list[Event]:
        """End a worker that cannot be trusted any more."""
        where = worker.where
        return self._lost(worker, f"{where}, {why}, {how_it_ended(worker.end())}", its_own_fault)

    # --- who takes whose place ---------------------------------------------------------------------------------------

    def _lost(self, worker: WorkerCommunicator, text: str, its_own_fault: bool) -> list[Event]:
        block, text = worker.block, f"{text} ({worker.process_name})"
        self._everybody.remove(worker)
        self._wait_longer()
        if worker.place < 0:
            self._say(text)
            return []
        self.restarts += 1
        record = self.records[worker.place]
        self.records[worker.place] = replace(record, restarts=record.restarts + 1)
        self._fill()
        if self.restarts <= self._watch.max_restarts:
            takers = [one.process_name for one in self._everybody if one.place == worker.place]
            taker = takers[0] if takers else "a fresh process"
            self._say(f"{text}; {taker} takes its place, restart {self.restarts} of {self._watch.max_restarts}")
        return [Lost(worker, worker.order, block, text, its_own_fault)]

    def _wait_longer(self) -> None:
        now = time.monotonic()
        if now - self._lost_at > _QUIET_SECONDS:
            self._pause = _FIRST_PAUSE
        self._lost_at, self._start_after = now, now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _fill(self) -> None:
        """Put the spare into an empty place, or a fresh worker when the pause is over; then see to a spare."""
        if self.spent:
            return
        for place in self._empty():
            spare = next((one for one in self._everybody if one.place < 0), None)
            if spare is not None:
                spare.place = place
            elif self._may_start():
                self._new(place)
        alone = len(self.workers) == len(self._everybody) == len(self.records)
        if alone and all(one.ready for one in self._everybody) and self._may_start():
            self._new(-1)

    def _empty(self) -> list[int]:
        taken = {worker.place for worker in self._everybody}
        return [place for place in range(len(self.records)) if place not in taken]

    def _may_start(self) -> bool:
        return not self._refused and time.monotonic() >= self._start_after

    def _new(self, place: int) -> None:
        taken = {worker.setup.number for worker in self._everybody}
        number = next(one for one in range(len(self.records) + 1) if one not in taken)
        try:
            worker = WorkerCommunicator(self._setup(number), self._heartbeats, self._spawner)
        except OSError as error:
            self._wait_longer()
            if not self._failed_to_start:
                self._say(f"no worker could be started: {error}; {len(self.workers)} of {len(self.records)} play")
            self._failed_to_start = True
            return
        self._failed_to_start = False
        worker.place = place
        self._everybody.append(worker)

    def close(self) -> None:
        """End all processes; may be called twice."""
        for worker in self._everybody:
            worker.end()
        self._everybody = []
        self._spawner.close()
