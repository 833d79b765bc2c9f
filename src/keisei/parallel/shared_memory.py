"""Anonymous shared memory, and what lies in the slab of a block.

Nothing has a name in the file system, so nothing can be left behind. Each piece has one writer at a time; a header with
a checksum is written last, and what does not fit its header is never used.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from keisei.environment import UInt8
from keisei.rollout import Rollout, RolloutLayout

UInt64 = npt.NDArray[np.uint64]

_HEADER_BYTES = 64
_READ_AND_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
READ_ONLY = mmap.PROT_READ


class SharedMemory:
    """A piece of memory that a child process can be handed by its file descriptor."""

    def __init__(self, size: int, descriptor: int | None = None, *, protection: int = _READ_AND_WRITE) -> None:
        """New memory, or, with a descriptor, memory that another process made; owns the descriptor."""
        self.size = size
        self.descriptor = _new_memory(size) if descriptor is None else descriptor
        try:
            self._map = mmap.mmap(self.descriptor, size, prot=protection)
        except OSError:
            self.close()
            raise
        self.bytes: UInt8 = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        """Give back the descriptor; the memory goes with the last array that shows it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _new_memory(size: int) -> int:
    descriptor = os.memfd_create("keisei", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def checksum(*pieces: UInt8) -> int:
    """One number for the bytes of contiguous pieces; a torn or flipped bit changes it."""
    whole = xxhash.xxh3_64()
    for piece in pieces:
        whole.update(piece.reshape(-1).data)
    return whole.intdigest()


def fingerprint(text: str) -> str:
    """A short name for a description."""
    return xxhash.xxh3_64_hexdigest(text.encode())


@dataclass(frozen=True)
class Stamp:
    """What a slab's header says: who wrote what, when, and how much."""

    incarnation: int
    iteration: int
    version: int
    used: int  # bytes of the rollout's arrays
    checksum: int
    ply: int  # after so many steps; 0 where a block was played from its start to its end


@dataclass(frozen=True)
class SlabLayout:
    """How a block's slab is divided: header, state at the start, state at the end, rollout."""

    rollout: RolloutLayout
    copies: int
    state_bytes: int

    @property
    def _state(self) -> int:
        return -(-self.copies * self.state_bytes // 64) * 64

    @property
    def bytes(self) -> int:
        """Of one slab."""
        return _HEADER_BYTES + 2 * self._state + self.rollout.bytes

    @property
    def fingerprint(self) -> str:
        """The same for the same arrays of the same shapes and dtypes."""
        return fingerprint(f"{self.copies} · {self.state_bytes}, {self.rollout.description}")

    def slab(self, memory: UInt8) -> Slab:
        """One block's slab in its row of memory."""
        size = self.copies * self.state_bytes
        start, end = _HEADER_BYTES, _HEADER_BYTES + self._state
        shape = self.copies, self.state_bytes
        rest = end + self._state
        return Slab(
            header=memory[:_HEADER_BYTES].view(np.uint64),
            start=memory[start : start + size].reshape(shape),
            end=memory[end : end + size].reshape(shape),
            arrays=memory[rest : rest + self.rollout.bytes],
            rollout=self.rollout.rollout(memory[None, rest : rest + self.rollout.bytes]),
        )

    def all_rollouts(self, memory: UInt8) -> Rollout:
        """The rollouts of all slabs `[N, bytes]` as one."""
        rest = _HEADER_BYTES + 2 * self._state
        return self.rollout.rollout(memory[:, rest : rest + self.rollout.bytes])


@dataclass(frozen=True)
class Slab:
    """One block's memory. The manager writes `start`, whoever plays the block all the rest, the header last."""

    header: UInt64
    start: UInt8
    end: UInt8
    arrays: UInt8
    rollout: Rollout

    def seal(self, incarnation: int, iteration: int, version: int, ply: int = 0) -> None:
        """Write the header: what has been written is whole."""
        used = self.rollout.used_bytes
        self.header[4:6] = self._checksum(used), ply
        self.header[:4] = incarnation, iteration, version, used

    def packed(self) -> bytes:
        """All that whoever played the block has written, to be sent."""
        return b"".join(piece.tobytes() for piece in (self.header, self.end, self.arrays[: self.rollout.used_bytes]))

    def unpack(self, packed: bytes) -> None:
        """Write what was sent; where it cannot be, the slab is left without a header that holds."""
        self.header[:] = 0
        start = self.header.nbytes + self.end.size
        found = np.frombuffer(packed, np.uint8)
        used = int(found[24:32].view(np.uint64)[0]) if len(found) >= start else -1
        if used == len(found) - start <= len(self.arrays):
            self.end.reshape(-1)[:] = found[self.header.nbytes : start]
            self.arrays[: len(packed) - start] = found[start:]
            self.header[:] = found[: self.header.nbytes].view(np.uint64)

    def stamp(self) -> Stamp:
        """What the header says, be it true or not."""
        return Stamp(*(int(number) for number in self.header[:6]))

    def complaint(self, incarnation: int, iteration: int, version: int, ply: int = 0) -> str:
        """Why the slab cannot be used; nothing where it can."""
        stamp = self.stamp()
        for name, found, expected in (
            ("incarnation", stamp.incarnation, incarnation),
            ("iteration", stamp.iteration, iteration),
            ("weights version", stamp.version, version),
            ("ply", stamp.ply, ply),
        ):
            if found != expected:
                return f"{name} {found} instead of {expected}"
        if not 0 < stamp.used <= len(self.arrays):
            return f"a length of {stamp.used} bytes in a slab of {len(self.arrays)}"
        return "" if self._checksum(stamp.used) == stamp.checksum else "a wrong checksum"

    def _checksum(self, used: int) -> int:
        return checksum(self.end, self.arrays[:used])
