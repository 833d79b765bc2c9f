"""`keisei worlds` and `keisei watch` with worlds: what a person sees, errors of own worlds included."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from keisei.cli import app
from keisei.gridworld import SHIPPED

runner = CliRunner()


def keisei(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A real command."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "keisei", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def refusal(folder: Path, *words: str) -> str:
    """The one line of a command that fails."""
    done = keisei(folder, *words)
    assert done.returncode == 2, done
    (line,) = [line for line in done.stderr.splitlines() if "compil" not in line]
    assert line.startswith("keisei: ")
    return line.removeprefix("keisei: ")


@pytest.fixture
def meadow(tmp_path: Path) -> Path:
    """A new world's file."""
    done = keisei(tmp_path, "worlds", "new", "quiet_meadow")
    assert done.returncode == 0, done.stderr
    assert "keisei watch quiet_meadow.py" in done.stdout
    return tmp_path / "quiet_meadow.py"


def test_list_names_every_world_with_its_numbers(tmp_path: Path) -> None:
    text = keisei(tmp_path, "worlds").stdout
    assert [name for name in SHIPPED if name in text] == list(SHIPPED)
    for part in ("21×31", "gem 10", "river_rows 6"):
        assert part in " ".join(text.split())


def test_world_says_its_numbers_with_defaults_and_ranges(tmp_path: Path) -> None:
    text = " ".join(keisei(tmp_path, "worlds", "cleanup").stdout.split())
    assert "pollution 0.009 0 to 1 of a river cell becoming polluted, each turn" in text
    assert "agents 10 1 to 128 agents in each world" in text
    assert "max_turns 100 1 and more" in text
    assert "up, right, down, left, clean, zap" in text


def test_world_as_json() -> None:
    (found,) = json.loads(runner.invoke(app, ["worlds", "tag", "--json"]).output)["worlds"]
    assert found["name"] == "tag"
    assert found["numbers"]["agents"]["default"] == 5
    assert found["actions"] == ["up", "right", "down", "left"]


def test_new_world_runs_at_once(meadow: Path) -> None:
    text = meadow.read_text(encoding="utf-8")
    assert text.startswith('"""Quiet meadow: agents walk around, and nothing happens."""')
    assert "class QuietMeadow(Place):" in text
    done = keisei(meadow.parent, "watch", meadow.name, "agents=3", "max_turns=4", "--debug")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "##" * 11
    assert "turn 4 of 4" in lines[-1]
    assert sum(line.count(mark) for line in lines[:-1] for mark in "012") == 3


def test_new_world_overwrites_nothing(meadow: Path) -> None:
    assert refusal(meadow.parent, "worlds", "new", "quiet_meadow") == "there is a file quiet_meadow.py already"


@pytest.mark.parametrize("name", ["tag", "my-world", "class", "../away", ""])
def test_name_that_cannot_be_a_world_is_refused(tmp_path: Path, name: str) -> None:
    assert "a world's name is a word" in refusal(tmp_path, "worlds", "new", name)
    assert list(tmp_path.iterdir()) == []


def test_unknown_world_and_number_are_one_line(tmp_path: Path) -> None:
    assert "there is no world 'tga': expected treasure_hunt" in refusal(tmp_path, "worlds", "tga")
    assert "expected a run, one of the worlds treasure_hunt" in refusal(tmp_path, "watch", "tga")
    assert "unknown key 'agnts' of tag (known are height" in refusal(tmp_path, "watch", "tag", "agnts=3")
    assert "'free' on the command line must be a number, not 'x'" in refusal(
        tmp_path, "watch", "tag", "free=x", "--debug"
    )


