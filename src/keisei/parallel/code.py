"""What code a process runs, so that a worker of other code than the manager's is refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import xxhash

import keisei

_KINDS = (".py", ".so")


def package_files() -> dict[str, str]:
    """The hashes of all files of the package, native ones too, as they lie on the disk now."""
    files = (file for folder in _folders() for file in folder.rglob("*"))
    return {_name(file): _hash(file) for file in files if file.suffix in _KINDS}


def loaded_files() -> dict[str, str]:
    """The hashes of those that this process has loaded."""
    modules = [module for name, module in tuple(sys.modules.items()) if name.partition(".")[0] == "keisei"]
    files = [Path(file) for module in modules if (file := module.__file__) is not None]
    return {name: _hash(file) for file in files if file.suffix in _KINDS and (name := _name(file))}


def other_files(loaded: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """The names of loaded files that are not as expected."""
    return sorted(name for name, found in loaded.items() if expected.get(name) != found)


def _folders() -> list[Path]:
    """Where the package lies: an editable installation has its native code apart from the rest."""
    return [Path(folder) for folder in keisei.__path__]


def _name(file: Path) -> str:
    """A file's path in the package; nothing where it is none of its files."""
    return next((str(file.relative_to(folder)) for folder in _folders() if file.is_relative_to(folder)), "")


def _hash(file: Path) -> str:
    return xxhash.xxh3_64_hexdigest(file.read_bytes())
