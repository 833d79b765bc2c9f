"""One iteration's blocks on their way to workers and back: each is played until it is whole, by whoever is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from keisei.errors import WorkerError
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew, Event, Lost, Said
from keisei.parallel.messages import Done, Failed, Play, Stale
from keisei.parallel.shared_memory import Slab

_MOST_REFUSALS = 5
"""How often in one iteration weights may arrive garbled."""


class Dispatch:
    """Gives the blocks of one iteration to workers until all are played, or nobody is left to play them."""

    def __init__(
        self,
        crew: Crew,
        slabs: Sequence[Slab],
        order: Play,
        *,
        shared: bool,
        publish_again: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        """`order` is that of any block; without `shared` memory, states and rollouts go over the line."""
        self.missing = set(range(len(slabs)))
        self._crew = crew
        self._slabs = slabs
        self._order = order
        self._shared = shared
        self._publish_again = publish_again
        self._say = say
        self._waiting = deque(range(len(slabs)))
        self._failures: dict[int, str] = {}
        self._refusals = 0

    def step(self, *, give: bool) -> None:
        """Give out what can be given, unless that is to wait, and see to what happens next."""
        for worker in self._crew.workers if give else ():
            if worker.ready and worker.order is None and (block := self._next(worker)) is not None:
                state = b"" if self._shared else self._slabs[block].start.tobytes()
                worker.give(replace(self._order, block=block, start=state))
        for event in self._crew.listen():
            self._see_to(event)

    def _next(self, worker: WorkerCommunicator) -> int | None:
        """The next block for a worker; without saved states a block stays with its worker."""
        if self._slabs[0].start.size:
            return self._waiting.popleft() if self._waiting else None
        own = [block for block in self._waiting if block % len(self._crew.records) == worker.place]
        if own:
            self._waiting.remove(own[0])
        return own[0] if own else None

    def _see_to(self, event: Event) -> None:
        if isinstance(event, Lost):
            if event.order is not None and event.its_own_fault:
                self._count_failure(event.order.block, event.text)
            self._play_again(event.order)
        elif isinstance(event.answer, Done):
            self._accept(event, event.answer)
        elif isinstance(event.answer, Failed):
            failed = event.answer
            text = f"{event.worker.name}, block {failed.block}, ply {failed.step}: {failed.traceback.strip()}"
            self._count_failure(failed.block, text)
            self._say(f"{text}\nblock {failed.block} is played again")
            self._play_again(event.order)
        else:
            self._ask_again(event, event.answer)

    def _play_again(self, order: Play | None) -> None:
        if order is not None and order.block in self.missing:
            self._waiting.appendleft(order.block)

    def _accept(self, event: Said, done: Done) -> None:
        """Count a block that is whole; a worker that handed out anything else is replaced."""
        slab, worker = self._slabs[done.block], event.worker
        if not self._shared:
            slab.unpack(done.slab)
        complaint = slab.complaint(worker.setup.incarnation, event.order.iteration, event.order.version)
        if complaint:
            worker.order = event.order
            for lost in self._crew.dismiss(worker, f"handed out {complaint}"):
                self._see_to(lost)
            return
        self.missing.discard(done.block)
        played, before = slab.rollout, self._crew.records[worker.place]
        self._crew.records[worker.place] = replace(
            before,
            blocks=before.blocks + 1,
            steps=before.steps + played.steps,
            games=before.games + int(played.ended.sum()),
            reward=before.reward + float(played.reward.sum()),
            busy_seconds=before.busy_seconds + done.seconds,
        )

    def _ask_again(self, event: Said, stale: Stale) -> None:
        self._refusals += 1
        text = f"{event.worker.name}, block {stale.block}: {stale.reason}"
        if self._refusals > _MOST_REFUSALS:
            raise WorkerError(f"weights were refused {self._refusals} times in one iteration; {text}")
        self._say(f"{text}; the weights are published again")
        self._order = replace(self._order, slot=self._publish_again())
        self._play_again(event.order)

    def _count_failure(self, block: int, text: str) -> None:
        if block in self._failures:
            raise WorkerError(f"block {block} of iteration {self._order.iteration} failed twice; {text}")
        self._failures[block] = text
