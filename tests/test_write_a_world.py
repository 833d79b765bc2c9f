"""The page on writing a world says nothing that does not work: its blocks are typed in as they stand, in order."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keisei.gridworld.sprites import SHAPES

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "write-a-world.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+(?: \w+)?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def names(node: ast.stmt) -> set[str]:
    """What a statement at the top of a file gives names to; a module for imports, so that a later one replaces it."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {f"from {node.module}" if isinstance(node, ast.ImportFrom) else node.names[0].name}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)}
    return set()


def changed(text: str, block: str) -> str:
    """A file after an edit as the page says: what has the same name is replaced, what is new goes above `WORLD`."""
    body = ast.parse(text).body
    for node in ast.parse(block).body:
        same = [number for number, old in enumerate(body) if names(old) & names(node)]
        if same:
            body[same[0]] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            body.insert(2, node)  # after the docstring and `from __future__`
        else:
            body.insert(next(number for number, old in enumerate(body) if "WORLD" in names(old)), node)
    return "\n\n".join(map(ast.unparse, body)) + "\n"


def typed(kind: str, block: str, folder: Path) -> None:
    """Do what a block says."""
    world = folder / "orchard.py"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    if kind == "sh":
        done = subprocess.run(
            ["bash", "-euc", block], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    elif kind == "python":
        world.write_text(changed(world.read_text(encoding="utf-8"), block), encoding="utf-8")
    elif kind == "python check":
        subprocess.run([sys.executable, "-c", block], cwd=folder, env=environment, check=True)
    elif kind == "yaml":
        (folder / "orchard.yaml").write_text(block, encoding="utf-8")
    else:
        raise AssertionError(f"a block of {kind}")


def test_blocks_work_one_after_the_other(tmp_path: Path) -> None:
    for kind, block in BLOCKS:
        typed(kind, block, tmp_path)
    made = {path.name for path in tmp_path.iterdir()}
    assert made >= {"orchard.py", "berries.gif", "orchard.gif", "orchard.npz", "run", "learnt.gif"}
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000


def test_error_is_the_one_that_the_page_shows(tmp_path: Path) -> None:
    for kind, block in [each for each in BLOCKS if each[0] != "sh"][:2]:
        if not (tmp_path / "orchard.py").exists():
            typed("sh", "keisei worlds new orchard", tmp_path)
        typed(kind, block, tmp_path)
    path = tmp_path / "orchard.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("    if action == SCARE:", "    place.row[agent] = 99\n    if action == SCARE:"))
    done = subprocess.run(
        [sys.executable, "-m", "keisei", "watch", "orchard.py", "--debug"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (shown,) = re.findall(r"^keisei: orchard: .*$", TEXT, re.MULTILINE)
    parts = re.sub(r"cell \(99, \d+\)", "", done.stderr), re.sub(r"cell \(99, \d+\)", "", shown)
    assert parts[0].strip() == parts[1].strip()


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_link_leads_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists(), target


def test_every_shape_and_function_is_named() -> None:
    import keisei.gridworld.chance
    import keisei.gridworld.moves
    from keisei.gridworld import World

    assert all(f"`{shape}`" in TEXT for shape in SHAPES)
    known = vars(keisei.gridworld.moves) | vars(keisei.gridworld.chance)
    table = TEXT[TEXT.index("## What there is") : TEXT.index("| in `World(…)`")]
    listed = re.findall(r"`(\w+)\(place", table)
    assert len(listed) > 8
    assert set(listed) <= set(known)
    assert all(f"`{name}" in TEXT for name in ("lay_out", "furnish", "change", "act", "after", "allowed", "report"))
    assert {"sense", "senses", "layers", "stand_in", "outside", "view"} <= set(World.__dataclass_fields__)
