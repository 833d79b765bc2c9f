"""How a world is written: one file with a few plain functions over a `Place`, and a `World` that names them.

What the functions may use is in `place.py` (what there is), `moves.py` and `chance.py`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from keisei.environment import Array
from keisei.errors import ConfigError, KeiseiError, WorldError
from keisei.gridworld.place import Number, Place, declared
from keisei.gridworld.view import View

P = TypeVar("P", bound=Place)

FOLDER = Path(__file__).parent / "worlds"
SHIPPED = ("treasure_hunt", "cleanup", "tag", "stag_hunt", "iowa", "empty")

MOVES = ("up", "right", "down", "left")


@dataclass(frozen=True)
class Kind:
    """Something that can be in a cell."""

    name: str
    colour: tuple[int, int, int]  # red, green, blue
    layer: str = "things"
    blocks: bool = False
    item: bool = False  # counted in agents' inventories
    shape: str = "square"  # how it is drawn, one of render.SHAPES


@dataclass(frozen=True)
class Sense:
    """A number 0..255 that an agent feels, as a plane of its own; a network gets it times `scale`."""

    name: str
    scale: float = 1.0


def nothing(place: Place) -> None:
    """Nothing happens."""


def no_sense(place: Place, agent: int, number: int) -> int:
    """Nothing is felt."""
    return 0


def all_allowed(place: Place, agent: int, action: int) -> bool:
    """Every action may be chosen."""
    return True


@dataclass(frozen=True)
class World(Generic[P]):
    """A world as its file describes it. A turn calls `change`, then `act` for each agent, then `after`."""

    place: type[P]
    kinds: tuple[Kind, ...]  # kind 0 is nothing
    agent: str  # the kind that agents look like at first
    lay_out: Callable[[P], None]  # the map, before the agents stand on it
    act: Callable[[P, int, int], None]  # one agent's action
    furnish: Callable[[P], None] = nothing  # what is placed after the agents
    change: Callable[[P], None] = nothing  # what happens by itself
    after: Callable[[P], None] = nothing  # what follows when all have acted
    allowed: Callable[[P, int, int], bool] = all_allowed  # whether an agent may choose an action
    sense: Callable[[P, int, int], int] = no_sense  # what an agent feels, 0..255, by the number of the sense
    senses: tuple[Sense, ...] = ()
    report: Callable[[P], Mapping[str, float | Array]] | None = None  # more about an ended episode; never compiled
    actions: tuple[str, ...] = MOVES
    layers: tuple[str, ...] = ("things",)
    stand_in: str = "things"  # the layer in which agents stand and are blocked
    outside: str = "wall"  # the kind beyond the map
    view: View = field(default_factory=View)  # what agents see unless told otherwise


AnyWorld = World[Place]


@dataclass(frozen=True)
class WorldFile:
    """A world, and the file that it was read from."""

    name: str
    path: Path
    about: str  # the first sentence of the file
    world: AnyWorld
    digest: str  # of the file

    @property
    def numbers(self) -> dict[str, Number]:
        """What its configuration sets, by name."""
        return declared(self.world.place, Number)


def load_world(name: str) -> WorldFile:
    """A world that ships, by name, or one's own, by the path of its file."""
    path = FOLDER / f"{name}.py" if name in SHIPPED else Path(name)
    if not path.is_file():
        raise ConfigError(f"there is no world '{name}': expected {', '.join(SHIPPED)}, or the path of a Python file")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    module = _module(path.resolve(), digest)
    world = getattr(module, "WORLD", None)
    if not isinstance(world, World):
        raise ConfigError(f"{path} must say WORLD = World(…)")
    _check_world(world, path)
    return WorldFile(path.stem, path, (module.__doc__ or "").strip().partition("\n")[0], world, digest)


def _module(path: Path, digest: str) -> ModuleType:
    """The file as a module; an edited file is another one, a moved one is not: what is compiled knows it by name."""
    name = f"keisei_world_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ConfigError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except KeiseiError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise WorldError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    return module


def _check_world(world: AnyWorld, path: Path) -> None:
    names = [kind.name for kind in world.kinds]
    for what, some in (("kinds", names), ("actions", world.actions), ("layers", world.layers)):
        if not 1 <= len(some) <= 255 or len(set(some)) != len(some):
            raise WorldError(f"{path}: {what} must be 1 to 255 different names, found {', '.join(some)}")
    for what, kind in (("agent", world.agent), ("outside", world.outside)):
        if kind not in names[1:]:
            raise WorldError(f"{path}: {what} must be one of the kinds after the first, not '{kind}'")
    for layer in (world.stand_in, *(kind.layer for kind in world.kinds)):
        if layer not in world.layers:
            raise WorldError(f"{path}: there is no layer '{layer}' among {', '.join(world.layers)}")


def numbers_of(file: WorldFile, given: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a world's configuration: what is given, and defaults for the rest."""
    known = file.numbers
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"unknown key '{name}' of {file.name} (known are {', '.join(known)})")
        _check_number(file.name, name, known[name], value)
    numbers: dict[str, float] = {}
    for name, number in known.items():
        value = given.get(name, number.default)
        numbers[name] = int(value) if isinstance(number.default, int) else float(value)
    return numbers


def _check_number(world: str, name: str, number: Number, value: float) -> None:
    whole = isinstance(number.default, int)
    if type(value) not in (int, float) or (whole and value % 1 != 0):
        raise ConfigError(f"'{name}' of {world} must be {'whole' if whole else 'a number'}, not {value!r}")
    if not number.least <= value <= number.most or not math.isfinite(value):
        raise ConfigError(f"'{name}' of {world} must be from {number.least} to {number.most}, not {value}")
