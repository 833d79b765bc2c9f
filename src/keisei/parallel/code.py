"""What code a process runs, so that a worker of other code than the manager's is refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import xxhash

import keisei

_FOLDER = Path(keisei.__file__).parent


def package_files() -> dict[str, str]:
    """The hashes of all files of the package, as they lie on the disk now."""
    return {str(file.relative_to(_FOLDER)): _hash(file) for file in _FOLDER.rglob("*.py")}


def loaded_files() -> dict[str, str]:
    """The hashes of those that this process has loaded."""
    names = [module.__file__ for name, module in tuple(sys.modules.items()) if name.partition(".")[0] == "keisei"]
    files = [Path(name) for name in names if name is not None and name.endswith(".py")]
    return {str(file.relative_to(_FOLDER)): _hash(file) for file in files if file.is_relative_to(_FOLDER)}


def other_files(loaded: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """The names of loaded files that are not as expected."""
    return sorted(name for name, found in loaded.items() if expected.get(name) != found)


def _hash(file: Path) -> str:
    return xxhash.xxh3_64_hexdigest(file.read_bytes())
