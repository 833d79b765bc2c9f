"""Machines that have no more to give: descriptors, processes, processors. Real limits, and each without protection."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from forked import Tell, become_nobody, forked
from keisei.parallel import communication, crew
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.messages import Setup
from keisei.parallel.shared_memory import UInt64
from keisei.parallel.spawner import Spawner
from keisei.parallel.starvation import Starvation
from workers import GameName, Log, collected, everybody, managed, network, process_ids, rules, serially

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("quick_workers", "short_pauses")]
NAME: GameName = "tic-tac-toe"
LIMIT, MANY = 64, 32
HOGS = 8


# --- row 41: descriptors ---------------------------------------------------------------------------------------------


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - 1


def play_with_few_descriptors(tell: Tell) -> None:
    """Ask for more workers than there are descriptors for; say who plays, and what is free then and left at the end."""
    before, log = descriptors(), Log()
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    with managed(workers=MANY, blocks=MANY, log=log) as manager:
        assert collected(manager, NAME, 1) == serially(NAME, 1, blocks=MANY)
        playing, free = len(process_ids(manager)), LIMIT - descriptors()
    del manager
    gc.collect()
    tell([playing, free, log.text, descriptors() - before])


def heard_of_few_descriptors(folder: Path) -> tuple[int, int, str, int]:
    with forked(play_with_few_descriptors, folder) as child:
        said = child.hear()
    assert isinstance(said, list)
    return tuple(said)


def test_fewer_workers_play_where_descriptors_run_out_and_some_are_left_to_others(tmp_path: Path) -> None:
    playing, free, said, left = heard_of_few_descriptors(tmp_path)
    assert 0 < playing < MANY
    assert free >= 15
    assert left == 0
    assert f"no worker could be started: [Errno 24] Too many open files (at most {LIMIT}; see `ulimit -n`)" in said
    assert f"of {MANY} play" in said


def test_without_that_rule_workers_take_the_last_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communication, "_require_descriptors", lambda: None)
    assert heard_of_few_descriptors(tmp_path)[1] < 5


# --- row 42: processes -----------------------------------------------------------------------------------------------


def play_with_few_processes(folder: Path, most: int, workers: int = 4) -> tuple[int, float, str]:
    """How many of the workers played where there may be so many processes and threads, and what was said."""

    serially(NAME, 1)  # loads what must be loaded, which nobody may do later

    def work(tell: Tell) -> None:
        become_nobody()
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        log = Log()
        with managed(workers=workers, log=log) as manager:
            assert collected(manager, NAME, 2) == serially(NAME, 2)
            numbers = manager.statistics()
        tell([sum(name.endswith("/silent_seconds") for name in numbers), numbers["parallel/degraded"], log.text])

    with forked(work, folder) as child:
        said = child.hear()
    assert isinstance(said, list)
    return tuple(said)


def test_fewer_workers_play_where_there_may_be_no_more_processes(tmp_path: Path) -> None:
    playing, degraded, said = play_with_few_processes(tmp_path, most=4)  # this one, the thread that starts them, two
    assert (playing, degraded) == (2, 0)
    assert "no worker could be started: [Errno 11] Resource temporarily unavailable; 2 of 4 play" in said


@pytest.mark.parametrize("most", [1, 2], ids=["no thread", "no process"])
def test_this_process_plays_where_there_may_be_no_other(tmp_path: Path, most: int) -> None:
    playing, degraded, said = play_with_few_processes(tmp_path, most)
    assert (playing, degraded) == (0, 1)
    assert "PLAYED IN THE LEARNER'S PROCESS" in said


def test_without_that_care_a_process_that_cannot_be_started_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def start(setup: Setup, heartbeats: UInt64, spawner: Spawner) -> WorkerCommunicator:
        try:
            return WorkerCommunicator(setup, heartbeats, spawner)
        except OSError as error:
            raise RuntimeError("nobody expects that") from error

    monkeypatch.setattr(crew, "WorkerCommunicator", start)
    with pytest.raises(AssertionError, match="without a word"):
        play_with_few_processes(tmp_path, most=4)


# --- row 45: processors ----------------------------------------------------------------------------------------------


def burn() -> None:
    while True:
        pass


@contextmanager
def hogs(core: int) -> Iterator[None]:
    """Busy loops on one core."""
    processes = []
    for _ in range(HOGS):
        process = os.fork()
        if process == 0:
            os.sched_setaffinity(0, {core})
            burn()
        processes.append(process)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, 9)
            os.waitpid(process, 0)


def starve(processes: Sequence[int], core: int) -> None:
    """Let processes have what a core leaves over; to them, the busy loops there are as at `nice -20`."""
    for process in processes:
        os.sched_setaffinity(process, {core})
        os.setpriority(os.PRIO_PROCESS, process, 19)


def restarts_of_the_starved() -> float:
    """How many workers are taken for hung while hardly any processor is left for them."""
    core = max(os.sched_getaffinity(0))
    with managed(rules(steps=8), worker_timeout=0.3, max_restarts=1000) as manager:
        manager.start_workers(network(NAME, 0))
        with hogs(core):
            starve(everybody(manager), core)
            until = time.monotonic() + 6.0
            iteration = 0
            while time.monotonic() < until:
                assert collected(manager, NAME, 1, first=iteration) == serially(NAME, iteration + 1, steps=8)[-1:]
                iteration += 1
        return manager.statistics()["parallel/restarts"]


def test_starved_workers_are_not_taken_for_hung() -> None:
    assert restarts_of_the_starved() == 0


def test_without_counting_what_they_waited_for_a_processor_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Starvation, "seconds", lambda self, now: 0.0)
    assert restarts_of_the_starved() > 0
