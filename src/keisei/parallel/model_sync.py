"""Weights on their way to workers: written once into shared memory, whatever the number of workers, and verified there.

`ModelSynchronizer` publishes; `WeightsReader` applies. A reader plays the version it is told or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xxhash
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from keisei.collect.collector import Compression, as_published
from keisei.environment import UInt8
from keisei.errors import WorkerError
from keisei.parallel.shared_memory import SharedMemory, fingerprint

_HEADER_BYTES = 64
_WHOLE = 16
"""The byte of the header that is written last; before it lie the version and the checksum."""
_ALIGNMENT = 64
_NEAR_BYTES = 1 << 18
"""So many bytes stay near the processor from one look at them to the next."""


@dataclass(frozen=True)
class _Place:
    at: int
    size: int  # in bytes
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class WeightsLayout:
    """Where each tensor of a network lies in a flat slot, in the order of memory that it has in the network."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._places: dict[str, _Place] = {}
        at = _HEADER_BYTES
        for name, tensor in weights.items():
            stride = torch.empty_like(tensor, device="meta").stride()  # without gaps
            size = tensor.numel() * tensor.element_size()
            self._places[name] = _Place(at, size, tuple(tensor.shape), stride, tensor.dtype)
            at += _aligned(size)
        self.bytes = at

    @property
    def fingerprint(self) -> str:
        """The same for the same tensors of the same names, shapes, orders of memory and dtypes."""
        return fingerprint(", ".join(f"{name} {place}" for name, place in self._places.items()))

    def tensors(self, slot: UInt8) -> dict[str, Tensor]:
        """The tensors of a slot, without a copy."""
        return {
            name: torch.from_numpy(slot[place.at : place.at + place.size])
            .view(place.dtype)
            .as_strided(place.shape, place.stride)
            for name, place in self._places.items()
        }

    def pieces(self, least: int) -> list[tuple[list[str], slice]]:
        """Tensors that lie one behind the other, and their bytes: at least so many in each piece but the last.

        Together they are all but the header, in order.
        """
        pieces: list[tuple[list[str], slice]] = []
        names, begin = list[str](), _HEADER_BYTES
        for name, place in self._places.items():
            names.append(name)
            end = place.at + _aligned(place.size)
            if end - begin >= least or end == self.bytes:
                pieces.append((names, slice(begin, end)))
                names, begin = [], end
        return pieces


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Memory:
    """A piece of memory of one's own, laid out as a slot."""

    def __init__(self, layout: WeightsLayout) -> None:
        # It begins where torch's own does: floating point may round as its place allows.
        self.bytes: UInt8 = torch.zeros(layout.bytes, dtype=torch.uint8).numpy()
        self.tensors = layout.tensors(self.bytes)


@dataclass
class SyncStatistics:
    """What publishing has cost."""

    count: int = 0
    bytes: int = 0
    seconds: float = 0.0


