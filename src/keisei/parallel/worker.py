"""Worker processes: play blocks, or step them, as they are told. Where one begins is said in `entry.py`."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable
from typing import Protocol

from keisei.collect.blocks import BlockPlayer
from keisei.errors import WorkerError
from keisei.parallel.code import loaded_files
from keisei.parallel.line import WorkerLine
from keisei.parallel.messages import Answer, Done, Failed, Inference, Order, Play, Ready, Refused, Setup, Stale
from keisei.parallel.model_sync import WeightsReader
from keisei.parallel.past import PastReader
from keisei.parallel.shared_memory import READ_ONLY, SharedMemory, SlabLayout
from keisei.parallel.slabs import WorkerMemory
from keisei.parallel.stepper import SteppingWorker


class Worker(Protocol):
    """Carries out orders."""

    def ready(self) -> Ready:
        """What this worker would use, for the manager to compare."""

    def carry_out(self, order: Order) -> Answer:
        """Do what an order says; the slabs' headers are written last."""


class SelfPlayWorker:
    """Plays blocks from slabs into slabs."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._past = PastReader(setup, setup.rules.build_policy) if setup.rules.past.depth else None
        self._player = BlockPlayer(setup.rules, () if self._past is None else self._past)
        environment = self._player.environment
        layout = SlabLayout(setup.rules.layout(environment), environment.copies, environment.state_bytes)
        self._memory = WorkerMemory(setup, layout)
        weights = SharedMemory(setup.weights_bytes, setup.weights_descriptor, protection=READ_ONLY)
        self._weights = WeightsReader(self._player.policy.network, weights, setup.compression)
        self._epoch = 0

    def ready(self) -> Ready:
        """What this worker would use, for the manager to compare."""
        return Ready(loaded_files(), self._memory.layout.fingerprint, self._weights.slot_layout)

    def carry_out(self, order: Order) -> Done | Stale | Failed:
        """Play a block into its slab."""
        assert isinstance(order, Play)
        began = time.perf_counter()
        try:
            self._weights.apply(order.slot, order.version)
            if self._past is not None:
                self._past.places = order.past
                self._player.choose_frozen(order.block, order.iteration)  # reads the weights of whom it names
        except WorkerError as error:
            return Stale(order.number, str(error))
        if order.epoch != self._epoch:
            self._epoch = order.epoch
            self._player.forget()
        memory = self._memory
        slab = memory.slab(order.block, order.buffer, order.start)
        memory.begin(0, 0)
        try:
            self._player.play(order.block, order.iteration, slab.start, slab.end, slab.rollout, memory.beat)
        except BaseException:  # also an environment's own sys.exit()
            return Failed(order.number, order.block, memory.step, traceback.format_exc())
        slab.seal(self._setup.incarnation, order.iteration, order.version)
        return Done(order.number, time.perf_counter() - began, memory.sent(slab))


_WORKERS: dict[Inference, Callable[[Setup], Worker]] = {"worker": SelfPlayWorker, "learner": SteppingWorker}


def serve(line: WorkerLine) -> None:
    """Do what a manager orders until the line ends."""
    with contextlib.suppress(EOFError, OSError):
        worker = _set_up(line)
        while worker is not None:
            order = line.receive()
            assert isinstance(order, Order)
            line.send(worker.carry_out(order))


def _set_up(line: WorkerLine) -> Worker | None:
    try:
        setup = line.receive()
        assert isinstance(setup, Setup)
        worker = _WORKERS[setup.inference](setup)
        line.send(worker.ready())
    except EOFError:
        return None
    except BaseException:  # whatever it is, it goes home
        line.send(Refused(traceback.format_exc()))
        return None
    return worker
