"""What the manager and a worker say to each other over their pipe. All of it is small; what is large lies in slabs."""

from __future__ import annotations

from dataclasses import dataclass

from keisei.collect.blocks import BlockRules


@dataclass(frozen=True)
class Setup:
    """The first thing a worker is told. Descriptors are of shared memory that it inherited."""

    incarnation: int
    number: int
    code: str  # the version of the package: a worker of another one must not play
    rules: BlockRules
    blocks: int
    slab_descriptors: tuple[int, ...]  # one per buffer, [blocks · slab bytes]
    slab_bytes: int
    weights_descriptor: int
    weights_bytes: int
    slot_bytes: int
    heartbeat_descriptor: int
    heartbeat_bytes: int


@dataclass(frozen=True)
class Ready:
    """A worker's answer: its code, and the sizes that it would use."""

    code: str
    slab_bytes: int
    slot_bytes: int


@dataclass(frozen=True)
class Play:
    """Play a block's share of a rollout with a version of the weights."""

    block: int
    iteration: int
    version: int
    slot: int  # of the weights
    buffer: int  # of the slabs


@dataclass(frozen=True)
class Done:
    """A block has been played; its slab is sealed."""

    block: int
    iteration: int
    seconds: float


@dataclass(frozen=True)
class Stale:
    """The weights could not be verified; nothing was played."""

    block: int
    iteration: int
    reason: str


@dataclass(frozen=True)
class Failed:
    """Playing a block raised."""

    block: int
    iteration: int
    step: int
    traceback: str