class ModelSynchronizer:
    """Publishes weights into slots of shared memory; a slot is used again when no block of its version is out.

    What was published is kept in memory of its own, which no worker can reach. Without slots, nobody reads it.
    """

    def __init__(self, weights: Mapping[str, Tensor], slots: int) -> None:
        self.layout = WeightsLayout(weights)
        self.memory = SharedMemory(max(1, slots * self.layout.bytes))
        self.statistics = SyncStatistics()
        self.version = -1
        self._slots = slots
        self._next = 0
        self._published = _Memory(self.layout)
        self._pieces = self.layout.pieces(_NEAR_BYTES)

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Make these the weights that are published; gives the slot where they lie."""
        began = time.perf_counter()
        slot, places = self._next_slot()
        published, whole = self._published.bytes, xxhash.xxh3_64()
        for names, piece in self._pieces:  # one after the other: what has just been written is near
            for name in names:
                self._published.tensors[name].copy_(weights[name])
            whole.update(published[piece].data)
            for memory in places:
                memory[piece] = published[piece]
        published[:_HEADER_BYTES].view(np.uint64)[:2] = version, whole.intdigest()
        self._seal(places)
        self.version = version
        self.statistics.count += 1
        self.statistics.bytes += self.layout.bytes
        self.statistics.seconds += time.perf_counter() - began
        return slot

    def publish_again(self) -> int:
        """Write what is published into the next slot, if there are any; gives the slot."""
        slot, places = self._next_slot()
        for memory in places:
            memory[_HEADER_BYTES:] = self._published.bytes[_HEADER_BYTES:]
        self._seal(places)
        return slot

    def _next_slot(self) -> tuple[int, Sequence[UInt8]]:
        """A slot that is free, and its memory, which holds nothing until it is sealed; none without slots."""
        if not self._slots:
            return 0, ()
        slot, self._next = self._next, (self._next + 1) % self._slots
        memory = slot_of(self.memory, self.layout, slot)
        memory[:_HEADER_BYTES] = 0
        return slot, (memory,)

    def _seal(self, places: Sequence[UInt8]) -> None:
        """Write the header, and last that the slot is whole."""
        for memory in places:
            memory[:_HEADER_BYTES] = self._published.bytes[:_HEADER_BYTES]
            memory[_WHOLE] = 1

    def published(self) -> dict[str, Tensor]:
        """The weights that are published; valid until others are."""
        return self._published.tensors

    def close(self) -> None:
        """Give the memory back."""
        self.memory.close()


class WeightsReader:
    """Applies published weights to a network of the same shapes, which then has them where they were verified.

    There are two places for them, so that what the network has is left alone until the next weights are verified.
    """

    def __init__(self, network: nn.Module, memory: SharedMemory, compression: Compression = "none") -> None:
        self._network: dict[str, Tensor] = network.state_dict(keep_vars=True)
        self._layout = WeightsLayout(as_published(self._network, compression))
        self._memory = memory
        self._in_use, self._spare = _Memory(self._layout), _Memory(self._layout)
        self._applied = b""  # the header of the weights that the network has

    @property
    def slot_layout(self) -> str:
        """The fingerprint of the slot that it would read."""
        return self._layout.fingerprint

    def apply(self, slot: int, version: int) -> None:
        """Make the network that version. Raises WorkerError, and changes nothing, where the slot holds another."""
        memory = slot_of(self._memory, self._layout, slot)
        header = memory[:_HEADER_BYTES].copy()
        if header.tobytes() == self._applied and _version(header) == version:
            return
        if header[_WHOLE] != 1 or _version(header) != version:
            found = _version(header) if header[_WHOLE] == 1 else "none"
            raise WorkerError(f"slot {slot} holds weights version {found} instead of {version}")
        if _copied(memory[_HEADER_BYTES:], self._spare.bytes[_HEADER_BYTES:]) != int(header.view(np.uint64)[1]):
            raise WorkerError(f"the weights of version {version} in slot {slot} have a wrong checksum")
        for name, tensor in self._spare.tensors.items():
            self._network[name].data = tensor.to(self._network[name].dtype)  # a copy only where it was compressed
        increment_version(self._network.values())  # whoever keeps something made of the weights is to notice
        self._in_use, self._spare = self._spare, self._in_use
        self._applied = header.tobytes()


def _copied(source: UInt8, target: UInt8) -> int:
    """Copy, and give the checksum of what has arrived, part by part while it is near."""
    whole = xxhash.xxh3_64()
    for at in range(0, len(source), _NEAR_BYTES):
        part = slice(at, at + _NEAR_BYTES)
        target[part] = source[part]
        whole.update(target[part].data)
    return whole.intdigest()


def _version(header: bytes | UInt8) -> int:
    return int(np.frombuffer(header, np.uint64, 1)[0])


def slot_of(memory: SharedMemory, layout: WeightsLayout, slot: int) -> UInt8:
    """The memory of one slot."""
    return memory.bytes[slot * layout.bytes : (slot + 1) * layout.bytes]
