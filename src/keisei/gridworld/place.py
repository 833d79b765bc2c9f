"""What a world's functions get in hand: its `Place`, one record of plain numbers and arrays, and how to declare more.

A subclass of `Place` declares what a world holds besides: `number` for what its configuration sets, `variable` and
`array` for what changes. All of it lies in one flat piece of memory per world, which is the world's state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from keisei.environment import Float64, Int32, UInt8
from keisei.errors import WorldError

Int16 = npt.NDArray[np.int16]
UInt32 = npt.NDArray[np.uint32]

FINISHED = -1
"""The status of an agent whose episode is over while the world goes on."""

SIMULTANEOUS, SEQUENTIAL = 0, 1

_N = TypeVar("_N", int, float)
_D = TypeVar("_D", bound=np.generic)


@dataclass(frozen=True)
class Number:
    """A number that a world's configuration sets."""

    default: float
    meaning: str
    least: float
    most: float


@dataclass(frozen=True)
class Variable:
    """Something that changes in the course of an episode; 0 at its start."""

    dtype: np.dtype[np.generic]
    shape: tuple[str | int, ...]  # a text is the name of a whole number


def number(default: _N, meaning: str, *, least: float = -math.inf, most: float = math.inf) -> _N:
    """Declare a number of the configuration, whole where its default is."""
    return cast(_N, Number(default, meaning, least, most))


def probability(default: float, meaning: str) -> float:
    """Declare a probability."""
    return number(default, meaning, least=0.0, most=1.0)


def variable(kind: type[_N]) -> _N:
    """Declare a number that changes: `variable(int)` or `variable(float)`."""
    return cast(_N, Variable(np.dtype(kind), ()))


def array(dtype: type[_D], *shape: str | int) -> npt.NDArray[_D]:
    """Declare an array that changes: `array(np.int32, "agents", 4)`."""
    return cast(npt.NDArray[_D], Variable(np.dtype(dtype), shape))


class Place:
    """One world as it stands. Cells are `[layer, row, column]`, directions 0..3 are up, right, down, left."""

    # what the configuration sets in every world; a world has its own defaults
    height: int = number(11, "rows", least=1, most=32767)
    width: int = number(11, "columns", least=1, most=32767)
    agents: int = number(1, "agents in each world", least=1, most=128)
    max_turns: int = number(100, "turns of an episode, which then is cut off", least=1, most=2**31 - 1)

    # what is where
    cells: UInt8  # [layers, height, width] kinds; 0 is nothing
    who: Int16  # [height, width] the agent that stands there, or -1
    layer: int  # in which agents stand
    blocks: UInt8  # [kinds] 1 where nobody gets in
    items: UInt8  # [kinds] 1 where inventories count it
    worth: Float64  # [kinds] what entering it pays, or bumping into it where it blocks; `lay_out` sets it

    # agents
    row: Int32  # [agents]
    column: Int32  # [agents]
    heading: Int32  # [agents] a direction
    looks: UInt8  # [agents] the kind that is in an agent's cell
    status: Int32  # [agents] 0: acts; n: misses n turns; FINISHED
    deciding: UInt8  # [agents] 1 where an action is waited for
    paid: Float64  # [agents] since it was last reported
    taken: Int32  # [agents, kinds] what each entered in this episode
    returns: Float64  # [agents] in this episode
    gains: Int32  # [agents] how often something above 0 was paid
    gain_turns: Float64  # [agents] the sum of the turns in which it was

    # time and chance
    turn: int  # turns that are over
    turns: int  # SIMULTANEOUS or SEQUENTIAL
    seat: int  # whose turn it is, where they are sequential
    over: int  # 1: the world ended the episode
    seed: int
    world: int  # its number among all of the run
    drawn: int  # words drawn so far
    words: UInt32  # [4] the block that the next one comes from

    # the engine's own: what it is doing, what went wrong, what agents saw
    doing: int
    doer: int
    fault: int
    fault_row: int
    fault_column: int
    radius: Int32  # [agents] of its window
    frames: Int32  # [agents]
    feels: Int32  # [agents] what else its view has
    newest: Int32  # [agents] where in its ring the newest frame is
    first_byte: Int32  # [agents] where in `memory` its ring begins
    memory: UInt8
    outside: UInt8  # [layers] what stands beyond the map
    check: int  # of a saved state


_K = TypeVar("_K", Number, Variable)


def declared(place: type[Place], kind: type[_K]) -> dict[str, _K]:
    """What a place and its bases declare of one kind (`Number` or `Variable`), by name."""
    found: dict[str, _K] = {}
    for base in reversed(place.__mro__):
        found |= {name: value for name, value in vars(base).items() if isinstance(value, kind)}
    return found


def dtype_of(
    place: type[Place], numbers: Mapping[str, float], *, layers: int, kinds: int, memory: int
) -> np.dtype[np.void]:
    """How a place lies in memory: aligned as C does it."""
    agents, height, width = (int(numbers[name]) for name in ("agents", "height", "width"))
    per_agent = {"row": "i4", "column": "i4", "heading": "i4", "looks": "u1", "status": "i4", "deciding": "u1"}
    per_agent |= {"paid": "f8", "returns": "f8", "gains": "i4", "gain_turns": "f8"}
    per_agent |= {"radius": "i4", "frames": "i4", "newest": "i4", "first_byte": "i4", "feels": "i4"}
    fields: list[tuple[str, str | np.dtype[np.generic], tuple[int, ...]]] = [
        *((name, "i8", ()) for name in ("check", "seed", "world", "drawn", "turn", "seat", "over", "layer")),
        *((name, "i8", ()) for name in ("turns", "doing", "doer", "fault", "fault_row", "fault_column")),
        ("words", "u4", (4,)),
        *((name, dtype, (agents,)) for name, dtype in per_agent.items()),
        ("taken", "i4", (agents, kinds)),
        ("blocks", "u1", (kinds,)),
        ("items", "u1", (kinds,)),
        ("worth", "f8", (kinds,)),
        ("outside", "u1", (layers,)),
        ("who", "i2", (height, width)),
        ("cells", "u1", (layers, height, width)),
    ]
    fields += [(name, "i8" if isinstance(value, int) else "f8", ()) for name, value in numbers.items()]
    for name, held in declared(place, Variable).items():
        shape = tuple(int(numbers[size]) if isinstance(size, str) else size for size in held.shape)
        fields.append((name, held.dtype, shape))
    fields.append(("memory", "u1", (memory,)))
    _check_fields(fields)
    return _kept_dtype(tuple(fields))


@cache
def _kept_dtype(fields: tuple[tuple[str, str | np.dtype[np.generic], tuple[int, ...]], ...]) -> np.dtype[np.void]:
    """The dtype of these fields, always the same object: Numba knows a dtype by its address, so none may be freed."""
    return np.dtype(list(fields), align=True)


def _check_fields(fields: list[tuple[str, str | np.dtype[np.generic], tuple[int, ...]]]) -> None:
    seen: set[str] = set()
    for name, dtype, shape in fields:
        if name in seen:
            raise WorldError(f"'{name}' is declared twice, or is a name of the engine's own")
        seen.add(name)
        if np.dtype(dtype).kind not in "biuf" or not all(size >= 1 for size in shape):
            raise WorldError(f"'{name}' must be an array of numbers, found {np.dtype(dtype)} {list(shape)}")
