"""Workers play whole blocks: each acts for the block that it has, and any free worker takes the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from keisei.collect.blocks import BlockPlayer, BlockRules
from keisei.collect.collector import Compression, as_published
from keisei.collect.past import PastSelves
from keisei.environment import UInt8
from keisei.errors import WorkerError
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew, Said
from keisei.parallel.dispatch import Dispatch
from keisei.parallel.messages import Order, Play, Stale
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.past import SharedPast
from keisei.parallel.shared_memory import Slab, SlabLayout
from keisei.parallel.slabs import Slabs
from keisei.parallel.work import Task
from keisei.rollout import Rollout

_MOST_REFUSALS = 5
"""How often in one iteration weights may arrive garbled."""


class Playing:
    """Blocks played from slabs into slabs, which are the rollout."""

    def __init__(
        self,
        rules: BlockRules,
        *,
        blocks: int,
        buffers: int,
        shared: bool,
        compression: Compression,
        say: Callable[[str], None],
    ) -> None:
        selves = PastSelves(rules.build_policy, rules.past)
        self.player = BlockPlayer(rules, selves)
        environment = self.player.environment
        layout = SlabLayout(rules.layout(environment), environment.copies, environment.state_bytes)
        self.slabs = Slabs(layout, blocks=blocks, buffers=buffers, shared=shared)
        weights = as_published(self.player.policy.network.state_dict(), compression)
        self.sync = ModelSynchronizer(weights, buffers + 1)
        self.past = SharedPast(selves, weights, 2 * rules.past.depth)
        self.states: UInt8 = np.stack([self.player.first_state(block) for block in range(blocks)])
        self.missing = 0
        self._rollouts = self.slabs.rollouts()
        self._shared = shared
        self._say = say
        self._left: set[int] = set()  # the blocks that are missing

    def begin(self, task: Task) -> None:
        """Lay out the states from which blocks are played on."""
        for slab, state in zip(self.slabs.of_buffer[task.buffer], self.states, strict=True):
            slab.start[:] = state
        self._left = set(range(len(self.states)))
        self.missing = len(self._left)

    def by_workers(self, crew: Crew, task: Task, is_paused: Callable[[], bool]) -> None:
        """Let workers play all blocks, as far as there are workers."""
        order = Play(-1, task.iteration, task.version, task.slot, task.buffer, past=self.past.places, epoch=task.epoch)
        slabs = self.slabs.of_buffer[task.buffer]
        dispatch = BlockDispatch(
            crew, slabs, order, shared=self._shared, publish_again=self._publish_again, say=self._say
        )
        self._left = dispatch.missing
        while self._left and not crew.spent:
            dispatch.step(give=not is_paused())
            self.missing = len(self._left)

    def _publish_again(self, order: Play) -> Play:
        self.past.write_again()
        return replace(order, slot=self.sync.publish_again(), past=self.past.places)

    def here(self, task: Task) -> None:
        """Play the blocks that are missing."""
        self.player.policy.network.load_state_dict(self.sync.published())
        for block in sorted(self._left):
            slab = self.slabs.of_buffer[task.buffer][block]
            self.player.play(block, task.iteration, slab.start, slab.end, slab.rollout)

    def commit(self, task: Task) -> Rollout:
        """All blocks are played: keep where they have come to."""
        for slab, state in zip(self.slabs.of_buffer[task.buffer], self.states, strict=True):
            state[:] = slab.end
        self.missing = 0
        return self._rollouts[task.buffer].as_played()

    def reset(self) -> None:
        """All blocks as they begin."""
        for block, state in enumerate(self.states):
            state[:] = self.player.first_state(block)
        self.player.forget()


class BlockDispatch(Dispatch):
    """Each block is played until it is whole, by whoever is free."""

    def __init__(
        self,
        crew: Crew,
        slabs: Sequence[Slab],
        order: Play,
        *,
        shared: bool,
        publish_again: Callable[[Play], Play],
        say: Callable[[str], None],
    ) -> None:
        """`order` is that of any block."""
        super().__init__(crew, slabs, order.iteration, shared=shared, say=say)
        self._order = order
        self._publish_again = publish_again
        self._waiting = deque(range(len(slabs)))
        self._refusals = 0

    def _next(self, worker: WorkerCommunicator) -> Play | None:
        block = self._next_block(worker)
        if block is None:
            return None
        state = b"" if self._shared else self._slabs[block].start.tobytes()
        return replace(self._order, block=block, start=state)

    def _next_block(self, worker: WorkerCommunicator) -> int | None:
        """The next block for a worker; without saved states a block stays with its worker."""
        if self._slabs[0].start.size:
            return self._waiting.popleft() if self._waiting else None
        own = [block for block in self._waiting if block % len(self._crew.records) == worker.place]
        if own:
            self._waiting.remove(own[0])
        return own[0] if own else None

    def _give_again(self, worker: WorkerCommunicator, order: Order | None) -> None:
        if isinstance(order, Play) and order.block in self.missing:
            self._waiting.appendleft(order.block)

    def _stamp(self, order: Order) -> tuple[int, int, int]:
        return order.iteration, self._order.version, 0

    def _accept(self, worker: WorkerCommunicator, order: Order, seconds: float) -> None:
        played, records = self._slabs[order.blocks[0]].rollout, self._crew.records
        records[worker.place] = records[worker.place].with_blocks(1, played).busy_for(seconds)

    def _ask_again(self, event: Said, stale: Stale) -> None:
        self._refusals += 1
        at = f"{event.worker.name}, block {event.order.blocks[0]} ({event.worker.process_name})"
        text = f"{at}: {stale.reason}"
        if self._refusals > _MOST_REFUSALS:
            raise WorkerError(f"weights were refused {self._refusals} times in one iteration; {text}")
        self._say(f"{text}; the weights are published again")
        self._order = self._publish_again(self._order)
        self._give_again(event.worker, event.order)
