"""The functions that run many worlds of one kind: compiled, or plain Python where a breakpoint works."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from keisei.environment import UInt8
from keisei.gridworld import chance, compiled, kernel, moves, rules, view
from keisei.gridworld import world as worlds
from keisei.gridworld.place import SEQUENTIAL, SIMULTANEOUS, dtype_of
from keisei.gridworld.view import INVENTORY, POSITION, View
from keisei.gridworld.world import AnyWorld, WorldFile

Structured = np.ndarray[tuple[int], np.dtype[np.void]]


@dataclass(frozen=True)
class Functions:
    """What runs worlds; each function gives the number of the world that is at fault, or -1."""

    check: Callable[..., int]  # gives a lane
    play: Callable[..., int]
    show: Callable[..., int]
    permit: Callable[..., int]


def functions(file: WorldFile, blank: Structured, *, debug: bool) -> Functions:
    """The functions for worlds that lie in memory as `blank` does."""
    made = _make(file.world, _as_it_is if debug else compiled.register)
    if debug:
        return made
    for module in (chance, rules, view, kernel, worlds):
        compiled.register_all(module, guarded=False)
    for module in (moves, sys.modules[file.world.act.__module__]):
        compiled.register_all(module, guarded=True)
    entries = compiled.compiled(file.name, file.digest, vars(made), _examples(blank, len(file.world.actions)))
    return Functions(**entries)  # type: ignore[arg-type]


def _as_it_is(function: kernel.F) -> kernel.F:
    return function


def _make(world: AnyWorld, register: kernel.Register) -> Functions:
    return Functions(
        check=kernel.make_check(world, register),
        play=kernel.make_play(world, register),
        show=kernel.make_show(world, register),
        permit=kernel.make_permit(world, register),
    )


def _examples(blank: Structured, actions: int) -> dict[str, list[tuple[object, ...]]]:
    """Arguments of the types that the engine calls the functions with."""
    agents = blank["row"].shape[1]
    numbers, byte, mask = np.zeros(1, np.int64), np.zeros(1, np.uint8), np.zeros(1, np.bool_)
    chosen, rows = np.zeros((1, agents), np.int64), np.zeros((1, 1), np.uint8)
    out = outcome_arrays(1, agents)
    memory = memory_of(cast(kernel.Places, blank), blank, blank, blank)
    return {
        "check": [(blank, chosen, byte, numbers)],
        "play": [(memory, chosen, byte, out, 0, 1, numbers)],
        "show": [(blank, numbers, rows, mask, 0, 1, numbers)],
        "permit": [(blank, numbers, np.zeros((1, actions), np.uint8), np.zeros(1, np.int8), 0, 1, numbers)],
    }


def memory_of(worlds: kernel.Places, now: Structured, last: Structured, blank: Structured) -> kernel.Memory:
    """What the functions copy and change."""
    return kernel.Memory(worlds, _bytes(now), _bytes(last), _bytes(blank)[0])


def _bytes(places: Structured) -> UInt8:
    return places.view(np.uint8).reshape(len(places), -1)


def outcome_arrays(copies: int, agents: int) -> kernel.Outcome:
    """Arrays for the outcome of a step."""
    shape = (copies, agents)
    return kernel.Outcome(
        reward=np.zeros(shape, np.float32),
        discount=np.zeros(shape, np.float32),
        ended=np.zeros(shape, np.bool_),
        cut_off=np.zeros(shape, np.bool_),
        reason=np.zeros(shape, np.uint8),
        length=np.zeros(shape, np.int32),
    )


def blank_place(world: AnyWorld, numbers: Mapping[str, float], views: Sequence[View], sequential: bool) -> Structured:
    """One world before anything is in it: what its configuration and its views say, in the memory that it takes."""
    rings = [view.frames * len(world.layers) * (2 * view.radius + 1) ** 2 for view in views]
    dtype = dtype_of(world.place, numbers, layers=len(world.layers), kinds=len(world.kinds), memory=sum(rings))
    blank = np.zeros(1, dtype)
    place = blank[0]
    names = [kind.name for kind in world.kinds]
    outside = names.index(world.outside)
    for name, value in numbers.items():
        place[name] = value
    place["turns"], place["seat"], place["who"] = SEQUENTIAL if sequential else SIMULTANEOUS, -1, -1
    place["layer"] = world.layers.index(world.stand_in)
    place["blocks"] = [kind.blocks for kind in world.kinds]
    place["items"] = [kind.item for kind in world.kinds]
    place["looks"] = names.index(world.agent)
    place["outside"][world.layers.index(world.kinds[outside].layer)] = outside
    place["radius"] = [view.radius for view in views]
    place["frames"] = [view.frames for view in views]
    place["newest"] = [view.frames - 1 for view in views]
    place["feels"] = [POSITION * view.position + INVENTORY * view.inventory for view in views]
    place["first_byte"] = np.cumsum([0, *rings[:-1]])
    return blank
