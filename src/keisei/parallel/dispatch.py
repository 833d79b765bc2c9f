"""What is asked of workers, until all of it has been done well, by whoever is free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from keisei.errors import WorkerError
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew, Event, Lost, Said
from keisei.parallel.messages import Done, Failed, Order, Stale
from keisei.parallel.shared_memory import Slab


class Dispatch(ABC):
    """Gives orders for the blocks of one iteration; which orders, its subclasses know."""

    def __init__(
        self, crew: Crew, slabs: Sequence[Slab], iteration: int, *, shared: bool, say: Callable[[str], None]
    ) -> None:
        """Without `shared` memory, states and what is played go over the line."""
        self.missing = set(range(len(slabs)))  # what has not been done yet
        self._crew = crew
        self._slabs = slabs
        self._iteration = iteration
        self._shared = shared
        self._say = say
        self._failures: set[int] = set()

    def step(self, *, give: bool) -> None:
        """Give out what can be given, unless that is to wait, and see to what happens next."""
        for worker in self._crew.workers if give else ():
            if worker.ready and worker.order is None and (order := self._next(worker)) is not None:
                worker.give(order)
        for event in self._crew.listen():
            self._see_to(event)

    @abstractmethod
    def _next(self, worker: WorkerCommunicator) -> Order | None:
        """The next order for a worker, if there is any."""

    @abstractmethod
    def _give_again(self, worker: WorkerCommunicator, order: Order | None) -> None:
        """A worker has not carried out an order, or it is gone: see that somebody does what is missing."""

    @abstractmethod
    def _stamp(self, order: Order) -> tuple[int, int, int]:
        """What the slabs' headers must say when an order has been carried out: iteration, version and ply."""

    @abstractmethod
    def _accept(self, worker: WorkerCommunicator, order: Order, seconds: float) -> None:
        """An order has been carried out, and the slabs are whole."""

    def _ask_again(self, event: Said, stale: Stale) -> None:
        raise WorkerError(f"{event.worker.name}: {stale.reason}")

    def _see_to(self, event: Event) -> None:
        if isinstance(event, Lost):
            if event.order is not None and event.its_own_fault:
                self._count_failure(event.block, event.text)
            self._give_again(event.worker, event.order)
        elif isinstance(event.answer, Done):
            self._check(event, event.answer)
        elif isinstance(event.answer, Failed):
            failed = event.answer
            at = f"{event.worker.name}, block {failed.block}, ply {failed.step} ({event.worker.process_name})"
            text = f"{at}: {failed.traceback.strip()}"
            self._count_failure(failed.block, text)
            self._say(f"{text}\nblock {failed.block} is played again")
            self._give_again(event.worker, event.order)
        else:
            self._ask_again(event, event.answer)

    def _check(self, event: Said, done: Done) -> None:
        """Accept what is whole; a worker that handed out anything else is replaced."""
        worker, order = event.worker, event.order
        slabs = [self._slabs[block] for block in order.blocks]
        if not self._shared:
            for slab, packed in zip(slabs, done.slabs, strict=False):
                slab.unpack(packed)
        complaint = self._complaint(slabs, worker.setup.incarnation, order)
        if not complaint:
            self.missing.difference_update(order.blocks)
            self._accept(worker, order, done.seconds)
            return
        worker.order = order
        for lost in self._crew.dismiss(worker, f"handed out {complaint}"):
            self._see_to(lost)

    def _complaint(self, slabs: Sequence[Slab], incarnation: int, order: Order) -> str:
        stamp = self._stamp(order)
        complaints = (slab.complaint(incarnation, *stamp) for slab in slabs)
        return next((complaint for complaint in complaints if complaint), "")

    def _count_failure(self, block: int, text: str) -> None:
        if block in self._failures:
            raise WorkerError(f"block {block} of iteration {self._iteration} failed twice; {text}")
        self._failures.add(block)
