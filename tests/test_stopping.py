"""Runs that are asked to stop, or killed: real processes, real signals. Resumed, they end with the same weights."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Command, keisei, start, wait_until
from keisei.checkpoint import numbers
from keisei.history import LINES
from keisei.stopping import Stopped, StopRequest, listening
from terminal import Terminal
from tiny_runs import STEPS, TESTS, TIC_TAC_TOE, Sections, events, records, sha256, summary, write_config

TRAIN = "train", "config.yaml", "--run-dir", "run"
ITERATIONS = 60
BUSY: Sections = {**TIC_TAC_TOE, "run": {"seed": 3, "total_steps": ITERATIONS * STEPS, "checkpoint_interval": 2}}
"""A run of about half a second that saves as often as the disk can."""
SLOW: Sections = {
    **TIC_TAC_TOE,
    "environment": {
        **TIC_TAC_TOE["environment"],
        "path": str(TESTS / "troubled_games.py"),
        "class": "SlowTicTacToe",
        "options": {"pause": 0.08, "random_plies": 2},
    },
}
"""A run whose iterations take 0.6 seconds each."""


@pytest.fixture(scope="module")
def through(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the busy run ends with when nobody stops it."""
    folder = tmp_path_factory.mktemp("through")
    write_config(folder, base=BUSY)
    return str(keisei(folder, *TRAIN, "--json").json["weights_sha256"])


def begin(folder: Path, base: Sections, *options: str) -> tuple[Command, Path]:
    """Start a run, and wait until it has done an iteration."""
    write_config(folder, base=base)
    command = start(folder, *TRAIN, *options)
    wait_until_learning(folder / "run")
    return command, folder / "run"


def wait_until_learning(run: Path) -> None:
    """Wait until an iteration is done, and the next one has begun."""
    wait_until(lambda: reached(run))
    time.sleep(0.1)


def reached(run: Path) -> int:
    """The last iteration that a run has recorded."""
    try:
        whole_lines = (run / LINES).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    return max((json.loads(line)["iteration"] for line in whole_lines), default=0)


def finish(folder: Path) -> str:
    """Resume the run to its end; gives the hash of its weights."""
    done = keisei(folder, "resume", "run", "--json").json
    assert done["state"] == "finished"
    assert done["iterations"] == ITERATIONS
    assert sha256(folder / str(done["checkpoint"])) == done["weights_sha256"]
    recorded = [record["iteration"] for record in records(folder / "run")]
    assert recorded == list(range(1, ITERATIONS + 1)), "an iteration was recorded twice, or never"
    return str(done["weights_sha256"])


def is_saving(run: Path) -> bool:
    return any(path.name.endswith(".tmp") for path in (run / "checkpoints").iterdir())


# --- once ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_asked_to_stop_saves_and_says_how_to_go_on(tmp_path: Path, number: int) -> None:
    command, run = begin(tmp_path, SLOW)
    command.send(number)
    done = command.wait(5)
    name = signal.Signals(number).name
    assert done.status == 0
    assert done.output == f"Stopped by {name} and saved. Go on with:  keisei resume run\n"
    assert f"{name}: finishing the step and saving; once more to leave at once" in done.errors
    assert "Traceback" not in done.errors
    said = summary(run)
    assert (said["state"], said["reason"]) == ("stopped", name)
    assert said["iterations"] == numbers(run)[-1] < 12
    assert "on from checkpoint" in keisei(tmp_path, "resume", "run", f"run.total_steps={3 * STEPS}").errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_run_stopped_at_random_instants_and_resumed_ends_with_the_same_weights(
    tmp_path: Path, through: str, number: int
) -> None:
    chance = random.Random(number)
    run = tmp_path / "run"
    write_config(tmp_path, base=BUSY)
    words: tuple[str, ...] = TRAIN
    for goal in (1, 12, 24, 36):
        later = max(goal, reached(run)) + chance.randint(1, 8)
        command = start(tmp_path, *words)
        wait_until(lambda: reached(run) >= later)  # noqa: B023  (called at once)
        time.sleep(chance.uniform(0, 0.01))
        command.send(number)
        done = command.wait()
        assert done.status == (-number if number == signal.SIGKILL else 0)
        assert "Traceback" not in done.errors
        words = "resume", "run"
    assert finish(tmp_path) == through


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_run_stopped_while_it_starts_can_be_started_or_resumed(tmp_path: Path, through: str, number: int) -> None:
    write_config(tmp_path, base=BUSY)
    for delay in (0, 0.02, 0.04, 0.06):
        words = ("resume", "run") if (tmp_path / "run" / "config.yaml").is_file() else TRAIN
        command = start(tmp_path, *words)
        time.sleep(delay)
        command.send(number)
        assert command.wait().status in (0, 1, 130, -number)  # it may not have come to catch the signal
    if not (tmp_path / "run" / "config.yaml").is_file():
        assert keisei(tmp_path, *TRAIN).status == 0
    assert finish(tmp_path) == through


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_run_stopped_during_a_save_and_resumed_ends_with_the_same_weights(
    tmp_path: Path, through: str, number: int
) -> None:
    command, run = begin(tmp_path, BUSY)
    wait_until(lambda: is_saving(run))
    command.send(number)
    command.wait()
    assert finish(tmp_path) == through
    assert not is_saving(run), "what a killed run was writing is still there"


