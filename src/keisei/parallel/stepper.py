"""A worker that steps the environments of blocks by the actions that it is given."""

from __future__ import annotations

import time
import traceback

from keisei.collect.blocks import check_rollout, where
from keisei.collect.loop import step_at, tell
from keisei.environment import NO_SEAT, Array, Environment
from keisei.parallel.code import loaded_files
from keisei.parallel.messages import Advance, Done, Failed, Order, Ready, Setup
from keisei.parallel.shared_memory import Slab
from keisei.parallel.slabs import WorkerMemory
from keisei.parallel.turns import turn_layout
from keisei.rollout import Rollout


class SteppingWorker:
    """Steps blocks; it has no network, and decides nothing."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._first = setup.rules.build_environment(0)
        self._memory = WorkerMemory(setup, turn_layout(self._first))
        self._kept: dict[int, Environment] = {}
        self._epoch = 0

    def ready(self) -> Ready:
        """What this worker would use, for the manager to compare."""
        return Ready(loaded_files(), self._memory.layout.fingerprint, self._setup.slot_layout)

    def carry_out(self, order: Order) -> Done | Failed:
        """Step blocks, one after the other; each one's slab is sealed when it is whole."""
        assert isinstance(order, Advance)
        began = time.perf_counter()
        if order.epoch != self._epoch:
            self._epoch = order.epoch
            for block in tuple(self._kept):
                self._forget(block)
        sent: tuple[bytes, ...] = ()
        for place, block in enumerate(order.blocks):
            self._memory.begin(place, order.ply)
            try:
                sent += self._memory.sent(self._advance(order, place))
            except BaseException as error:  # also an environment's own sys.exit()
                self._forget(block)  # nobody knows where it stands
                error.add_note(where(block, order.iteration, self._setup.rules.seed, self._memory.step))
                return Failed(order.number, block, self._memory.step, traceback.format_exc())
        return Done(order.number, time.perf_counter() - began, sent)

    def _advance(self, order: Advance, place: int) -> Slab:
        block, actions = order.blocks[place], order.actions[place]
        slab = self._memory.slab(block, 0, order.starts[place] if order.starts else b"")
        environment = self._at(block, slab, order.begins)
        for one in actions:
            self._memory.beat()
            _take_turn(environment, one, slab.rollout)
        if not len(actions):
            _look(environment, slab.rollout)
        if order.saves and slab.end.size:
            environment.save_state(slab.end)
        slab.seal(self._setup.incarnation, order.iteration, 0, order.ply + len(actions))
        return slab

    def _at(self, block: int, slab: Slab, begins: bool) -> Environment:
        if block not in self._kept:
            self._kept[block] = self._setup.rules.build_environment(block * self._first.lanes)
        if begins and slab.start.size:
            self._kept[block].load_state(slab.start)
        return self._kept[block]

    def _forget(self, block: int) -> None:
        if block in self._kept:
            self._kept.pop(block).close()


def _take_turn(environment: Environment, actions: Array, turn: Rollout) -> None:
    """Play one action per lane; what must not be handed out raises ContractError."""
    _clear(turn)
    environment.step((actions,), step_at(turn, 0, turn.final_observation[0, 0]), (turn.observation_at(1),))
    tell(environment, turn, 0)
    check_rollout(turn, environment)


def _look(environment: Environment, turn: Rollout) -> None:
    """Write what is seen now, as a turn in which nothing was played."""
    _clear(turn)
    environment.observe((turn.observation_at(1),))
    check_rollout(turn, environment)


def _clear(turn: Rollout) -> None:
    """What was seen before the turn is not told again."""
    turn.leave_out(0)
    turn.figures[:] = 0
    turn.seat[0, 0] = NO_SEAT
