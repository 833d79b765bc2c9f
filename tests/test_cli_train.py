"""`keisei train` as a user meets it: real processes and files, one clear line for an error."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from commands import keisei, start, train, wait_until
from keisei import run_folder
from keisei.checkpoint import folder_of, latest
from keisei.cli import app
from keisei.errors import LearningError
from keisei.history import LINES
from keisei.policy import Policy
from tiny_runs import (
    STEPS,
    TESTS,
    TIC_TAC_TOE,
    Sections,
    events,
    records,
    sha256,
    summary,
    total,
    training,
    tree,
    write_config,
)

TOLD = ("run", "checkpoint", "iterations", "steps", "games", "seconds", "weights_sha256")
BROKEN: Sections = {
    **TIC_TAC_TOE,
    "environment": {
        **TIC_TAC_TOE["environment"],
        "path": str(TESTS / "troubled_games.py"),
        "class": "BrokenTicTacToe",
        "options": {"breaks_at": 10},
    },
}
"""A game of which each block breaks in its third rollout."""
SLOW: Sections = {
    **TIC_TAC_TOE,
    "environment": {**BROKEN["environment"], "class": "SlowTicTacToe", "options": {"pause": 0.02}},
}
"""Iterations of 0.16 seconds."""


# --- a run from beginning to end -------------------------------------------------------------------------------------


def test_last_line_is_json_about_the_run(tmp_path: Path) -> None:
    said = train(tmp_path).json
    assert [said[name] for name in TOLD[:4]] == ["run", "run/checkpoints/00000012", 12, 12 * STEPS]
    assert said["weights_sha256"] == sha256(tmp_path / str(said["checkpoint"]))
    last = records(tmp_path / "run")[-1]
    assert (said["games"], said["steps"]) == (last["games"], last["steps"])
    assert 0 < float(str(said["seconds"])) < 60
    kept = summary(tmp_path / "run")
    assert {name: kept[name] for name in said} == said
    assert kept["state"] == "finished"


def test_finished_run_says_what_next(tmp_path: Path) -> None:
    write_config(tmp_path, total(1))
    done = keisei(tmp_path, "train", "config.yaml", "--run-dir", "run")
    for command in ("keisei plot run", "keisei evaluate run", "keisei resume run run.total_steps="):
        assert command in done.output


def test_finished_run_of_a_game_without_an_opponent_offers_no_matches(tmp_path: Path) -> None:
    write_config(tmp_path, total(1), "environment={name: gymnasium, id: CartPole-v1, copies: 4}")
    done = keisei(tmp_path, "train", "config.yaml", "--run-dir", "run")
    assert "keisei plot run" in done.output
    assert "evaluate" not in done.output.partition("What next:")[2]


def test_keys_on_the_command_line_are_in_the_resolved_configuration(tmp_path: Path) -> None:
    write_config(tmp_path)
    keisei(tmp_path, "train", "config.yaml", "learner.learning_rate=0.5", total(1), "--run-dir", "run")
    for place in (tmp_path / "run", folder_of(tmp_path / "run", 1)):
        resolved = yaml.safe_load((place / run_folder.CONFIG).read_text(encoding="utf-8"))
        assert resolved["learner"]["learning_rate"] == 0.5
        assert resolved["learner"]["gamma"] == 0.99, "what was left out is not in it"


def test_runs_have_folders_of_their_own(tmp_path: Path) -> None:
    write_config(tmp_path, total(1))
    done = [keisei(tmp_path, "train", "config.yaml", "--json").json for _ in range(2)]
    one, other = (str(each["run"]) for each in done)
    assert one != other
    assert one.startswith("runs/config-")
    assert done[0]["weights_sha256"] == done[1]["weights_sha256"]


def test_smoke_configuration_runs_in_a_fresh_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "keisei", "train", str(TESTS.parent / "configs" / "smoke.yaml"), "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["steps"] == 4096
    assert records(tmp_path / said["run"])[-1]["evaluate/greedy/score"] is not None


@pytest.mark.parametrize("reader", ["head", "nobody"])
def test_run_goes_on_when_nobody_reads_its_output(tmp_path: Path, reader: str) -> None:
    write_config(tmp_path, total(3))
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    pipe = tmp_path / "pipe"
    errors = None if reader == "head" else pipe
    command = start(tmp_path, "train", "config.yaml", "--run-dir", "run", "--json", output=pipe, errors=errors)
    wait_until((tmp_path / "run" / "lock").exists)
    os.close(end)
    assert command.wait().status == 0
    assert summary(tmp_path / "run")["state"] == "finished"


# --- refusals --------------------------------------------------------------------------------------------------------


def test_folder_with_a_run_takes_no_other(tmp_path: Path) -> None:
    train(tmp_path, total(1))
    before = tree(tmp_path / "run")
    assert "run holds a run already: go on with `keisei resume run`" in train(tmp_path, "run.seed=9").refusal
    assert tree(tmp_path / "run") == before


def test_run_in_use_is_refused_with_the_process_that_uses_it(tmp_path: Path) -> None:
    write_config(tmp_path, base=SLOW)
    command = start(tmp_path, "train", "config.yaml", "--run-dir", "run")
    wait_until((tmp_path / "run" / run_folder.SUMMARY).is_file)
    for arguments in (("train", "config.yaml", "--run-dir", "run"), ("resume", "run")):
        assert keisei(tmp_path, *arguments).refusal == f"run is in use by process {command.process}"
    command.send(signal.SIGTERM)
    assert command.wait().status == 0


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("learner.learning_rat=1", "unknown key 'learner.learning_rat' on the command line (did you mean"),
        ("learner.gamma=2", "'learner.gamma' on the command line must be"),
        ("nonsense", "expected key=value"),
        ("opponents.checkpoints=[absent]", "checkpoint absent: there is no"),
        ("environment.path=absent.py", "'environment.path' must be a Python file, not 'absent.py'"),
        ("environment.class=Chess", "there is no 'Chess' in"),
        ("network={kind: convolutional}", "'network.policy' must be dense"),
    ],
)
def test_configuration_that_cannot_be_used_is_one_clear_line(tmp_path: Path, override: str, reason: str) -> None:
    write_config(tmp_path)
    refusal = keisei(tmp_path, "train", "config.yaml", override, "--run-dir", "run").refusal
    assert reason in refusal
    assert train(tmp_path, total(1)).status == 0, "the folder cannot be used any more"


def test_files_that_are_absent_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    write_config(tmp_path)
    for arguments, reason in (
        (("train", "absent.yaml"), "cannot read the configuration absent.yaml: No such file or directory"),
        (("train", "config.yaml", "--run-dir", "file"), "cannot use the run's folder file: File exists"),
        (("resume", "absent"), "there is no run in absent: it has no config.yaml"),
        (("resume", "empty"), "there is no run in empty: it has no config.yaml"),
        (("replay", "empty"), "no update has failed in empty: there is no failed/ in it"),
    ):
        assert keisei(tmp_path, *arguments).refusal == reason
    assert not (tmp_path / "runs").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_checkpoint_is_no_run(tmp_path: Path) -> None:
    train(tmp_path, total(1))
    for arguments in (
        ("resume", "run/checkpoints/00000001"),
        ("train", "config.yaml", "--run-dir", "run/checkpoints/00000001"),
    ):
        assert "is a checkpoint: name the run's folder" in keisei(tmp_path, *arguments).refusal
    assert latest(tmp_path / "run").number == 1


# --- trouble ---------------------------------------------------------------------------------------------------------


def test_game_that_breaks_ends_the_run_with_a_traceback_and_a_summary(tmp_path: Path) -> None:
    done = train(tmp_path, "run.checkpoint_interval=1", base=BROKEN)
    run = tmp_path / "run"
    assert done.status == 1
    assert "ZeroDivisionError: a bug in somebody's game" in done.errors
    assert "ZeroDivisionError: a bug in somebody's game" in (run / "traceback.txt").read_text(encoding="utf-8")
    said = summary(run)
    assert (said["state"], said["iterations"]) == ("failed", 2)
    assert "a bug in somebody's game" in str(said["reason"])
    assert said["weights_sha256"] == sha256(tmp_path / str(said["checkpoint"]))
    assert "the run has failed" in events(run, "alarm")[-1]
    assert '"state": "failed"' in keisei(tmp_path, "runs", "run", "--json").output


def test_game_that_exits_does_not_end_the_run_in_silence(tmp_path: Path) -> None:
    base = {**BROKEN, "environment": {**BROKEN["environment"], "options": {"breaks_at": 10, "exits": True}}}
    assert train(tmp_path, base=base).refusal == "something in the run has called sys.exit(0)"
    assert summary(tmp_path / "run")["state"] == "failed"


def test_weights_that_overflow_take_the_run_back_to_its_last_checkpoint(tmp_path: Path) -> None:
    done = train(tmp_path, "learner.learning_rate=1e38", "learner.final_learning_rate=1e38")
    assert "the weights are not finite after iteration 1; the run is back at checkpoint run/checkpoints/00000000" in (
        done.refusal
    )
    said = summary(tmp_path / "run")
    assert (said["state"], said["iterations"]) == ("failed", 0)
    assert '"state": "failed"' in keisei(tmp_path, "runs", "run", "--json").output


def test_update_that_failed_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise FloatingPointError("in the loss")

    with training(tmp_path, total(2)) as made, monkeypatch.context() as patch:
        patch.setattr(Policy, "evaluate", fail)
        with pytest.raises(LearningError, match="in the loss"):
            made.run()
    done = CliRunner().invoke(app, ["replay", str(tmp_path)])
    assert done.exit_code == 0
    assert "FloatingPointError: in the loss" in done.output
    assert "this time it did not fail: " in done.output
    monkeypatch.setattr(Policy, "evaluate", fail)
    assert isinstance(CliRunner().invoke(app, ["replay", str(tmp_path)]).exception, FloatingPointError)


def test_disk_that_fills_up_is_an_alarm_and_the_run_goes_on(tmp_path: Path) -> None:
    overrides = total(16), "run.checkpoint_interval=2"
    write_config(tmp_path, *overrides, base=SLOW)
    command = start(tmp_path, "train", "config.yaml", "--run-dir", "run", "--json")
    run = tmp_path / "run"
    wait_until(lambda: (run / LINES).is_file() and records(run))
    unlimited = resource.prlimit(command.process, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    wait_until(lambda: "cannot be written" in command.errors.read_text())
    wait_until(lambda: "tried again in" in command.errors.read_text())
    resource.prlimit(command.process, resource.RLIMIT_FSIZE, unlimited)
    said = command.wait().json
    (tmp_path / "again").mkdir()
    fast = {**SLOW, "environment": {**SLOW["environment"], "options": {"pause": 0}}}
    assert train(tmp_path / "again", *overrides, base=fast).json["weights_sha256"] == said["weights_sha256"]
    assert [record["iteration"] for record in records(run)] == list(range(1, 17)), "numbers are lost"
    assert int(str(summary(run)["failed_saves"])) >= 1
    assert any("is written again" in text for text in events(run, "recovered"))


def test_disk_without_room_is_refused_at_the_start(tmp_path: Path) -> None:
    config = write_config(tmp_path, "network.width=4000")
    (tmp_path / "small").mkdir()
    script = f"""
        mount -t tmpfs -o size=256k none {tmp_path}/small || exit 77
        {sys.executable} -m keisei train {config} --run-dir {tmp_path}/small/run; status=$?
        find {tmp_path}/small/run/checkpoints -mindepth 1; exit $status
    """
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount a small disk")
    assert done.returncode == 2
    assert "keisei: no space for a checkpoint in" in done.stderr
    assert done.stdout == ""