def test_matches_are_left_when_the_run_is_asked_to_stop_and_played_when_it_goes_on(tmp_path: Path) -> None:
    base: Sections = {
        **TIC_TAC_TOE,
        "run": {"seed": 3, "total_steps": 2 * STEPS},
        "environment": {**TIC_TAC_TOE["environment"], "options": {}},
        "evaluation": {"interval": 0, "final_games": 3000, "against": ["random"], "opening_plies": 2},
    }
    command, run = begin(tmp_path, base)
    wait_until(lambda: numbers(run)[-1] == 2)  # saved before the last matches
    command.send(signal.SIGTERM)
    assert command.wait().status == 0
    assert summary(run)["state"] == "stopped"
    assert not any("evaluate/random/score" in record for record in records(run))
    assert keisei(tmp_path, "resume", "run", "evaluation.final_games=4").status == 0
    assert "evaluate/random/score" in records(run)[-1]
    assert summary(run)["state"] == "finished"


def test_two_signals_in_one_moment_are_one_request(tmp_path: Path) -> None:
    command, run = begin(tmp_path, SLOW)
    command.send(signal.SIGINT)  # as `timeout` does: the process, and then its group
    os.killpg(command.process, signal.SIGINT)
    assert command.wait().status == 0
    assert summary(run)["state"] == "stopped"


# --- twice -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_run_asked_twice_leaves_at_once_and_loses_its_last_step_only(tmp_path: Path, number: int, status: int) -> None:
    command, run = begin(tmp_path, SLOW)
    command.send(number)
    wait_until(lambda: "once more to leave at once" in command.errors.read_text())
    time.sleep(0.15)
    command.send(number)
    done = command.wait(5)
    assert done.status == status, "it has finished its step"
    assert "Traceback" not in done.errors
    assert summary(run)["state"] == "running", "it said nothing more"
    assert "on from checkpoint" in keisei(tmp_path, "resume", "run", f"run.total_steps={3 * STEPS}").errors


# --- terminals -------------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def test_second_ctrl_c_gives_the_cursor_back(tmp_path: Path, terminal: Terminal) -> None:
    write_config(tmp_path, base=SLOW)
    command = start(tmp_path, *TRAIN, errors=terminal.path)
    wait_until_learning(tmp_path / "run")
    for _ in range(2):
        command.send(signal.SIGINT)
        time.sleep(0.15)
    assert command.wait().status == 130
    terminal.close()
    hidden, shown = (terminal.shown.rfind(code) for code in (b"\x1b[?25l", b"\x1b[?25h"))
    assert 0 <= hidden < shown


def test_run_goes_on_without_its_terminal(tmp_path: Path, terminal: Terminal) -> None:
    write_config(tmp_path, f"run.total_steps={4 * STEPS}", base=SLOW)
    command = start(tmp_path, *TRAIN, errors=terminal.path)
    run = tmp_path / "run"
    wait_until_learning(run)
    terminal.close()
    command.send(signal.SIGHUP)
    assert command.wait().status == 0
    assert summary(run)["state"] == "finished"
    assert events(run, "stop") == ["SIGHUP: the terminal is gone, the run goes on"]
    assert any(text.startswith("the view cannot be written") for text in events(run, "alarm"))
    assert "iteration 4 " in (run / "log.txt").read_text(encoding="utf-8"), "the log did not go on"


# --- in this process -------------------------------------------------------------------------------------------------


def test_request_is_seen_where_it_is_checked() -> None:
    stop = StopRequest()
    stop.check()
    stop.ask("the test")
    assert stop.requested
    with pytest.raises(Stopped, match="the test"):
        stop.check()


def test_signals_mean_what_they_meant_before_when_listening_ends() -> None:
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]
    with listening(StopRequest(), print):
        assert all(signal.getsignal(number) not in before for number in numbers)
    assert [signal.getsignal(number) for number in numbers] == before


def test_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with listening(StopRequest(), print):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_first_signal_is_told_once() -> None:
    stop, told = StopRequest(), list[str]()
    with listening(stop, told.append):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
    assert len(told) == 1
    assert re.match("SIGINT: ", told[0])
