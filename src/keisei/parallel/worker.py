"""A worker process: plays the blocks it is told to, and nothing else. `python -m keisei.parallel.worker DESCRIPTOR`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection

import numpy as np

import keisei
from keisei.collect.blocks import BlockPlayer
from keisei.errors import WorkerError
from keisei.parallel.messages import Done, Failed, Play, Ready, Setup, Stale
from keisei.parallel.model_sync import WeightsLayout, WeightsReader
from keisei.parallel.shared_memory import SharedMemory, SlabLayout
from keisei.rollout import RolloutLayout

_PR_SET_PDEATHSIG = 1


class SelfPlayWorker:
    """Plays blocks from shared memory into shared memory."""

    def __init__(self, setup: Setup, pipe: Connection) -> None:
        self._setup = setup
        self._pipe = pipe
        self._player = BlockPlayer.of(setup.rules)
        environment = self._player.environment
        rollout = RolloutLayout(environment.groups[0], setup.rules.steps)
        self._layout = SlabLayout(rollout, environment.copies, environment.state_bytes)
        self._slabs = [self._attach_slabs(descriptor) for descriptor in setup.slab_descriptors]
        weights = SharedMemory(setup.weights_bytes, setup.weights_descriptor)
        self._weights = WeightsReader(self._player.policy.network, weights)
        heartbeats = SharedMemory(setup.heartbeat_bytes, setup.heartbeat_descriptor)
        self._heartbeat = heartbeats.bytes.view(np.uint64)[setup.number : setup.number + 1]
        self._step = 0

    def _attach_slabs(self, descriptor: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        memory = SharedMemory(self._setup.blocks * self._setup.slab_bytes, descriptor)
        return memory.bytes.reshape(self._setup.blocks, self._setup.slab_bytes)

    def ready(self) -> Ready:
        """What this worker would use, for the manager to compare."""
        network = self._player.policy.network
        return Ready(keisei.__version__, self._layout.bytes, WeightsLayout(network.state_dict()).bytes)

    def serve(self) -> None:
        """Play what comes until the pipe ends."""
        while True:
            try:
                order = self._pipe.recv()
            except (EOFError, OSError):
                return
            self._pipe.send(self._play(order))

    def _play(self, order: Play) -> Done | Stale | Failed:
        began = time.perf_counter()
        self._step = 0
        try:
            self._weights.apply(order.slot, order.version)
        except WorkerError as error:
            return Stale(order.block, order.iteration, str(error))
        slab = self._layout.slab(self._slabs[order.buffer][order.block])
        try:
            self._player.play(order.block, order.iteration, slab.start, slab.end, slab.rollout, self._beat)
        except Exception:
            return Failed(order.block, order.iteration, self._step, traceback.format_exc())
        slab.seal(self._setup.incarnation, order.iteration, order.version)
        return Done(order.block, order.iteration, time.perf_counter() - began)

    def _beat(self) -> None:
        self._step += 1
        self._heartbeat[0] += 1


def _die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the thread that started this process ends; it may have ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Serve the manager at the other end of the pipe whose descriptor is the first argument."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the learner decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        setup: Setup = pipe.recv()
        worker = SelfPlayWorker(setup, pipe)
        pipe.send(worker.ready())
        worker.serve()


if __name__ == "__main__":
    main()
