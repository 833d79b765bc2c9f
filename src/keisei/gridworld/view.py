"""What agents see: the window around each, its last frames, and how both are written out for a network.

An observation is packed: one byte per cell, layer and frame (the kind that is there), then one byte per extra (own
position, senses, inventory). `Encoding` describes the planes that a network gets, and writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from keisei.environment import Array, Float32, UInt8
from keisei.errors import ConfigError
from keisei.gridworld.place import Place

if TYPE_CHECKING:
    from keisei.gridworld.world import AnyWorld

_INVENTORY_SCALE = 1 / 16

POSITION, INVENTORY = 1, 2
"""What a place's `feels` says of an agent, added up."""


@dataclass(frozen=True)
class View:
    """What one agent sees of the world."""

    radius: int = 2  # of the window: it is 2·radius + 1 cells high and wide
    frames: int = 1  # this one and those of the decisions before it, the newest last
    position: bool = False  # where it stands, as a share of the map
    inventory: bool = False  # how many items of each kind it took in this episode
    cells: Literal["kinds", "colours"] = "kinds"  # a plane per kind, or red, green and blue of what is on top

    def __post_init__(self) -> None:
        if not 0 <= self.radius <= 127 or not 1 <= self.frames <= 1000:
            raise ConfigError(f"expected radius 0 to 127 and frames 1 to 1000, found {self.radius} and {self.frames}")


@dataclass(frozen=True)
class Encoding:
    """How the observations of one view are laid out, packed and as planes.

    Planes, in order: those of each frame, the oldest first; then one for each extra, the same value in every cell.
    `float32 = uint8 × scale[plane]` is the definition of the other form.
    """

    size: int  # of the window, high and wide
    layers: int
    frames: int
    topmost: bool  # only the topmost kind counts
    table: UInt8  # [kinds, planes per frame] what a kind is worth in each
    names: tuple[str, ...]  # of the planes of one frame, then of the extras
    scale: Float32  # [planes]

    @property
    def frame_planes(self) -> int:
        """How many planes a frame has."""
        return int(self.table.shape[1])

    @property
    def extras(self) -> int:
        """How many numbers follow the windows."""
        return len(self.names) - self.frame_planes

    @property
    def packed_bytes(self) -> int:
        """Bytes of one packed observation."""
        return self.frames * self.layers * self.size**2 + self.extras

    @property
    def planes(self) -> int:
        """How many planes there are."""
        return self.frames * self.frame_planes + self.extras

    @property
    def shape(self) -> tuple[int, int, int]:
        """One observation as planes."""
        return (self.planes, self.size, self.size)

    @property
    def flat(self) -> int:
        """How many numbers there are where each extra is only one."""
        return self.frames * self.frame_planes * self.size**2 + self.extras

    def write_planes(self, packed: Array, out: Array) -> None:
        """`[B, packed_bytes]` → `[B, planes, size, size]`, uint8 or float32."""
        self._write(packed, out.reshape(len(out), -1), (self.size**2, 1), self.size**2)

    def write_last(self, packed: Array, out: Array) -> None:
        """`[B, packed_bytes]` → `[B, size, size, planes]`, uint8 or float32."""
        self._write(packed, out.reshape(len(out), -1), (1, self.planes), self.size**2)

    def write_flat(self, packed: Array, out: Array) -> None:
        """`[B, packed_bytes]` → `[B, flat]`, uint8 or float32: `write_planes`, but each extra once."""
        self._write(packed, out, (self.size**2, 1), 1)

    def _write(self, packed: Array, out: Array, strides: tuple[int, int], extra_cells: int) -> None:
        from keisei.gridworld.compiled import compiled_unpack

        if not out.flags.c_contiguous or out.dtype not in (np.uint8, np.float32):
            raise ValueError(f"expected a contiguous array of uint8 or float32, found {out.dtype}")
        scale = self.scale.astype(out.dtype) if out.dtype == np.float32 else np.ones(self.planes, np.uint8)
        window = (self.frames, self.layers, self.size**2, int(self.topmost))
        compiled_unpack(packed.view(np.uint8), out, self.table, scale, *window, *strides, extra_cells)


def encoding(view: View, world: AnyWorld, height: int, width: int) -> Encoding:
    """How what a view shows of a world is laid out."""
    if view.cells == "colours":
        table = np.array([kind.colour for kind in world.kinds], np.uint8)
        table[0] = 0
        names, scales = ["red", "green", "blue"], [1 / 255] * 3
    else:
        table = np.eye(len(world.kinds), dtype=np.uint8)[:, 1:].copy()
        names = [kind.name for kind in world.kinds[1:]]
        scales = [1.0] * len(names)
    extra_names, extra_scales = _extras(view, world, height, width)
    return Encoding(
        size=2 * view.radius + 1,
        layers=len(world.layers),
        frames=view.frames,
        topmost=view.cells == "colours",
        table=table,
        names=(*names, *extra_names),
        scale=np.array([*(scales * view.frames), *extra_scales], np.float32),
    )


