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

from keisei.environment import UInt8
from keisei.errors import WorkerError
from keisei.parallel.shared_memory import SharedMemory, checksum

_HEADER_BYTES = 64
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
    """Publishes weights into slots of shared memory; a slot is used again when no block of its version is out."""

    def __init__(self, weights: Mapping[str, Tensor], slots: int) -> None:
        self.layout = WeightsLayout(weights)
        self.slots = slots
        self.memory = SharedMemory(slots * self.layout.bytes)
        self.statistics = SyncStatistics()
        self._next = 0

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Write weights into the next slot, and their version last; gives the slot."""
        began = time.perf_counter()
        slot, self._next = self._next, (self._next + 1) % self.slots
        memory = slot_of(self.memory, self.layout, slot)
        header = memory[:_HEADER_BYTES].view(np.uint64)
        header[0] = 0
        for name, target in self.layout.tensors(memory).items():
            target.copy_(weights[name])
        header[1] = checksum(memory[_HEADER_BYTES:])
        header[2] = version
        header[0] = 1  # whole
        self.statistics.count += 1
        self.statistics.bytes += self.layout.bytes
        self.statistics.seconds += time.perf_counter() - began
        return slot

    def close(self) -> None:
        """Give the memory back."""
        self.memory.close()


class WeightsReader:
    """Applies published weights to a network of the same shapes."""

    def __init__(self, network: nn.Module, memory: SharedMemory) -> None:
        self._targets: dict[str, Tensor] = network.state_dict()
        self._layout = WeightsLayout(self._targets)
        self._memory = memory
        self._copy: UInt8 = np.zeros(self._layout.bytes, np.uint8)
        self.version = -1

    def apply(self, slot: int, version: int) -> None:
        """Make the network that version. Raises WorkerError, and changes nothing, where the slot holds another."""
        if version == self.version:
            return
        self._copy[:] = slot_of(self._memory, self._layout, slot)  # what is verified is what is used
        whole, expected, found = (int(number) for number in self._copy[:24].view(np.uint64))
        if not whole or found != version:
            raise WorkerError(f"slot {slot} holds weights version {found if whole else 'none'} instead of {version}")
        if checksum(self._copy[_HEADER_BYTES:]) != expected:
            raise WorkerError(f"the weights of version {version} in slot {slot} have a wrong checksum")
        self.version = -1
        with torch.no_grad():
            for name, tensor in self._layout.tensors(self._copy).items():
                self._targets[name].copy_(tensor)
        self.version = version


def slot_of(memory: SharedMemory, layout: WeightsLayout, slot: int) -> UInt8:
    """The memory of one slot."""
    return memory.bytes[slot * layout.bytes : (slot + 1) * layout.bytes]
