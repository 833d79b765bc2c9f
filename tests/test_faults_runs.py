"""Whole runs with worker processes, harmed through and through: they end with the bits of a plain loop, or say why not.

Real `keisei` commands, real workers, real signals.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from crowding import crowded
from harm import (
    AHEAD,
    BASE,
    ITERATIONS,
    WORKERS,
    HarmedRun,
    harm_throughout,
    harm_workers,
    nobody_left,
    wait_for_iteration,
    wait_for_workers,
)
from keisei.checkpoint import latest, numbers
from tiny_runs import TESTS, events, records, sha256, summary

ONE_ACTS = "parallel.inference=learner"
MODES: dict[str, tuple[str, ...]] = {
    "in turns": (),
    "ahead": (AHEAD,),
    "one acts": (ONE_ACTS,),
    "one acts, ahead": (ONE_ACTS, AHEAD, "parallel.max_lag=2"),
}
"""What changes bits, each time for itself; whoever collects, and whatever happens to them, changes none."""
ON_DEMAND = pytest.mark.faults
EACH_MODE = pytest.mark.parametrize("mode", [*list(MODES)[:3], pytest.param("one acts, ahead", marks=ON_DEMAND)])

Ends = Callable[[str], str]
"""From a mode to the hash of the weights that a run ends with when one process plays all blocks in a row."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    """What runs end with that nobody harms, without workers."""

    @cache
    def ends_with(mode: str) -> str:
        run = HarmedRun(tmp_path_factory.mktemp("plain"), *MODES[mode])
        return str(run.through()["weights_sha256"])

    return ends_with


def finished(run: HarmedRun, said: dict[str, object]) -> str:
    """Check that a run has counted everything once; gives the hash of its weights."""
    assert (said["state"], said["iterations"]) == ("finished", ITERATIONS)
    assert [record["iteration"] for record in records(run.run)] == list(range(1, ITERATIONS + 1))
    assert sha256(run.folder / str(said["checkpoint"])) == said["weights_sha256"]
    return str(said["weights_sha256"])


# --- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "workers", "shared"),
    [
        ("in turns", 2, "true"),
        ("in turns", 4, "true"),
        ("in turns", 2, "false"),
        ("ahead", 1, "true"),
        ("ahead", 4, "false"),
        ("one acts", 2, "true"),
        ("one acts, ahead", 4, "false"),
        *(
            pytest.param(mode, workers, shared, marks=ON_DEMAND)
            for mode in MODES
            for workers in (1, 2, 4)
            for shared in ("true", "false")
        ),
    ],
)
def test_run_with_workers_ends_with_the_weights_of_a_plain_loop(
    tmp_path: Path, plain: Ends, mode: str, workers: int, shared: str
) -> None:
    run = HarmedRun(
        tmp_path,
        *MODES[mode],
        "parallel.enabled=true",
        f"parallel.num_workers={workers}",
        f"parallel.use_shared_memory={shared}",
    )
    assert finished(run, run.through()) == plain(mode)
    assert records(run.run)[-1]["parallel/restarts"] == 0


def test_run_with_fresh_workers_ends_with_the_weights_of_a_plain_loop(tmp_path: Path, plain: Ends) -> None:
    run = HarmedRun(tmp_path, "parallel.enabled=true", "parallel.num_workers=1")
    assert finished(run, run.through(how="start")) == plain("in turns")


def test_modes_end_with_weights_of_their_own(plain: Ends) -> None:
    assert len({plain(mode) for mode in MODES}) == len(MODES)


@EACH_MODE
def test_run_whose_workers_are_killed_at_random_instants_ends_with_the_same_weights(
    tmp_path: Path, plain: Ends, mode: str
) -> None:
    """From its first moment to its last."""
    run = HarmedRun(tmp_path, *WORKERS, *MODES[mode], f"parallel.use_shared_memory={str(mode != 'ahead').lower()}")
    command = run.begin()
    kills = harm_throughout(run, command, random.Random(11), signal.SIGKILL)
    assert finished(run, command.wait().json) == plain(mode)
    assert kills >= 5
    said = "\n".join(events(run.run, "alarm"))
    assert said.count("exit by SIGKILL") >= 3, said
    assert nobody_left(command)


@EACH_MODE
def test_run_whose_worker_is_stopped_ends_with_the_same_weights(tmp_path: Path, plain: Ends, mode: str) -> None:
    run = HarmedRun(tmp_path, *WORKERS, *MODES[mode])
    command = run.begin()
    wait_for_iteration(run, 3, command)
    harm_workers(command, random.Random(13), signal.SIGSTOP, times=2)
    assert finished(run, command.wait().json) == plain(mode)
    assert "stopped by a signal" in "\n".join(events(run.run, "alarm"))
    assert nobody_left(command)


@EACH_MODE
def test_run_stopped_killed_and_resumed_with_other_numbers_of_workers_ends_with_the_same_weights(
    tmp_path: Path, plain: Ends, mode: str
) -> None:
    run = HarmedRun(tmp_path, *WORKERS, *MODES[mode])
    command = run.begin()
    wait_for_iteration(run, 8, command)
    command.send(signal.SIGTERM)
    assert command.wait().json["state"] == "stopped"
    command = run.resume("parallel.num_workers=1")
    wait_for_iteration(run, 20, command)
    command.send(signal.SIGKILL)
    assert command.wait().status == -signal.SIGKILL
    assert nobody_left(command)
    skipped = any("is skipped" in text for text in events(run.run, "alarm"))
    assert latest(run.run).number >= 15 or skipped, "more than one interval is lost"
    command = run.resume("parallel.num_workers=3", "parallel.use_shared_memory=false")
    wait_for_iteration(run, 27, command)
    command.send(signal.SIGINT)
    command.wait()
    assert finished(run, run.resume("parallel.enabled=false").wait().json) == plain(mode)


# --- the budget ------------------------------------------------------------------------------------------------------


def test_storm_of_kills_ends_in_this_process_with_the_same_weights(tmp_path: Path, plain: Ends) -> None:
    run = HarmedRun(tmp_path, *WORKERS, "parallel.max_restarts=5")
    command = run.begin()
    harm_workers(command, random.Random(14), signal.SIGKILL, times=1000)
    assert finished(run, command.wait().json) == plain("in turns")
    assert "FROM HERE ON BLOCKS ARE PLAYED IN THE LEARNER'S PROCESS" in events(run.run, "alarm")[-1]
    assert records(run.run)[-1]["parallel/degraded"] == 1


def test_storm_of_kills_stops_the_run_with_a_checkpoint_and_a_status_of_its_own(tmp_path: Path, plain: Ends) -> None:
    run = HarmedRun(
        tmp_path, *WORKERS, "parallel.max_restarts=5", "parallel.on_failure=stop", "run.checkpoint_interval=1000"
    )
    command = run.begin()
    wait_for_iteration(run, 3, command)
    harm_workers(command, random.Random(15), signal.SIGKILL, times=1000)
    done = command.wait()
    assert done.status == 75, done
    assert "the budget of 5 restarts is spent" in done.errors
    last = done.errors.splitlines()[-1]
    assert last.startswith("keisei: ")
    assert f"the run is saved: run/checkpoints/{numbers(run.run)[-1]:08d}; go on with `keisei resume run`" in last
    assert "Traceback" not in done.errors
    assert latest(run.run).number == run.reached()
    assert (summary(run.run)["state"], nobody_left(command)) == ("failed", True)
    assert finished(run, run.resume().wait().json) == plain("in turns")


# --- a game that fails -----------------------------------------------------------------------------------------------


def test_block_that_fails_twice_stops_the_run_with_a_checkpoint_and_how_to_see_it_again(
    tmp_path: Path, plain: Ends
) -> None:
    file = tmp_path / "unlucky"
    options = {"file": str(file), "random_plies": 2}
    run = HarmedRun(
        tmp_path,
        *WORKERS,
        "run.checkpoint_interval=1000",
        base={**BASE, "environment": {**BASE["environment"], "class": "UnluckyTicTacToe", "options": options}},
    )
    command = run.begin()
    wait_for_iteration(run, 3, command)
    file.touch()
    done = command.wait()
    assert done.status == 2
    for said in (r"block \d of iteration \d+ failed twice", "ZeroDivisionError: a bug in somebody's game", "seed 3"):
        assert re.search(said, done.errors), done.errors
    assert f"the run is saved: run/checkpoints/{run.reached():08d}; go on with `keisei resume run`" in done.errors
    assert "parallel.enabled=false" in done.errors
    assert latest(run.run).number == run.reached() >= 3
    here = run.resume("parallel.enabled=false").wait()
    assert (here.status, nobody_left(command)) == (1, True)
    assert "in step\n    raise ZeroDivisionError" in here.errors
    file.unlink()
    assert finished(run, run.resume().wait().json) == plain("in turns")


# --- signals to the learner ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_run_with_workers_ended_at_random_instants_leaves_nobody_and_goes_on(
    tmp_path: Path, plain: Ends, number: int
) -> None:
    chance, shared = random.Random(number), set(os.listdir("/dev/shm"))
    run = HarmedRun(tmp_path, *WORKERS)
    command = run.begin()
    for later in (2, 9):
        wait_for_iteration(run, later, command)
        time.sleep(chance.uniform(0, 0.05))
        asked = time.monotonic()
        os.killpg(command.process, number) if number == signal.SIGINT else command.send(number)
        done = command.wait()
        assert time.monotonic() - asked < crowded(5)
        assert done.status == (-number if number == signal.SIGKILL else 0)
        assert "Traceback" not in done.errors
        assert nobody_left(command)
        command = run.resume()
    assert finished(run, command.wait().json) == plain("in turns")
    assert set(os.listdir("/dev/shm")) <= shared
    assert not list((run.run / "checkpoints").glob(".*"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_second_request_ends_the_run_and_its_workers_at_once(tmp_path: Path, number: int, status: int) -> None:
    slow = {**BASE, "environment": {**BASE["environment"], "options": {"pause": 0.2, "random_plies": 2}}}
    run = HarmedRun(tmp_path, *WORKERS, base=slow)
    command = run.begin()
    wait_for_workers(command)
    time.sleep(0.5)
    for _ in range(3):
        os.killpg(command.process, number)
        time.sleep(0.15)
    done = command.wait(5)
    assert done.status == status
    assert "Traceback" not in done.errors
    assert nobody_left(command)
    assert str(TESTS) not in done.errors
