"""Turns of a set of blocks that workers step: all of its blocks take a turn before the next one is thought of.

A turn lies in a block's slab as a rollout of one step: what came of the actions, and what is seen then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from keisei.environment import Array, Environment, Int32
from keisei.errors import WorkerError
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew
from keisei.parallel.dispatch import Dispatch
from keisei.parallel.messages import Advance, Order
from keisei.parallel.shared_memory import Slab, SlabLayout
from keisei.parallel.work import Task
from keisei.rollout import RolloutLayout


class NobodyLeft(WorkerError):
    """No worker may play on."""


class GamesLost(WorkerError):
    """Games are gone that cannot be played again, in the middle of a rollout."""


def turn_layout(block: Environment) -> SlabLayout:
    """How the slab of a block is divided that is stepped."""
    return SlabLayout(RolloutLayout(block.groups[0], 1, finals=True), block.copies, block.state_bytes)


class Turns(Dispatch):
    """The turns of one rollout.

    A block stays with the worker that has it. Where that one is gone, another builds it up again, from its start state
    by the actions so far. Where states cannot be saved, the rollout begins again.
    """

    def __init__(
        self,
        crew: Crew,
        slabs: Sequence[Slab],
        task: Task,
        *,
        shared: bool,
        is_paused: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(crew, slabs, task.iteration, shared=shared, say=say)
        self.places: dict[int, int] = {}  # of the worker that took a block's last turn
        self._holders: dict[int, WorkerCommunicator] = {}
        self._epoch = task.epoch
        self._is_paused = is_paused
        self._saves = False
        self._stands: dict[int, int] = {}  # after how many steps a block stands that somebody has
        self._actions: Int32 = np.zeros((len(slabs), 0, 0), np.int32)  # [blocks, plies, lanes] so far
        self._games_lost = False

    def begin(self) -> None:
        """Every block begins where its slab says; their slabs show what is seen there."""
        self._holders, self._stands = {}, {}
        self._actions = self._actions[:, :0]
        self._saves = self._games_lost = False
        self._take_turn()

    def advance(self, actions: Array) -> None:
        """Play one action per lane; the slabs show what came of it."""
        one = actions.astype(np.int32).reshape(len(self._slabs), 1, -1)
        before = self._actions if self._actions.shape[1] else one[:, :0]
        self._actions = np.concatenate([before, one], axis=1)
        self._take_turn()

    def save(self) -> None:
        """Let the slabs show the states in which the blocks are."""
        self._saves = True
        self._take_turn()

    def _take_turn(self) -> None:
        self.missing = set(range(len(self._slabs)))
        while self.missing:
            if self._crew.spent:
                raise NobodyLeft("no worker is left")
            self.step(give=not self._is_paused() and not self._games_lost)
            if self._games_lost and not any(worker.order for worker in self._crew.workers):
                raise GamesLost(f"games of iteration {self._iteration} are lost")

    def _next(self, worker: WorkerCommunicator) -> Advance | None:
        """What a worker has is stepped first; then it builds up what nobody has."""
        mine = [block for block in sorted(self.missing) if self._holders.get(block) is worker]
        if mine:
            return self._order(mine, self._stands[mine[0]])
        taken = self._free(worker)
        if not taken:
            return None
        self._holders |= dict.fromkeys(taken, worker)
        return self._order(taken, None)

    def _free(self, worker: WorkerCommunicator) -> list[int]:
        """Blocks that nobody has, as many as are a worker's share; without saved states, those that are its own."""
        free = [block for block in sorted(self.missing) if block not in self._holders]
        if not self._slabs[0].start.size:
            return [block for block in free if block % len(self._crew.records) == worker.place]
        ready = sum(one.ready for one in self._crew.workers)
        share = -(-len(self._slabs) // ready) - sum(one is worker for one in self._holders.values())
        return free[: max(0, share)]

    def _order(self, blocks: list[int], stands: int | None) -> Advance:
        """Play on from where the blocks stand; from their beginning where they stand nowhere."""
        begins = stands is None
        for block in blocks:
            self._slabs[block].header[:] = 0  # what is not written anew is not accepted
        return Advance(
            blocks=tuple(blocks),
            iteration=self._iteration,
            ply=stands or 0,
            actions=self._actions[blocks, stands or 0 :],
            begins=begins,
            saves=self._saves,
            epoch=self._epoch,
            starts=() if self._shared or not begins else tuple(self._slabs[block].start.tobytes() for block in blocks),
        )

    def _give_again(self, worker: WorkerCommunicator, order: Order | None) -> None:
        """What a worker has is as good as gone: whoever has it next begins at its start state."""
        gone = [block for block, holder in self._holders.items() if holder is worker]
        for block in gone:
            self._holders.pop(block)
            stood = self._stands.pop(block, None)
            if stood is not None and self._actions.shape[1] and not self._slabs[block].start.size:
                self._games_lost = True

    def _stamp(self, order: Order) -> tuple[int, int, int]:
        assert isinstance(order, Advance)
        return order.iteration, 0, order.ply + order.actions.shape[1]

    def _accept(self, worker: WorkerCommunicator, order: Order, seconds: float) -> None:
        self._stands |= dict.fromkeys(order.blocks, self._stamp(order)[2])
        self.places |= dict.fromkeys(order.blocks, worker.place)
        self._crew.records[worker.place] = self._crew.records[worker.place].busy_for(seconds)
