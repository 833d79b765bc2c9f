"""The tutorial says nothing that is not there: its commands, keys, files and code are tried."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from keisei.cli import app
from keisei.config import load_resumed, load_run

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for kind, block in BLOCKS
    if kind == "sh"
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("keisei ")
]


def blocks(kind: str) -> list[str]:
    return [block for found, block in BLOCKS if found == kind]


def written(folder: Path) -> Path:
    """The tutorial's own configuration as a file."""
    path = folder / "mine.yaml"
    path.write_text(blocks("yaml")[0], encoding="utf-8")
    return path


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_is_understood(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name, *arguments = words
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, list(arguments)).params
    if name == "train":
        config = given["config"]
        load_run(written(tmp_path) if config.name == "mine.yaml" else config, given["overrides"] or [])
    if name == "resume":
        load_resumed(ROOT / "configs" / "shogi-quick.yaml", given["overrides"] or [])


def test_there_are_commands_to_try() -> None:
    assert {words[0] for words in COMMANDS} >= {"train", "runs", "plot", "evaluate", "resume"}


def test_part_of_a_configuration_is_one(tmp_path: Path) -> None:
    for block in blocks("yaml"):
        path = tmp_path / "part.yaml"
        path.write_text(block, encoding="utf-8")
        load_run(path, ["parallel.block_size=1"])


def test_python_runs() -> None:
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], cwd=ROOT, check=True)


def test_files_and_targets_are_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (ROOT / "docs" / target).is_file(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}:" in makefile