@pytest.mark.usefixtures("ffmpeg")
def test_watched_episode_becomes_a_gif_and_an_mp4(tmp_path: Path) -> None:
    words = ["watch", "tag", "max_turns=3", "--debug", "--gif", "a.gif", "--mp4", "a.mp4", "--cell", "10"]
    done = keisei(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["wrote a.gif", "wrote a.mp4"]
    with Image.open(tmp_path / "a.gif") as film:
        assert (getattr(film, "n_frames", 0), film.width) == (4, 110)
    assert (tmp_path / "a.mp4").stat().st_size > 1000


def test_other_world_of_the_same_seed_begins_otherwise(tmp_path: Path) -> None:
    shown = {
        world: keisei(tmp_path, "watch", "empty", "agents=4", "max_turns=1", "--debug", "--world", world).stdout
        for world in ("0", "1")
    }
    assert shown["0"] != shown["1"]


def test_terminal_shows_a_world_live(tmp_path: Path) -> None:
    """A real terminal: every turn is drawn over the one before, in colours."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("NO_COLOR", None)
    words = ["watch", "tag", "max_turns=5", "--debug", "--speed", "50"]
    process = subprocess.Popen(
        [sys.executable, "-m", "keisei", *words], cwd=tmp_path, env=environment, stdout=slave, stderr=subprocess.STDOUT
    )
    os.close(slave)
    said = b""
    while select.select([master], [], [], 60)[0]:
        try:
            said += os.read(master, 65536)
        except OSError:
            break
    assert process.wait(10) == 0
    os.close(master)
    text = said.decode()
    assert all(f"turn {turn} of 5" in text for turn in range(6))
    assert "\x1b[1A" in text
    assert "48;2;" in text


FAULTS = {
    "nan": ("    walk(place, agent, action)", "    pay(place, agent, math.nan)", "the reward is not a finite number"),
    "off": ("    walk(place, agent, action)", "    place.row[agent] = 99", "the agent is off the map"),
    "kind": ("    walk(place, agent, action)", "    put(place, 0, 1, 1, 200)", "there is no such kind"),
}


@pytest.mark.parametrize(("fault", "mode"), [*((fault, ["--debug"]) for fault in FAULTS), ("off", [])])
def test_broken_rule_is_one_line_with_function_agent_cell_and_turn(meadow: Path, fault: str, mode: list[str]) -> None:
    before, after, says = FAULTS[fault]
    text = meadow.read_text(encoding="utf-8").replace(before, f"    if place.turn == 2:\n    {after}\n{before}")
    text = text.replace("moves import walk", "moves import pay, put, walk").replace(
        "__\n\nfrom", "__\n\nimport math\n\nfrom"
    )
    text = text.replace("import annotations\n", "import annotations\n\nimport math\n", 1)
    meadow.write_text(text, encoding="utf-8")
    line = refusal(meadow.parent, "watch", meadow.name, *mode)
    assert line.startswith(f"quiet_meadow: {says}")
    for part in ("in act()", "agent 0", "cell (", "turn 2", "world 0"):
        assert part in line


def test_file_that_is_no_world_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import this is\n", encoding="utf-8")
    assert "broken.py cannot be read: SyntaxError" in refusal(tmp_path, "worlds", "broken.py")
    (tmp_path / "other.py").write_text("x = 1\n", encoding="utf-8")
    assert refusal(tmp_path, "watch", "other.py") == "other.py must say WORLD = World(…)"


def test_breakpoint_works_in_debug(meadow: Path) -> None:
    """`breakpoint()` in a world's function stops there, and the debugger sees the agent."""
    text = meadow.read_text(encoding="utf-8")
    meadow.write_text(text.replace("    walk(place", "    breakpoint()\n    walk(place"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "keisei", "watch", meadow.name, "max_turns=1", "--debug"],
        cwd=meadow.parent,
        input="p 'agent', agent, int(place.row[agent]) > 0\nc\n",
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONBREAKPOINT"},
    )
    assert done.returncode == 0, done.stderr
    assert "('agent', 0, True)" in done.stdout
    assert "quiet_meadow.py" in done.stdout


def test_moved_world_runs_from_what_was_compiled_before(meadow: Path, tmp_path: Path) -> None:
    first = keisei(meadow.parent, "watch", meadow.name, "max_turns=1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    meadow.rename(elsewhere / meadow.name)
    done = keisei(elsewhere, "watch", meadow.name, "max_turns=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == first.stdout
