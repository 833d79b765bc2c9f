"""Compiled worlds: Numba's work is kept on disk, under a key that changes with the world's file and the engine.

Only one process compiles at a time; others wait, and then read what it left. Nothing here knows what is compiled.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import itertools
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeVar

import numpy as np

from keisei.environment import Array, UInt8
from keisei.errors import WorldError

F = TypeVar("F", bound=Callable[..., object])
Arguments = tuple[object, ...]

CACHE_VARIABLE = "KEISEI_CACHE"
"""The environment variable that names another folder for compiled worlds."""


def _say(line: str) -> None:
    """Tell whoever waits that something is being compiled."""
    print(f"keisei: {line}", file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Where compiled worlds are kept: it may be removed at any time when nothing runs."""
    given = os.environ.get(CACHE_VARIABLE)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(given or f"{home}/keisei") / "worlds"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = Path(tempfile.gettempdir()) / f"keisei-{os.getuid()}" / "worlds"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time, and one thread."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def engine_digest() -> str:
    """Changes with every file of the engine, with Numba and with Python."""
    import numba

    parts = [numba.__version__.encode(), platform.python_version().encode()]
    parts += [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


_registered: set[FunctionType] = set()


def register(function: F, *, guarded: bool = False) -> F:
    """Let compiled functions call this one, which stays what it is; guarded, a wrong index raises `IndexError`."""
    from numba.extending import register_jitable

    if isinstance(function, FunctionType) and function not in _registered:
        register_jitable(boundscheck=guarded)(function)
        _registered.add(function)
    return function


def register_all(module: ModuleType, *, guarded: bool) -> None:
    """Let compiled functions call every function of a module."""
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            register(value, guarded=guarded)


_bound: dict[str, tuple[Callable[..., object], ...]] = {}


def bound(module: str) -> tuple[Callable[..., object], ...]:
    """What the entry points of a written module call; asked by that module."""
    return _bound[module]


_ENTRY = """
@njit(cache=True, nogil=True)
def {name}({arguments}):
    return _{name}({arguments})
"""


def _source(functions: Mapping[str, Callable[..., object]]) -> str:
    """A module of entry points: Numba keeps its work beside the file that a function is written in."""
    names = ", ".join(f"_{name}" for name in functions)
    lines = ['"""Written by keisei: may be removed when nothing runs."""', "from numba import njit"]
    lines += ["from keisei.gridworld.compiled import bound", f"{names}, = bound(__name__)"]
    for name, function in functions.items():
        code = function.__code__
        lines.append(_ENTRY.format(name=name, arguments=", ".join(code.co_varnames[: code.co_argcount])))
    return "\n".join(lines)


def compiled(
    name: str,
    digest: str,
    functions: Mapping[str, Callable[..., object]],
    examples: Mapping[str, Sequence[Arguments]],
) -> dict[str, Callable[..., object]]:
    """Functions that need no interpreter, compiled for arguments like the examples, or read from disk."""
    from numba import typeof

    key = hashlib.sha256(f"{digest} {engine_digest()}".encode()).hexdigest()[:16]
    folder = cache_folder() / f"{name}-{key}"
    signatures = {entry: [tuple(map(typeof, arguments)) for arguments in some] for entry, some in examples.items()}
    done = folder / f"{hashlib.sha256(repr(signatures).encode()).hexdigest()[:16]}.done"
    with locked(folder.with_name(f"{folder.name}.lock")):
        started = time.monotonic()
        if not done.exists():
            _say(f"compiling {name}: once, it takes some seconds")
        module = _written(folder, name, key, functions)
        entries = {entry: getattr(module, entry) for entry in functions}
        with _numbered_from(f"{folder.name} {done.stem}"):
            for entry, some in signatures.items():
                for signature in some:
                    _compile(name, entry, entries[entry], signature)
        if not done.exists():
            done.touch()
            _say(f"compiled {name} in {time.monotonic() - started:.0f} s")
    return entries


@contextlib.contextmanager
def _numbered_from(text: str) -> Iterator[None]:
    """Let Numba number what it compiles from a number on that belongs to this text.

    Its machine code is named by such numbers, which begin anew in each process: two layouts of a world, compiled by two
    processes, would have the same names, and who reads both from disk would run one on the memory of the other.
    """
    from numba.core.bytecode import FunctionIdentity

    before = FunctionIdentity._unique_ids
    first = int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)
    FunctionIdentity._unique_ids = itertools.count(first << 32)
    try:
        yield
    finally:
        FunctionIdentity._unique_ids = before


def _written(folder: Path, name: str, key: str, functions: Mapping[str, Callable[..., object]]) -> ModuleType:
    """The module of entry points, bound to the functions of this process."""
    title = f"keisei_compiled_{name}_{key}"
    if title in sys.modules:
        return sys.modules[title]
    path = folder / "entries.py"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        path.write_text(_source(functions), encoding="utf-8")
    specification = importlib.util.spec_from_file_location(title, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    _bound[title] = tuple(functions.values())
    specification.loader.exec_module(module)
    sys.modules[title] = module
    return module


def _compile(name: str, entry: str, function: Callable[..., object], signature: Arguments) -> None:
    from numba.core.errors import NumbaError

    try:
        function.compile(signature)  # type: ignore[attr-defined]
    except NumbaError as error:
        raise WorldError(f"{name} cannot be compiled: {_innermost(str(error))}") from error


def _innermost(text: str) -> str:
    """What Numba really complains of, and where, from all that it says."""
    _, _, inner = text.rpartition("Failed in nopython mode pipeline")
    lines = [line.strip(" -\t") for line in inner.splitlines()[1:] if line.strip(" -\t")] or text.splitlines()
    place = re.search(r'File "([^"]+)", line (\d+)', inner)
    return f"{lines[0]:.200}" + (f" in {place[1]}, line {place[2]}" if place else "")


def compiled_unpack(*arguments: object) -> None:
    """`view.unpack`, compiled."""
    packed, out = arguments[0], arguments[1]
    _unpack(out.dtype, packed.flags.writeable)(*arguments)  # type: ignore[attr-defined]


@cache
def _unpack(dtype: np.dtype[np.generic], writeable: bool) -> Callable[..., object]:
    from keisei.gridworld import view

    register_all(view, guarded=False)
    packed: UInt8 = np.zeros((1, 1), np.uint8)
    packed.flags.writeable = writeable
    out: Array = np.zeros((1, 1), dtype)
    example = (packed, out, np.zeros((1, 1), np.uint8), np.zeros(1, dtype), *([1] * 7))
    return compiled("unpack", "", {"unpack": view.unpack}, {"unpack": [example]})["unpack"]
