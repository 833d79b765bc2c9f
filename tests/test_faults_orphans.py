"""Workers and those they depend on: they end with the learner, however it ends, and with nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import Tell, forked, gone_within, is_there, named_memory
from keisei.parallel import entry, spawner
from keisei.parallel.spawner import Spawner
from trouble import holds_the_interpreter, nothing, stops
from workers import (
    GameName,
    Trouble,
    WithTrouble,
    collected,
    everybody,
    managed,
    network,
    process_ids,
    rules,
    serially,
    wait_for_spare,
)

pytestmark = pytest.mark.usefixtures("quick_workers", "short_pauses")
NAME: GameName = "tic-tac-toe"


# --- rows 15, 16 and 17: whom workers outlive ------------------------------------------------------------------------


def a_learner(trouble: Trouble, flag: Path) -> Callable[[Tell], None]:
    """A process with workers that play on and on; says who they are, the one first that gets into trouble."""

    def work(tell: Tell) -> None:
        with managed(rules(build=WithTrouble(trouble, flag=flag)), workers=3, worker_timeout=60.0) as manager:
            manager.start_workers(network(NAME, 0))
            wait_for_spare(manager)
            tell(everybody(manager))
            for iteration in range(1 << 30):
                manager.collect(iteration)

    return work


@pytest.mark.parametrize("trouble", [nothing, holds_the_interpreter, stops], ids=["at work", "stuck in C", "stopped"])
def test_workers_die_with_the_learner_and_leave_nothing(tmp_path: Path, trouble: Trouble) -> None:
    (tmp_path / "temporary").mkdir()
    with forked(a_learner(trouble, tmp_path / "once"), tmp_path / "temporary") as child:
        workers = child.numbers()
        assert len(workers) == 4
        wait_until_there(tmp_path / "once")
        assert named_memory([child.pid, *workers]) == set()
        child.kill()
        assert gone_within(workers, 1.0)
    assert not list((tmp_path / "temporary").iterdir())


def wait_until_there(file: Path) -> None:
    until = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_last_worker_dies_when_everybody_else_is_killed(tmp_path: Path) -> None:
    with forked(a_learner(stops, tmp_path / "once"), tmp_path) as child:
        workers = child.numbers()
        wait_until_there(tmp_path / "once")
        (stopped,) = [one for one in workers if state_of(one) == "T"]
        for process in set(workers) - {stopped}:
            os.kill(process, signal.SIGKILL)
        child.kill()
        assert gone_within(workers, 1.0)


def state_of(process: int) -> str:
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_without_the_signal_of_the_parents_death_a_worker_stuck_in_c_outlives_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "_die_with_parent", lambda parent: None)
    with forked(a_learner(holds_the_interpreter, tmp_path / "once"), tmp_path) as child:
        workers = child.numbers()
        wait_until_there(tmp_path / "once")
        child.kill()
        assert not gone_within(workers, 1.5)
        (left,) = [process for process in workers if is_there(process)]
        os.kill(left, signal.SIGKILL)


def who_lives_after_the_thread_that_started_them() -> tuple[list[int], list[int]]:
    """The workers before and after, and the rollouts that they play."""
    with managed() as manager:
        thread = threading.Thread(target=manager.start_workers, args=(network(NAME, 0),))
        thread.start()
        thread.join()
        before = process_ids(manager)
        time.sleep(0.1)
        assert collected(manager, NAME, 2) == serially(NAME, 2)
        return before, process_ids(manager)


def test_workers_outlive_the_thread_that_asked_for_them() -> None:
    before, now = who_lives_after_the_thread_that_started_them()
    assert now == before


def test_started_by_that_thread_itself_they_die_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Spawner, line: int, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
        return spawner._start((line, *descriptors))

    monkeypatch.setattr(Spawner, "start", start)
    before, now = who_lives_after_the_thread_that_started_them()
    assert not set(before) & set(now)
