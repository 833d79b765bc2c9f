"""The order of the house: who may import whom. Reads the sources and runs nothing of them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "keisei"

# Each may import what stands before it; the files of one package may import each other. Not all of them exist yet.
# The adapters stand behind the opponents, who play in the environments that they hand out.
_ORDER = """
errors heap sections config_learner config_device config_network config_worlds config_agents config config_reference
environment testing shogi gridworld networks policy acting opponents adapters small_picture rollout spectator threads
checkpoint replay learning collect device parallel history words crew_rows society_rows metrics screen view film
tables stopping run_folder progress failed_batch figures arena train build plot_pieces plot_societies plot usi web
bench cli __main__
"""
ORDER = _ORDER.split()
DOMAINS = ("shogi", "gridworld")
KNOW_DOMAINS = ("config", "build", "arena", "usi", "web", "bench", "cli")
FRONT_DOOR = "__init__"  # keisei/__init__.py hands on what others make


def imported(file: Path, root: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, wherever in it: `from a import b` gives a and a.b."""
    package = ("keisei", *file.relative_to(root).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*start, *([node.module] if node.module else ())))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """The part of the package that a module belongs to: `shogi` for keisei.shogi.board; nothing for others' modules."""
    parts = name.split(".")
    return parts[1] if parts[0] == "keisei" and len(parts) > 1 else ""


def complaints(root: Path) -> list[str]:
    """Every import below a package folder that points the wrong way."""
    found = []
    for file in sorted([*root.rglob("*.py"), *root.rglob("*.pyi")]):
        path = file.relative_to(root)
        home = path.parts[0].removesuffix(".py")
        if home != FRONT_DOOR and home not in ORDER:
            found.append(f"{path} has no place in the order")
            continue
        for name in set(imported(file, root)):
            found += [f"{path} imports {name}: {why}" for why in reasons(path, home, name)]
    return found


def reasons(path: Path, home: str, name: str) -> Iterator[str]:
    """Why a file may not import a module."""
    top, other = name.split(".")[0], room(name)
    if home != FRONT_DOOR and other in ORDER and ORDER.index(other) > ORDER.index(home):
        yield f"{other} stands behind {home}"
    if other in DOMAINS and home not in (other, *KNOW_DOMAINS):
        yield "only those that choose know a domain by name"
    if top == "torch" and home in DOMAINS:
        yield "NumPy arrays cross that border"
    if top == "ray" and path != Path("parallel/cluster.py"):
        yield "only parallel/cluster.py knows Ray"
    if top == "nanobind":
        yield "only csrc/bindings.cpp knows nanobind"


def test_imports_point_upwards_only() -> None:
    assert complaints(SOURCES) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("errors.py", "import keisei.config"),
        ("errors.py", "from . import config"),
        ("shogi/board.py", "from ..train import loop"),
        ("shogi/board.py", "def f():\n    import torch.nn"),
        ("shogi/board.py", "from keisei.gridworld import engine"),
        ("gridworld/engine.py", "from torch import nn"),
        ("parallel/worker.py", "import keisei.shogi.board"),
        ("parallel/worker.py", "from keisei import build"),
        ("parallel/worker.py", "import ray"),
        ("parallel/worker.py", "import nanobind"),
        ("helpers.py", ""),
    ],
)
def test_import_in_the_wrong_direction_is_found(tmp_path: Path, path: str, line: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(line)
    assert complaints(tmp_path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("__init__.py", "from keisei import build"),
        ("shogi/board.py", "from . import _native\nfrom .actions import f\nfrom keisei.errors import KeiseiError"),
        ("parallel/cluster.py", "import ray, torch"),
        ("build.py", "import keisei.shogi"),
        ("cli/train.py", "from keisei import build"),
    ],
)
def test_import_in_the_right_direction_is_allowed(tmp_path: Path, path: str, line: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(line)
    assert complaints(tmp_path) == []


def mapped(readme: str) -> set[str]:
    """The parts of the package that the map of the folders names."""
    rows = re.findall(r"^\| (`[^|]+) \|", readme.partition("\n## Where things are\n")[2].partition("\n## ")[0], re.M)
    places = [place.removeprefix("src/keisei/").rstrip("/") for row in rows for place in re.findall("`([^`]+)`", row)]
    return {path.stem for place in places for path in SOURCES.glob(place)}


def test_every_part_of_the_package_is_on_the_map_of_the_readme() -> None:
    there = {path.stem for path in SOURCES.iterdir()}
    assert {name for name in ORDER if name in there} <= mapped((ROOT / "README.md").read_text(encoding="utf-8"))


def test_only_the_bindings_include_nanobind_and_python() -> None:
    foreign = re.compile(r'#\s*include\s*[<"](nanobind/|Python\.h)')
    sources = [file for file in (ROOT / "csrc").rglob("*") if file.suffix in (".cpp", ".hpp", ".h")]
    including = [str(file.relative_to(ROOT)) for file in sources if foreign.search(file.read_text(encoding="utf-8"))]
    assert including == ["csrc/bindings.cpp"]


@pytest.mark.parametrize("module", ["keisei", "keisei.cli", "keisei.shogi"])
def test_torch_is_not_loaded_by(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
