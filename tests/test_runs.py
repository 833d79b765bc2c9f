"""`keisei runs`: which runs there are, and how one of them stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keisei import run_folder
from keisei.cli import app
from keisei.cli.runs import age, is_running
from keisei.errors import RunError
from keisei.history import LINES
from some_run import STEPS, write

runner = CliRunner()
CONFIG = "run:\n  seed: 7\nlearner:\n  learning_rate: 1e-4\n"


def make(run: Path, iterations: int, total: int = 10) -> Path:
    """A run's folder, as it is left behind."""
    run_folder.create(run, CONFIG)
    if iterations:
        write(run, iterations, total)
    return run


def ended(run: Path, state: str, iterations: int) -> None:
    run_folder.write_summary(run, {"state": state, "steps": iterations * STEPS, "failed_updates": 3})


def shown(*arguments: str) -> str:
    done = runner.invoke(app, ["runs", *arguments], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.output


def states(folder: Path) -> dict[str, str]:
    return {each["name"]: each["state"] for each in json.loads(shown(str(folder), "--json"))["runs"]}


def test_every_run_is_listed_with_how_it_stands(tmp_path: Path) -> None:
    ended(make(tmp_path / "done", 10), "finished", 10)
    ended(make(tmp_path / "paused", 4), "stopped", 4)
    make(tmp_path / "killed", 4)
    make(tmp_path / "stillborn", 0)
    (tmp_path / "no run").mkdir()
    with run_folder.in_use(make(tmp_path / "busy", 2)):
        assert states(tmp_path) == {
            "done": "finished",
            "paused": "stopped",
            "killed": "broken",
            "stillborn": "broken",
            "busy": "running",
        }
    assert states(tmp_path)["busy"] == "broken"


def test_run_that_was_resumed_and_killed_is_broken(tmp_path: Path) -> None:
    run = make(tmp_path / "run", 6)
    ended(run, "stopped", 4)
    assert states(tmp_path) == {"run": "broken"}


def test_summary_that_is_damaged_is_none(tmp_path: Path) -> None:
    run = make(tmp_path / "run", 6)
    for text in ("{", "[]", '"finished"'):
        (run / run_folder.SUMMARY).write_text(text)
        assert states(tmp_path) == {"run": "broken"}


def test_running_is_seen_across_processes_and_ends_with_them(tmp_path: Path) -> None:
    run = make(tmp_path / "run", 1)
    code = f"""
from pathlib import Path
from keisei import run_folder
with run_folder.in_use(Path({str(run)!r})):
    print("held", flush=True)
    input()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert is_running(run)
        with pytest.raises(RunError, match=f"in use by process {process.pid}"), run_folder.in_use(run):
            pass
        process.kill()
        process.wait()
    assert not is_running(run)


def test_table_shows_progress_evaluation_and_age(tmp_path: Path) -> None:
    make(tmp_path / "some-run", 4)
    hour_ago = time.time() - 3700
    os.utime(tmp_path / "some-run" / LINES, (hour_ago, hour_ago))
    text = shown(str(tmp_path))
    for part in ("some-run", "broken", "4 k of 10 k", "80", "random 100%, greedy 25%", "1 h"):
        assert part in text


def test_newest_run_comes_first(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "older", "oldest")):
        make(tmp_path / name, 1)
        when = time.time() - 1000 * number
        os.utime(tmp_path / name / LINES, (when, when))
    assert list(states(tmp_path)) == ["old", "older", "oldest"]


def test_one_run_is_shown_with_its_details(tmp_path: Path) -> None:
    run = make(tmp_path / "run", 4)
    ended(run, "stopped", 4)
    for number in (2, 4):
        (run / "checkpoints" / f"{number:08}").mkdir(parents=True)
    (run / "checkpoints" / ".00000005.part").mkdir()
    text = " ".join(shown(str(run)).split())
    for part in (
        "state stopped",
        "4,000 of 10,000 steps, 80 games, iteration 4",
        "trained for 0:08",
        "against greedy 25.0% −191 Elo, −260 to −130 at iteration 4",
        "value loss 0.25",
        "checkpoints 2: 00000002, 00000004",
        "learner learning_rate 0.0001",
        "failed updates 3",
        f"to go on keisei resume {run}",
    ):
        assert part in text, text


def test_finished_run_says_how_to_train_longer(tmp_path: Path) -> None:
    run = make(tmp_path / "my run", 10)
    ended(run, "finished", 10)
    assert f"keisei resume '{run}' run.total_steps=…" in " ".join(shown(str(run)).split())


def test_one_run_speaks_json_without_infinities(tmp_path: Path) -> None:
    run = make(tmp_path / "run", 4)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    said = json.loads(shown(str(run), "--json"), parse_constant=refuse)
    assert said["state"] == "broken"
    assert said["evaluation"]["random"] == {"score": 1.0, "elo": None, "elo_low": 402.4, "elo_high": None}
    assert said["evaluated_at"] == 4
    assert said["numbers"]["learn/kl"] == 0.008
    assert said["checkpoints"] == []


def test_run_without_an_iteration_is_shown(tmp_path: Path) -> None:
    run = make(tmp_path / "run", 0)
    assert "0 of 0 steps" in shown(str(run))
    assert json.loads(shown(str(run), "--json"))["numbers"] == {}


def test_no_runs_yet_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "keisei train" in shown()
    assert json.loads(shown("--json")) == {"runs": []}
    assert "There is no run in" in shown(str(tmp_path))


def test_folder_that_is_absent_is_one_clear_line(tmp_path: Path) -> None:
    done = runner.invoke(app, ["runs", str(tmp_path / "absent")])
    assert isinstance(done.exception, RunError)
    assert str(done.exception).startswith("there is no run and no folder of runs in ")


@pytest.mark.parametrize(("seconds", "text"), [(7, "7 s"), (90, "1 min"), (7300, "2 h"), (200_000, "2 d")])
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text
