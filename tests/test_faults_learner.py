"""What becomes of a run with workers when its learner gets signals, loses its terminal, or meets a second one.

Real `keisei` commands; each fault once more without what protects from it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Command, wait_until
from harm import AHEAD, ITERATIONS, WORKERS, HarmedRun, is_running, nobody_left, wait_for_iteration
from keisei.checkpoint import numbers
from keisei.history import LINES
from terminal import Terminal
from tiny_runs import events, records, summary

SELDOM = "run.checkpoint_interval=1000"


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def begun(folder: Path, *overrides: str, how: str = "quickly") -> tuple[HarmedRun, Command]:
    """A run with workers that has done some iterations."""
    run = HarmedRun(folder, *WORKERS, *overrides)
    command = run.begin(how=how)
    wait_for_iteration(run, 3, command)
    return run, command


# --- row 18: asked to end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [(), (AHEAD,)], ids=["in turns", "ahead"])
def test_run_that_is_asked_to_end_saves_the_update_that_it_is_at(tmp_path: Path, ahead: tuple[str, ...]) -> None:
    run, command = begun(tmp_path, SELDOM, *ahead)
    command.send(signal.SIGTERM)
    done = command.wait(5)
    assert done.status == 0
    assert numbers(run.run)[-1] == run.reached() >= 3
    assert (summary(run.run)["state"], nobody_left(command)) == ("stopped", True)


def test_run_that_does_not_listen_ends_without_a_checkpoint(tmp_path: Path) -> None:
    run, command = begun(tmp_path, SELDOM, how="without listening")
    command.send(signal.SIGTERM)
    assert command.wait(5).status == -signal.SIGTERM
    assert numbers(run.run) == [0]
    assert nobody_left(command)


# --- row 19: Ctrl-C --------------------------------------------------------------------------------------------------


def interrupted(folder: Path, how: str) -> str:
    """What a run says whose whole group is interrupted."""
    run, command = begun(folder, how=how)
    os.killpg(command.process, signal.SIGINT)
    done = command.wait()
    assert nobody_left(command)
    return done.errors + "\n".join(events(run.run, "alarm"))


def test_ctrl_c_is_no_business_of_workers(tmp_path: Path) -> None:
    said = interrupted(tmp_path, "quickly")
    assert "Traceback" not in said
    assert "worker" not in said


def test_workers_that_hear_ctrl_c_break_off(tmp_path: Path) -> None:
    said = interrupted(tmp_path, "without deafness")
    assert "KeyboardInterrupt" in said


# --- row 20: nobody watches any more ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["quickly", "without listening"])
def test_run_with_workers_goes_on_when_its_terminal_is_closed(tmp_path: Path, terminal: Terminal, how: str) -> None:
    run = HarmedRun(tmp_path, *WORKERS)
    command = run.begin(how=how, errors=terminal.path)
    wait_for_iteration(run, 3, command)
    terminal.close()
    command.send(signal.SIGHUP)
    status = command.wait().status
    assert nobody_left(command)
    if how == "without listening":
        assert status == -signal.SIGHUP
        return
    assert status == 0
    assert summary(run.run)["state"] == "finished"
    assert f"iteration {ITERATIONS} " in (run.run / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", ["quickly", "without patience"])
def test_run_with_workers_goes_on_when_nobody_reads_what_it_says(tmp_path: Path, how: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run = HarmedRun(tmp_path, *WORKERS)
    command = run.begin(how=how, output=tmp_path / "pipe", errors=tmp_path / "pipe")
    wait_until((run.run / "lock").exists)
    os.close(end)
    status = command.wait().status
    assert nobody_left(command)
    assert (status == 0) == (summary(run.run)["state"] == "finished") == (how == "quickly")


# --- row 46: a second run in the same folder -------------------------------------------------------------------------


def test_second_run_in_a_folder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    run, command = begun(tmp_path)
    second = run.resume().wait()
    assert second.refusal == f"run is in use by process {command.process}"
    assert command.wait().json["state"] == "finished"
    assert [record["iteration"] for record in records(run.run)] == list(range(1, ITERATIONS + 1))


def test_lock_of_a_killed_run_is_taken_over(tmp_path: Path) -> None:
    run, command = begun(tmp_path, "run.checkpoint_interval=1")
    command.send(signal.SIGKILL)
    command.wait()
    assert run.resume().wait().json["state"] == "finished"


def test_without_the_lock_two_runs_write_into_one_folder(tmp_path: Path) -> None:
    run, command = begun(tmp_path, how="without lock")
    second = run.resume(how="without lock")
    wait_until(lambda: not is_running(second) or second_has_begun(run))
    for one in (command, second):
        if is_running(one):
            one.send(signal.SIGKILL)
        one.wait()
    assert second_has_begun(run)


def second_has_begun(run: HarmedRun) -> bool:
    """Whether somebody has taken the numbers of a run that goes on back to a checkpoint of it."""
    try:
        return any('"resume"' in line for line in (run.run / LINES).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return False
