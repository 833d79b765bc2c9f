"""How fast rollouts come from one process to another: in shared memory and verified, against a pickled queue.

Both sides move the same arrays, 512 positions as planes with their legal moves as masks, with two rollouts on their way
at any time; each rollout is changed before it goes, and looked at where it comes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.queues import Queue

import numpy as np

from keisei.bench.far_end import FRESH, far_end, handed_out, other_core, reached
from keisei.bench.harness import Report, Sample, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.environment import Array, Group
from keisei.errors import ContractError
from keisei.parallel.line import WorkerLine
from keisei.parallel.shared_memory import SharedMemory, Slab, SlabLayout
from keisei.rollout import RolloutLayout

POSITIONS = 512
UNIT = "bytes/s"
ON_THEIR_WAY = 2
INCARNATION, VERSION = 1, 1


def group() -> Group:
    """One lane of Shogi as 46 planes of numbers, with all actions in a mask."""
    lanes = np.zeros(1, np.int32)
    return Group(lanes, (46, 9, 9), np.dtype(np.float32), 13_527, "mask", 593)


def slab_layout() -> SlabLayout:
    """A slab whose rollout sees that many positions; the last one is the row after the last step."""
    return SlabLayout(RolloutLayout(group(), POSITIONS - 1), copies=1, state_bytes=64)


def slabs_in(memory: SharedMemory) -> list[Slab]:
    """The slabs of all rollouts that are on their way."""
    layout = slab_layout()
    return [layout.slab(row) for row in memory.bytes.reshape(ON_THEIR_WAY, layout.bytes)]


def payload(slab: Slab) -> tuple[Array, Array]:
    """What is moved on both sides."""
    return slab.rollout.observation, slab.rollout.legal_actions


def fill(slab: Slab) -> None:
    """Numbers that do not repeat."""
    random = np.random.default_rng(0)
    observation, mask = payload(slab)
    observation[:] = random.random(observation.shape, np.float32)
    mask[:] = random.random(mask.shape, np.float32) < 0.01


class Stream(ABC):
    """Rollouts that are asked for and come, always so many on their way."""

    name: str

    def __init__(self, line: WorkerLine) -> None:
        self._line = line
        self._asked = self._taken = 0

    def measure(self, seconds: float) -> Sample:
        """Take rollouts for about so long."""
        moved, start = 0, time.perf_counter()
        for _ in range(ON_THEIR_WAY):
            self._ask()
        while (spent := time.perf_counter() - start) < seconds:
            moved += self._next()
            self._ask()
        for _ in range(ON_THEIR_WAY):
            self._next()
        return Sample(moved, spent)

    def _ask(self) -> None:
        self._asked += 1
        self._line.send(self._asked)

    def _next(self) -> int:
        self._taken += 1
        return check(self._taken, *self.take(self._taken))

    @abstractmethod
    def take(self, number: int) -> tuple[Array, Array]:
        """Wait for what was asked for."""


class InPlace(Stream):
    """Slabs as workers and manager use them: sealed there, verified here, and read where they lie."""

    name = "transport"

    def __init__(self, line: WorkerLine, memory: SharedMemory) -> None:
        super().__init__(line)
        self._slabs = slabs_in(memory)

    def take(self, number: int) -> tuple[Array, Array]:
        self._line.receive()
        slab = self._slabs[number % ON_THEIR_WAY]
        complaint = slab.complaint(INCARNATION, number, VERSION)
        if complaint:
            raise ContractError(f"rollout {number} came with {complaint}")
        return payload(slab)


class Queued(Stream):
    """The same arrays through a queue, pickled."""

    name = "queue"

    def __init__(self, line: WorkerLine, queue: Queue[tuple[Array, Array]]) -> None:
        super().__init__(line)
        self._queue = queue

    def take(self, number: int) -> tuple[Array, Array]:
        return self._queue.get()


def mark(number: int, observation: Array, mask: Array) -> None:
    """Change the first and the last thing of what is sent."""
    observation[0, 0, 0, 0, 0, 0] = number
    mask[0, -1, 0, -1] = number % 256


def check(number: int, observation: Array, mask: Array) -> int:
    """See that it is what was marked; gives its bytes."""
    if observation[0, 0, 0, 0, 0, 0] != number or mask[0, -1, 0, -1] != number % 256:
        raise ContractError(f"rollout {number} came as another one")
    return observation.nbytes + mask.nbytes


def fill_slabs(line: WorkerLine, memory: tuple[int, int, int]) -> None:
    """The far end of `InPlace`: what is asked for is sealed."""
    slabs = slabs_in(reached(*memory))
    for slab in slabs:
        fill(slab)
    while True:
        number = line.receive()
        assert isinstance(number, int)
        slab = slabs[number % ON_THEIR_WAY]
        mark(number, *payload(slab))
        slab.seal(INCARNATION, number, VERSION)
        line.send(number)


def fill_queue(line: WorkerLine, queue: Queue[tuple[Array, Array]]) -> None:
    """The far end of `Queued`: what is asked for is put into the queue."""
    queue.cancel_join_thread()
    slabs = slabs_in(SharedMemory(ON_THEIR_WAY * slab_layout().bytes))
    for slab in slabs:
        fill(slab)
    while True:
        number = line.receive()
        assert isinstance(number, int)
        arrays = payload(slabs[number % ON_THEIR_WAY])
        mark(number, *arrays)
        queue.put(arrays)


@contextmanager
def contenders(far_core: int) -> Iterator[tuple[InPlace, Queued]]:
    """Both ways, each with a process of its own at the far end."""
    memory = SharedMemory(ON_THEIR_WAY * slab_layout().bytes)
    queue: Queue[tuple[Array, Array]] = FRESH.Queue()
    with ExitStack() as stack:
        stack.callback(memory.close)
        near = stack.enter_context(far_end(far_core, fill_slabs, handed_out(memory)))
        other = stack.enter_context(far_end(far_core, fill_queue, queue))
        yield InPlace(near, memory), Queued(other, queue)


def run(settings: Settings) -> Report:
    """Move rollouts between two processes on two cores, against a queue."""
    far_core = other_core(settings.core)
    machine = describe([settings.core, far_core])
    with held_to([settings.core]), contenders(far_core) as (in_place, queued):
        measured = take_turns([in_place, queued], settings)
    results = (
        result_against(measured["transport"], UNIT, measured["queue"], "queue"),
        result(measured["queue"], UNIT),
    )
    size = POSITIONS * (46 * 81 * 4 + 13_527)
    note = f"{size / 1e6:.1f} MB at a time; writer on core {far_core}, reader on core {settings.core}"
    return Report("transport", machine, results, (note,))
