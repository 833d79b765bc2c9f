"""A network's input, made on the device from what the environment packs. Equal to the CPU's forms, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from keisei.environment import Float32, Int64

MakeInput = Callable[[Tensor], Tensor]
"""From observations `[B, …]` on the device, as the environment writes them, to the network's input there."""


@dataclass(frozen=True)
class PlaneTable:
    """How packed observations are written out as planes; what it says of a game is data.

    The first `cells` bytes hold numbers: `n > 0` is a one in plane `n - 1`. Each plane after these `codes` holds one
    count throughout: `min(most, multiplied · ((low & mask) + 256 · high) // divided)`, times its scale.
    """

    height: int
    width: int
    codes: int
    low: Int64  # [F] which byte
    high: Int64  # [F] which byte, or -1
    mask: Int64  # [F] of the low byte; what is left counts as 0 or 1 unless it is 255
    multiplied: Int64  # [F]
    divided: Int64  # [F]
    most: Int64  # [F]
    scale: Float32  # [F]

    @property
    def planes(self) -> int:
        """How many there are."""
        return self.codes + len(self.low)


class DevicePlanes:
    """Writes planes `[B, planes, height, width]`, channels last, float32."""

    def __init__(self, table: PlaneTable, device: torch.device) -> None:
        self._table = table
        self._codes = torch.arange(1, table.codes + 1, dtype=torch.uint8, device=device)
        self._low = torch.from_numpy(table.low).to(device)
        self._high = torch.from_numpy(table.high.clip(min=0)).to(device)
        self._has_high = torch.from_numpy((table.high >= 0).astype("int32")).to(device)
        whole = table.mask == 255
        self._mask = torch.from_numpy(table.mask.astype("int32")).to(device)
        self._most_low = torch.from_numpy(whole * 255 + ~whole * 1).to(device, torch.int32)
        self._multiplied = torch.from_numpy(table.multiplied.astype("int32")).to(device)
        self._divided = torch.from_numpy(table.divided.astype("int32")).to(device)
        self._most = torch.from_numpy(table.most.astype("int32")).to(device)
        self._scale = torch.from_numpy(table.scale).to(device)

    def __call__(self, seen: Tensor) -> Tensor:
        """Packed `[B, bytes]` uint8 → planes."""
        table, cells = self._table, self._table.height * self._table.width
        pieces = (seen[:, :cells, None] == self._codes).float()
        full = self._counts(seen).float() * self._scale
        planes = torch.cat([pieces, full[:, None].expand(-1, cells, -1)], 2)
        return planes.view(len(seen), table.height, table.width, table.planes).permute(0, 3, 1, 2)

    def _counts(self, seen: Tensor) -> Tensor:
        """What the full planes count, `[B, F]` int32."""
        low = (seen[:, self._low].int() & self._mask).minimum(self._most_low)
        high = seen[:, self._high].int() * self._has_high
        counted = (low + 256 * high) * self._multiplied
        return torch.div(counted, self._divided, rounding_mode="floor").minimum(self._most)


def numbers(seen: Tensor) -> Tensor:
    """Observations that are the numbers that a network gets."""
    return seen.float()
