"""The memory in which all blocks are played, and their states between two rollouts. Only the manager has one."""

from __future__ import annotations

import numpy as np

from keisei.collect.blocks import BlockPlayer
from keisei.parallel.shared_memory import SharedMemory, SlabLayout
from keisei.rollout import Rollout, RolloutLayout


class Slabs:
    """The memory of all blocks, once for each rollout that stays valid, and the states in between."""

    def __init__(self, player: BlockPlayer, layout: RolloutLayout, *, blocks: int, buffers: int, shared: bool) -> None:
        environment = player.environment
        self.layout = SlabLayout(layout, environment.copies, environment.state_bytes)
        size = blocks * self.layout.bytes
        self._shared = [SharedMemory(size) for _ in range(buffers)] if shared else []
        flat = [memory.bytes for memory in self._shared] or [np.zeros(size, np.uint8) for _ in range(buffers)]
        rows = [memory.reshape(blocks, self.layout.bytes) for memory in flat]
        self.slabs = [[self.layout.slab(row) for row in memory] for memory in rows]
        self.states = np.stack([player.first_state(block) for block in range(blocks)])
        self._rollouts = [self.layout.all_rollouts(memory) for memory in rows]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Of what is shared."""
        return tuple(memory.descriptor for memory in self._shared)

    def reset(self, player: BlockPlayer) -> None:
        """All blocks as they begin."""
        for block, state in enumerate(self.states):
            state[:] = player.first_state(block)

    def begin(self, buffer: int) -> None:
        """Lay out the states from which blocks are played on."""
        for slab, state in zip(self.slabs[buffer], self.states, strict=True):
            slab.start[:] = state

    def commit(self, buffer: int) -> Rollout:
        """All blocks are played: keep where they have come to."""
        for slab, state in zip(self.slabs[buffer], self.states, strict=True):
            state[:] = slab.end
        return self._rollouts[buffer].as_played()

    def close(self) -> None:
        """Give the memory back."""
        for memory in self._shared:
            memory.close()