def _extras(view: View, world: AnyWorld, height: int, width: int) -> tuple[list[str], list[float]]:
    names, scales = [], []
    if view.position:
        names += ["row", "column"]
        scales += [1 / max(1, height - 1), 1 / max(1, width - 1)]
    names += [sense.name for sense in world.senses]
    scales += [sense.scale for sense in world.senses]
    if view.inventory:
        items = [kind.name for kind in world.kinds if kind.item]
        names += items
        scales += [_INVENTORY_SCALE] * len(items)
    return names, scales


def views_of(default: View, special: Sequence[tuple[Sequence[int], View]], agents: int) -> tuple[View, ...]:
    """The view of each seat: the default, but for the seats named with others."""
    views = [default] * agents
    for seats, view in special:
        for seat in seats:
            if not 0 <= seat < agents:
                raise ConfigError(f"there is no seat {seat} among {agents} agents")
            views[seat] = view
    return tuple(views)


# --- compiled with a world -------------------------------------------------------------------------------------------


def look(place: Place, agent: int) -> None:
    """Cut the window of an agent, as the newest frame of its ring."""
    radius = place.radius[agent]
    layers, height, width = place.cells.shape
    row, column, size = place.row[agent], place.column[agent], 2 * radius + 1
    slot = place.newest[agent] + 1
    if slot >= place.frames[agent]:
        slot = 0
    place.newest[agent] = slot
    at = place.first_byte[agent] + slot * layers * size * size
    left = column - radius
    start = min(size, max(0, -left))  # the first cell of each line that is on the map, and the first that is not
    end = max(start, min(size, width - left))
    if at < 0 or left + start < 0:  # never; but told so, the compiler needs not ask in every cell
        return
    for layer in range(layers):
        beyond = place.outside[layer]
        for i in range(row - radius, row + radius + 1):
            if 0 <= i < height:
                for j in range(start):
                    place.memory[at + j] = beyond
                for j in range(end - start):
                    place.memory[at + start + j] = place.cells[layer, i, left + start + j]
                for j in range(size - end):
                    place.memory[at + end + j] = beyond
            else:
                for j in range(size):
                    place.memory[at + j] = beyond
            at += size


def show_frames(place: Place, agent: int, out: UInt8, b: int) -> int:
    """Write an agent's frames to row `b`, the oldest first; gives how many bytes that were."""
    layers, size, frames = place.cells.shape[0], 2 * place.radius[agent] + 1, place.frames[agent]
    frame = layers * size * size
    newer = place.first_byte[agent]  # where the newer part of the ring begins, and how long the older one is
    older = newer + (place.newest[agent] + 1) * frame
    length = newer + frames * frame - older
    if newer < 0 or older < 0 or length < 0:  # never; but told so, the compiler copies many bytes at once
        return 0
    for i in range(length):
        out[b, i] = place.memory[older + i]
    for i in range(older - newer):
        out[b, length + i] = place.memory[newer + i]
    return int(frames * frame)


def unpack(
    packed: UInt8,
    out: Array,
    table: UInt8,
    scale: Array,
    frames: int,
    layers: int,
    cells: int,
    topmost: int,
    plane_stride: int,
    cell_stride: int,
    extra_cells: int,
) -> None:
    """Write packed observations out as planes; `out` is `[B, numbers]`, and the strides say where each goes."""
    planes = table.shape[1]
    extras = packed.shape[1] - frames * layers * cells
    windows = frames * planes * plane_stride if cell_stride == 1 else frames * planes
    extra_stride = extra_cells if cell_stride == 1 else 1
    for b in range(packed.shape[0]):
        out[b, :] = 0
        for frame in range(frames):
            for layer in range(layers):
                at = (frame * layers + layer) * cells
                for cell in range(cells):
                    kind = packed[b, at + cell]
                    if kind > 0:
                        base = frame * planes * plane_stride + cell * cell_stride
                        if topmost:
                            for plane in range(planes):
                                n = frame * planes + plane
                                out[b, base + plane * plane_stride] = table[kind, plane] * scale[n]
                        else:
                            out[b, base + (int(kind) - 1) * plane_stride] = 1
        for extra in range(extras):
            value = packed[b, frames * layers * cells + extra] * scale[frames * planes + extra]
            for cell in range(extra_cells):
                out[b, windows + extra * extra_stride + cell * cell_stride] = value
