"""How fast weights come from the learner to who acts with them, against a queue of state dicts.

A sync is a whole round: published here, copied, verified and applied there, and the answer is back. What a sync costs
the learner is measured apart, with one reader and with several.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.queues import Queue
from typing import NamedTuple

import torch
from torch import Tensor, nn

from keisei import build
from keisei.bench.far_end import FRESH, far_end, handed_out, other_core, reached
from keisei.bench.harness import Contender, Report, Result, Sample, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.config import load_run
from keisei.environment import Array
from keisei.errors import ContractError
from keisei.parallel.line import WorkerLine
from keisei.parallel.model_sync import ModelSynchronizer, WeightsReader
from keisei.threads import torch_threads

UNIT = "syncs/s"
SLOTS = 2


class Tower(NamedTuple):
    """A residual network for Shogi."""

    depth: int
    width: int


TOWERS: Mapping[str, Tower] = {"3m": Tower(10, 128), "23m": Tower(20, 256)}
"""By how many numbers they have, in millions."""

READERS = (1, 4)

Packed = Mapping[str, Tensor | Array]
Pack = Callable[[Mapping[str, Tensor]], Packed]


def network(tower: Tower) -> nn.Module:
    """The network with its first weights."""
    config = load_run(
        None, ["network.kind=residual", *(f"network.{key}={value}" for key, value in tower._asdict().items())]
    )
    return build.network(config.network, build.game(config), 0)


def marked(weights: Mapping[str, Tensor]) -> Tensor:
    """The tensor by whose first number versions are told apart."""
    return next(one for one in weights.values() if one.dim() == 1)


class Sync(ABC):
    """Versions of weights that go to readers, each of which answers with what it has."""

    def __init__(self, name: str, tower: Tower, lines: Sequence[WorkerLine]) -> None:
        self.name = name
        self._weights = network(tower).state_dict()
        self._mark = marked(self._weights)
        self._lines = lines
        self._version = 0

    def touch_all(self) -> None:
        """Use every slot, and both places of a reader, for the first time: memory that is new takes far longer."""
        for _ in range(2 * SLOTS):
            self._round()

    def measure(self, seconds: float) -> Sample:
        """Whole rounds for about so long."""
        syncs, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            self._round()
            syncs += 1
        return Sample(syncs, spent)

    def _round(self) -> None:
        self._version += 1
        self._mark[0] = self._version
        self.hand_out(self._weights, self._version)
        for line in self._lines:
            answer = line.receive()
            if answer != self._version:
                raise ContractError(f"expected weights version {self._version} at the far end, found {answer}")

    @abstractmethod
    def hand_out(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Let all readers have these weights."""


