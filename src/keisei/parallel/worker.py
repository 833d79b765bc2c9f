"""A worker process: plays the blocks it is told to, and nothing else. Where it begins is said in `entry.py`."""

from __future__ import annotations

import contextlib
import time
import traceback

import numpy as np

from keisei.collect.blocks import BlockPlayer
from keisei.environment import UInt8
from keisei.errors import WorkerError
from keisei.parallel.code import loaded_files
from keisei.parallel.line import WorkerLine
from keisei.parallel.messages import Done, Failed, Play, Ready, Refused, Setup, Stale
from keisei.parallel.model_sync import WeightsReader
from keisei.parallel.shared_memory import READ_ONLY, SharedMemory, Slab, SlabLayout

HEARTBEATS = 8
"""Numbers of a worker's heartbeat: how often it has beaten, and the step of the block at which it is."""


class SelfPlayWorker:
    """Plays blocks from slabs into slabs."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._player = BlockPlayer(setup.rules)
        environment = self._player.environment
        rollout = setup.rules.layout(environment)
        self._layout = SlabLayout(rollout, environment.copies, environment.state_bytes)
        shared = [self._attach(descriptor) for descriptor in setup.slab_descriptors]
        self._slabs = shared or [np.zeros((1, self._layout.bytes), np.uint8)]
        weights = SharedMemory(setup.weights_bytes, setup.weights_descriptor, protection=READ_ONLY)
        self._weights = WeightsReader(self._player.policy.network, weights, setup.compression)
        heartbeats = SharedMemory(setup.heartbeat_bytes, setup.heartbeat_descriptor)
        self._heartbeat = heartbeats.bytes.view(np.uint64).reshape(-1, HEARTBEATS)[setup.number]
        self._epoch = 0

    def _attach(self, descriptor: int) -> UInt8:
        memory = SharedMemory(self._setup.blocks * self._setup.slab_bytes, descriptor)
        return memory.bytes.reshape(self._setup.blocks, self._setup.slab_bytes)

    def ready(self) -> Ready:
        """What this worker would use, for the manager to compare."""
        return Ready(loaded_files(), self._layout.bytes, self._weights.slot_bytes)

    def play(self, order: Play) -> Done | Stale | Failed:
        """Play a block into its slab, whose header is written last."""
        began = time.perf_counter()
        self._heartbeat[1] = 0
        try:
            self._weights.apply(order.slot, order.version)
        except WorkerError as error:
            return Stale(order.block, order.iteration, str(error))
        slab = self._slab(order)
        try:
            self._player.play(order.block, order.iteration, slab.start, slab.end, slab.rollout, self._beat)
        except BaseException:  # also an environment's own sys.exit()
            return Failed(order.block, order.iteration, int(self._heartbeat[1]), traceback.format_exc())
        slab.seal(self._setup.incarnation, order.iteration, order.version)
        sent = b"" if self._setup.slab_descriptors else slab.packed()
        return Done(order.block, order.iteration, time.perf_counter() - began, sent)

    def _slab(self, order: Play) -> Slab:
        if order.epoch != self._epoch:
            self._epoch = order.epoch
            self._player.forget()
        if self._setup.slab_descriptors:
            return self._layout.slab(self._slabs[order.buffer][order.block])
        slab = self._layout.slab(self._slabs[0][0])
        slab.start.reshape(-1)[:] = np.frombuffer(order.start, np.uint8)
        return slab

    def _beat(self) -> None:
        self._heartbeat[1] += 1
        self._heartbeat[0] += 1


def serve(line: WorkerLine) -> None:
    """Play what a manager orders until the line ends."""
    with contextlib.suppress(EOFError, OSError):
        worker = _set_up(line)
        while worker is not None:
            order = line.receive()
            assert isinstance(order, Play)
            line.send(worker.play(order))


def _set_up(line: WorkerLine) -> SelfPlayWorker | None:
    try:
        setup = line.receive()
        assert isinstance(setup, Setup)
        worker = SelfPlayWorker(setup)
        line.send(worker.ready())
    except EOFError:
        return None
    except BaseException:  # whatever it is, it goes home
        line.send(Refused(traceback.format_exc()))
        return None
    return worker
