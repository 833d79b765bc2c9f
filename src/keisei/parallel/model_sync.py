"""Weights on their way to workers: written once into shared memory, whatever the number of workers, and verified there.

`ModelSynchronizer` publishes; `WeightsReader` applies. A reader plays the version it is told or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from keisei.collect.collector import Compression, as_published
from keisei.environment import UInt8
from keisei.errors import WorkerError
from keisei.parallel.shared_memory import SharedMemory, checksum

_HEADER_BYTES = 64
_WHOLE = 16
"""The byte of the header that is written last; before it lie the version and the checksum."""
_ALIGNMENT = 64


@dataclass(frozen=True)
class _Place:
    at: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class WeightsLayout:
    """Where each tensor of a network lies in a flat slot."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._places: dict[str, _Place] = {}
        at = _HEADER_BYTES
        for name, tensor in weights.items():
            self._places[name] = _Place(at, tuple(tensor.shape), tensor.dtype)
            at += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
        self.bytes = at

    def tensors(self, slot: UInt8) -> dict[str, Tensor]:
        """The tensors of a slot, without a copy."""
        found = {}
        for name, place in self._places.items():
            size = prod(place.shape) * torch.empty((), dtype=place.dtype).element_size()
            flat = torch.from_numpy(slot[place.at : place.at + size])
            found[name] = flat.view(place.dtype).view(place.shape)
        return found


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
        self._published: UInt8 = np.zeros(self.layout.bytes, np.uint8)

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Make these the weights that are published; gives the slot where they lie."""
        began = time.perf_counter()
        for name, target in self.layout.tensors(self._published).items():
            target.copy_(weights[name])
        self._published[:_HEADER_BYTES].view(np.uint64)[:2] = version, checksum(self._published[_HEADER_BYTES:])
        self.version = version
        slot = self.publish_again()
        self.statistics.count += 1
        self.statistics.bytes += self.layout.bytes
        self.statistics.seconds += time.perf_counter() - began
        return slot

    def publish_again(self) -> int:
        """Write what is published into the next slot, if there are any, and its header last; gives the slot."""
        if not self._slots:
            return 0
        slot, self._next = self._next, (self._next + 1) % self._slots
        memory = slot_of(self.memory, self.layout, slot)
        memory[:_HEADER_BYTES] = 0
        memory[_HEADER_BYTES:] = self._published[_HEADER_BYTES:]
        memory[:_HEADER_BYTES] = self._published[:_HEADER_BYTES]
        memory[_WHOLE] = 1
        return slot

    def published(self) -> dict[str, Tensor]:
        """The weights that are published; valid until others are."""
        return self.layout.tensors(self._published)

    def close(self) -> None:
        """Give the memory back."""
        self.memory.close()


class WeightsReader:
    """Applies published weights to a network of the same shapes."""

    def __init__(self, network: nn.Module, memory: SharedMemory, compression: Compression = "none") -> None:
        self._targets: dict[str, Tensor] = network.state_dict()
        self._layout = WeightsLayout(as_published(self._targets, compression))
        self._memory = memory
        self._copy: UInt8 = np.zeros(self._layout.bytes, np.uint8)
        self._applied = b""  # the header of the weights that the network has

    @property
    def slot_bytes(self) -> int:
        """Of the slot that it would read."""
        return self._layout.bytes

    def apply(self, slot: int, version: int) -> None:
        """Make the network that version. Raises WorkerError, and changes nothing, where the slot holds another."""
        memory = slot_of(self._memory, self._layout, slot)
        if memory[:_HEADER_BYTES].tobytes() == self._applied and _version(self._applied) == version:
            return
        self._copy[:] = memory  # what is verified is what is used
        header = self._copy[:_HEADER_BYTES]
        if header[_WHOLE] != 1 or _version(header) != version:
            found = _version(header) if header[_WHOLE] == 1 else "none"
            raise WorkerError(f"slot {slot} holds weights version {found} instead of {version}")
        if checksum(self._copy[_HEADER_BYTES:]) != int(header.view(np.uint64)[1]):
            raise WorkerError(f"the weights of version {version} in slot {slot} have a wrong checksum")
        self._applied = b""
        with torch.no_grad():
            for name, tensor in self._layout.tensors(self._copy).items():
                self._targets[name].copy_(tensor)
        self._applied = header.tobytes()


def _version(header: bytes | UInt8) -> int:
    return int(np.frombuffer(header, np.uint64, 1)[0])


def slot_of(memory: SharedMemory, layout: WeightsLayout, slot: int) -> UInt8:
    """The memory of one slot."""
    return memory.bytes[slot * layout.bytes : (slot + 1) * layout.bytes]
