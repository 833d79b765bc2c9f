"""The page on societies says nothing that is not there: its commands, keys and code are tried."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from keisei.cli import app
from keisei.config import GridworldRun, load_run

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "societies.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for kind, block in BLOCKS
    if kind == "sh"
    for line in block.splitlines()
    if line.startswith("keisei ")
]
CODE = [block for kind, block in BLOCKS if kind == "python"]


def config(folder: Path, block: str) -> Path:
    path = folder / "hunters.yaml"
    path.write_text(block, encoding="utf-8")
    return path


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_is_understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name, *arguments = words
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, list(arguments)).params
    if name == "train" and given["config"].name != "hunters.yaml":
        load_run(given["config"], given["overrides"] or [])


def test_every_configuration_is_one(tmp_path: Path) -> None:
    blocks = [block for kind, block in BLOCKS if kind == "yaml"]
    assert len(blocks) == 3
    for block in blocks:
        run = load_run(config(tmp_path, block))
        assert isinstance(run, GridworldRun)


def test_hunters_and_agents_that_differ_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate([block for kind, block in BLOCKS if kind == "yaml"]):
        path = config(tmp_path, block)
        small = ["run.total_steps=40", "environment.copies=1", "parallel.block_size=1", "environment.max_turns=5"]
        small += ["environment.debug=true", "parallel.enabled=false", "evaluation.final_games=0"]
        small += ["parallel.parallel_actions=looped", "parallel.parallel_training=looped"]
        done = CliRunner().invoke(app, ["train", str(path), "--run-dir", f"run{number}", *small])
        assert done.exit_code == 0, (done.output, done.exception)


def test_table_is_read_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["export", "tag", "max_turns=3", "--debug", "--episodes", "4", "--out", "hunters.npz"]
    assert CliRunner().invoke(app, words).exit_code == 0
    done = subprocess.run([sys.executable, "-c", CODE[0]], capture_output=True, text=True, check=True)
    assert len(re.findall(r"^agent \d: \d+\.\d ± \d+\.\d$", done.stdout, re.MULTILINE)) == 5
    listed = re.findall(
        r"`(\w+)`", TEXT[TEXT.index("| column |") : TEXT.index("import numpy")].replace("`actions`", "")
    )
    assert listed == ["world", "turn", "seat", "row", "column", "heading", "action", "reward", "ended"]


def test_world_is_handed_out_as_the_page_says() -> None:
    subprocess.run([sys.executable, "-c", CODE[1]], check=True)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_link_leads_somewhere(target: str) -> None:
    assert target.startswith("https://") or (ROOT / "docs" / target).exists(), target
