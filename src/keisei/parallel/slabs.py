"""The memory in which blocks are played: the manager's side, which owns it, and a worker's, which is handed it."""

from __future__ import annotations

import numpy as np

from keisei.environment import UInt8
from keisei.parallel.messages import Setup
from keisei.parallel.shared_memory import SharedMemory, Slab, SlabLayout
from keisei.rollout import Rollout

HEARTBEATS = 8
"""Numbers of a worker's heartbeat: how often it has beaten, the step at which it is, and of which of its blocks."""


class Slabs:
    """The memory of all blocks, once for each buffer."""

    def __init__(self, layout: SlabLayout, *, blocks: int, buffers: int, shared: bool) -> None:
        self.layout = layout
        size = blocks * layout.bytes
        self._shared = [SharedMemory(size) for _ in range(buffers)] if shared else []
        flat = [memory.bytes for memory in self._shared] or [np.zeros(size, np.uint8) for _ in range(buffers)]
        self._rows = [memory.reshape(blocks, layout.bytes) for memory in flat]
        self.of_buffer = [[layout.slab(row) for row in memory] for memory in self._rows]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Of what is shared."""
        return tuple(memory.descriptor for memory in self._shared)

    def rollouts(self) -> list[Rollout]:
        """For each buffer, what lies in it as one rollout."""
        return [self.layout.all_rollouts(memory) for memory in self._rows]

    def close(self) -> None:
        """Give the memory back."""
        for memory in self._shared:
            memory.close()


class WorkerMemory:
    """What a worker shares with its manager: slabs, or one of its own where they go over the line, and a heartbeat."""

    def __init__(self, setup: Setup, layout: SlabLayout) -> None:
        self.layout = layout
        shape = setup.blocks, setup.slab_bytes
        shared = [SharedMemory(shape[0] * shape[1], one).bytes.reshape(shape) for one in setup.slab_descriptors]
        self._is_shared = bool(shared)
        self._memory: list[UInt8] = shared or [np.zeros((1, layout.bytes), np.uint8)]
        self._slabs: dict[tuple[int, int], Slab] = {}  # those that were asked for: views take a while to make
        heartbeats = SharedMemory(setup.heartbeat_bytes, setup.heartbeat_descriptor)
        self._heartbeat = heartbeats.bytes.view(np.uint64).reshape(-1, HEARTBEATS)[setup.number]

    def slab(self, block: int, buffer: int, start: bytes) -> Slab:
        """A block's slab, valid until the next one is asked for; `start` is its state where slabs are not shared."""
        at = (buffer, block) if self._is_shared else (0, 0)
        if at not in self._slabs:
            self._slabs[at] = self.layout.slab(self._memory[at[0]][at[1]])
        slab = self._slabs[at]
        if start:
            slab.start.reshape(-1)[:] = np.frombuffer(start, np.uint8)
        return slab

    def sent(self, slab: Slab) -> tuple[bytes, ...]:
        """What goes over the line of what has been written: all of it, or nothing."""
        return () if self._is_shared else (slab.packed(),)

    def begin(self, place: int, step: int) -> None:
        """Say at which of an order's blocks this worker is, and at which step."""
        self._heartbeat[1:3] = step, place
        self._heartbeat[0] += 1

    def beat(self) -> None:
        """Say that one more step begins."""
        self._heartbeat[1] += 1
        self._heartbeat[0] += 1

    @property
    def step(self) -> int:
        """The step at which this worker says it is."""
        return int(self._heartbeat[1])
