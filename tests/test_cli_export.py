"""`keisei export`: the table says what was lived, and other programs read it back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import keisei
from keisei.cli import app
from keisei.environment import new_observation, new_step
from keisei.errors import KeiseiError
from keisei.gridworld import GridworldEnvironment
from keisei.gridworld.playing import Lived, Stage, lived, random_choice
from test_adapters_parallel import VAULT

COLUMNS = ["world", "turn", "seat", "row", "column", "heading", "action", "reward", "ended"]


def run(name: str, copies: int = 3, **numbers: float) -> tuple[GridworldEnvironment, Lived]:
    built = keisei.make(name, copies=copies, seed=2, debug=True, **numbers)
    assert isinstance(built, GridworldEnvironment)
    return built, lived(Stage(built, built, random_choice(built, 4)))


def written(folder: Path, *words: str) -> str:
    os.chdir(folder)
    done = CliRunner().invoke(app, ["export", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_rows_are_what_happens_when_the_same_actions_are_played_again() -> None:
    """The table's actions, played in fresh worlds, lead to its positions, headings and rewards."""
    _, table = run("cleanup", agents=4, max_turns=15)
    again = keisei.make("cleanup", copies=3, seed=2, agents=4, max_turns=15, debug=True)
    assert isinstance(again, GridworldEnvironment)
    seen, step = new_observation(again), new_step(again)
    again.reset(seen)
    rows = {
        name: column.reshape(3, 15, 4).swapaxes(0, 1) for name, column in table.columns.items()
    }  # [turn, world, seat]
    assert list(table.columns) == COLUMNS
    assert table.actions == ("up", "right", "down", "left", "clean", "zap")
    for turn in range(15):
        now = again.worlds.now
        for name in ("row", "column", "heading"):
            assert np.array_equal(rows[name][turn], now[name])
        assert np.array_equal(rows["world"][turn], np.broadcast_to(now["world"][:, None], (3, 4)))
        assert (rows["turn"][turn] == turn).all()
        assert (rows["seat"][turn] == np.arange(4)).all()
        again.step([rows["action"][turn].reshape(-1).astype(np.int64)], step, seen)
        assert np.array_equal(rows["reward"][turn].reshape(-1), step.reward)
        assert (rows["ended"][turn] == (turn == 14)).all()


def test_worlds_that_end_early_have_no_rows_afterwards() -> None:
    _, table = run("gridworld", copies=8, world=VAULT, max_turns=60, agents=2)  # type: ignore[arg-type]
    worlds, turns = table.columns["world"], table.columns["turn"]
    lengths = [int(turns[worlds == world].max()) + 1 for world in range(8)]
    assert len(set(lengths)) > 1
    for world, length in enumerate(lengths):
        own = worlds == world
        assert table.columns["ended"][own].sum() == 2
        assert table.columns["ended"][own & (turns == length - 1)].all()
    waits = table.columns["action"] == -1
    assert 0 < waits.sum() < len(waits)  # frozen or gone


@pytest.mark.parametrize("name", ["a.npz", "a.parquet"])
def test_file_is_read_back_by_others(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = written(tmp_path, "tag", "max_turns=6", "--episodes", "3", "--out", name, "--debug", "--seed", "7")
    assert said.startswith(f"wrote {name}: 90 rows of world, turn, seat")
    if name.endswith("npz"):
        with np.load(name) as file:
            found = {column: file[column] for column in COLUMNS}
            assert file["actions"].tolist() == ["up", "right", "down", "left"]
    else:
        table = parquet.read_table(name)
        assert table.schema.metadata[b"actions"] == b"up\nright\ndown\nleft"
        found = {column: table[column].to_numpy() for column in table.column_names}
    assert list(found) == COLUMNS
    assert {len(column) for column in found.values()} == {90}
    assert np.unique(found["world"]).tolist() == [0, 1, 2]
    assert found["reward"].sum() == 3 * 6 * 4 * 10  # all but It are paid, each turn
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_both_files_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.npz", "a.parquet"):
        written(tmp_path, "treasure_hunt", "max_turns=9", "--out", name, "--debug", "--world", "5", "--episodes", "2")
    table = parquet.read_table("a.parquet")
    with np.load("a.npz") as file:
        for column in COLUMNS:
            assert np.array_equal(file[column], table[column].to_numpy())
            assert file[column].dtype == table[column].to_numpy().dtype
        assert np.unique(file["world"]).tolist() == [5, 6]


def test_more_worlds_than_are_played_at_once_are_the_same_worlds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "tag", "max_turns=1", "--episodes", "70", "--out", "many.npz", "--debug")
    written(tmp_path, "tag", "max_turns=1", "--episodes", "1", "--world", "69", "--out", "one.npz", "--debug")
    with np.load("many.npz") as many, np.load("one.npz") as one:
        last = many["world"] == 69
        assert many["world"].max() == 69
        for column in ("row", "column", "seat"):
            assert np.array_equal(many[column][last], one[column])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tag", "--out", "a.csv"], "expected a file that ends in .npz or .parquet, got 'a.csv'"),
        (["tag", "--out", "absent/a.npz", "--debug"], "cannot write absent/a.npz: No such file or directory"),
        (["tag", "--out", "absent/a.parquet", "--debug"], "cannot write absent/a.parquet: No such file or directory"),
        (["tag", "--out", "a.npz", "--play", "well"], "--play must be sample or greedy, not 'well'"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, ["export", *words]).exception
    assert isinstance(error, KeiseiError)
    assert error.line == line
    assert list(tmp_path.iterdir()) == []


def test_missing_library_is_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from keisei.cli import main; main()"
    words = ["export", "tag", "--out", "a.parquet"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "keisei: pyarrow is not installed, but needed for Parquet: pip install 'keisei[tables]'\n"
