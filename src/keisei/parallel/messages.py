"""What the manager and a worker say to each other over their line. What is large lies in slabs, not here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from keisei.collect.blocks import BlockRules
from keisei.collect.collector import Compression
from keisei.environment import Int32

Inference = Literal["worker", "learner"]
"""Who acts: each worker for its own block, or the manager's process for all blocks."""


PastPlace = tuple[int, int]
"""The slot and the version of a past self."""


@dataclass(frozen=True)
class Setup:
    """The first thing a worker is told. Descriptors are of shared memory that it inherited."""

    incarnation: int
    number: int  # of its heartbeats
    inference: Inference
    rules: BlockRules
    blocks: int
    slab_descriptors: tuple[int, ...]  # one per buffer, [blocks · slab bytes]; none where rollouts go over the line
    slab_bytes: int
    slab_layout: str  # its fingerprint
    weights_descriptor: int  # of what only those read who act
    weights_bytes: int
    slot_layout: str  # the fingerprint of a version's place
    past_descriptor: int  # of the past selves
    past_bytes: int
    compression: Compression
    heartbeat_descriptor: int
    heartbeat_bytes: int


@dataclass(frozen=True)
class Ready:
    """A worker's answer: the files of the package that it runs, and the layouts that it would use."""

    code: Mapping[str, str]  # hashes
    slab_layout: str
    slot_layout: str


@dataclass(frozen=True)
class Refused:
    """A worker could not be set up."""

    traceback: str


@dataclass(frozen=True)
class Play:
    """Play a block's share of a rollout with a version of the weights."""

    block: int
    iteration: int
    version: int
    slot: int  # of the weights
    buffer: int  # of the slabs
    past: tuple[PastPlace, ...] = ()  # the past selves, the oldest first
    epoch: int = 0  # environments that cannot save their states begin anew with each
    start: bytes = b""  # the block's state, where slabs are not shared
    number: int = 0  # among the orders of its worker

    @property
    def blocks(self) -> tuple[int, ...]:
        """The block."""
        return (self.block,)


@dataclass(frozen=True)
class Advance:
    """Step some blocks by the actions given; their slabs get what came of the last of them, and what is seen then."""

    blocks: tuple[int, ...]
    iteration: int
    ply: int  # so many steps lie behind the blocks
    actions: Int32  # [blocks, plies, lanes of a block]
    begins: bool  # at their start states; else they play on from where they stand
    saves: bool  # the states in which they end
    epoch: int  # environments that cannot save their states begin anew with each
    starts: tuple[bytes, ...] = ()  # the start states, where slabs are not shared
    number: int = 0  # among the orders of its worker


@dataclass(frozen=True)
class Done:
    """An order has been carried out; the slabs of its blocks are sealed."""

    number: int  # of the order
    seconds: float
    slabs: tuple[bytes, ...] = ()  # what is in them, where slabs are not shared


@dataclass(frozen=True)
class Stale:
    """The weights could not be verified; nothing was played."""

    number: int
    reason: str


@dataclass(frozen=True)
class Failed:
    """Playing a block raised."""

    number: int
    block: int
    step: int
    traceback: str


Order = Play | Advance
Answer = Done | Stale | Failed