class Published(Sync):
    """As the product does it: one flat piece of shared memory, whatever the number of readers."""

    def __init__(self, name: str, tower: Tower, sync: ModelSynchronizer, lines: Sequence[WorkerLine]) -> None:
        super().__init__(name, tower, lines)
        self._sync = sync

    def hand_out(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.tell(self._sync.publish(weights, version), version)

    def tell(self, slot: int, version: int) -> None:
        """Tell all readers where the weights are; in the product, orders to play do so."""
        for line in self._lines:
            line.send((slot, version))


class LearnersCost(Published):
    """The same; what counts is the processor time that the learner's thread spends on publishing."""

    def __init__(self, name: str, tower: Tower, sync: ModelSynchronizer, lines: Sequence[WorkerLine]) -> None:
        super().__init__(name, tower, sync, lines)
        self._spent = 0.0

    def measure(self, seconds: float) -> Sample:
        self._spent = 0.0
        return Sample(super().measure(seconds).work, self._spent)

    def hand_out(self, weights: Mapping[str, Tensor], version: int) -> None:
        start = time.thread_time()
        slot = self._sync.publish(weights, version)
        self._spent += time.thread_time() - start
        self.tell(slot, version)


class Queued(Sync):
    """A state dict through a queue; `pack` makes what is put into it."""

    def __init__(self, name: str, tower: Tower, pack: Pack, queue: Queue[Packed], line: WorkerLine) -> None:
        super().__init__(name, tower, [line])
        self._pack = pack
        self._queue = queue

    def hand_out(self, weights: Mapping[str, Tensor], version: int) -> None:
        self._queue.put(self._pack(weights))


def by_value(weights: Mapping[str, Tensor]) -> Packed:
    """Numbers that are pickled: the reader has them as they are now, whatever the learner does next."""
    return {name: one.numpy() for name, one in weights.items()}


def as_tensors(weights: Mapping[str, Tensor]) -> Packed:
    """Tensors, as torch sends them: both sides share their memory from then on, so it is a copy that goes."""
    return {name: one.clone() for name, one in weights.items()}


def read_slots(line: WorkerLine, tower: Tower, memory: tuple[int, int, int]) -> None:
    """The far end of `Published`."""
    torch.set_num_threads(1)
    there = network(tower)
    mark = marked(there.state_dict(keep_vars=True))  # looked up once: that is no part of a sync
    reader = WeightsReader(there, reached(*memory))
    while True:
        order = line.receive()
        assert isinstance(order, tuple)
        reader.apply(*order)
        line.send(int(mark[0]))


def read_queue(line: WorkerLine, tower: Tower, queue: Queue[Packed]) -> None:
    """The far end of both queues."""
    torch.set_num_threads(1)
    there = network(tower)
    mark = marked(there.state_dict(keep_vars=True))
    while True:
        found = queue.get()
        if not found:
            return
        there.load_state_dict({name: torch.as_tensor(one) for name, one in found.items()})
        line.send(int(mark[0]))


@contextmanager
def published(name: str, tower: Tower, cores: Sequence[int], kind: type[Published] = Published) -> Iterator[Published]:
    """Weights in shared memory, and a reader on each of the cores."""
    sync = ModelSynchronizer(network(tower).state_dict(), SLOTS)
    with ExitStack() as stack:
        stack.callback(sync.close)
        memory = handed_out(sync.memory)
        lines = [stack.enter_context(far_end(core, read_slots, tower, memory)) for core in cores]
        made = kind(name, tower, sync, lines)
        made.touch_all()
        yield made


@contextmanager
def queued(name: str, tower: Tower, pack: Pack, core: int) -> Iterator[Queued]:
    """State dicts in a queue, and a reader."""
    queue: Queue[Packed] = FRESH.Queue()
    with far_end(core, read_queue, tower, queue) as line:
        try:
            made = Queued(name, tower, pack, queue, line)
            made.touch_all()
            yield made
        finally:
            queue.put({})


def run(settings: Settings) -> Report:
    """Hand weights from process to process on two cores, against queues."""
    far_core = other_core(settings.core)
    machine = describe([settings.core, far_core])
    results: list[Result] = []
    notes = [f"learner on core {settings.core}, readers on core {far_core}; a sync ends when the reader has answered"]
    with held_to([settings.core]), torch_threads(1):
        for size, tower in TOWERS.items():
            results += compare(size, tower, settings, far_core)
            count = sum(one.numel() for one in network(tower).state_dict().values())
            notes.append(f"{size}: {count / 1e6:.1f} million numbers")
        results += compare_costs(TOWERS["3m"], settings, far_core)
    return Report("sync", machine, tuple(results), tuple(notes))


def compare(size: str, tower: Tower, settings: Settings, far_core: int) -> list[Result]:
    """One size, ours against both queues."""
    ours, values, tensors = f"sync_{size}", f"queue_{size}", f"queue_of_tensors_{size}"
    with (
        published(ours, tower, [far_core]) as shared,
        queued(values, tower, by_value, far_core) as pickled,
        queued(tensors, tower, as_tensors, far_core) as sent,
    ):
        measured = take_turns([shared, pickled, sent], settings)
    return [
        result_against(measured[ours], UNIT, measured[values], "queue"),
        result_against(measured[tensors], UNIT, measured[values], "queue"),
        result(measured[values], UNIT),
    ]


def compare_costs(tower: Tower, settings: Settings, far_core: int) -> list[Result]:
    """What a sync costs the learner's thread, with one reader and with several."""
    one, several = (f"learner_{count}_readers" for count in READERS)
    with ExitStack() as stack:
        contenders: list[Contender] = [
            stack.enter_context(published(name, tower, [far_core] * count, LearnersCost))
            for name, count in zip((one, several), READERS, strict=True)
        ]
        measured = take_turns(contenders, settings)
    unit = "syncs/s of its thread"
    return [result_against(measured[several], unit, measured[one], one), result(measured[one], unit)]
