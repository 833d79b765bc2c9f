"""Workers that are stopped, or stuck: seen, ended for certain and replaced, and how that breaks without protection."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from crowding import crowded
from forked import is_there
from keisei.parallel.communication import WorkerCommunicator
from trouble import holds_the_interpreter, stops
from workers import (
    GameName,
    Troubled,
    WithTrouble,
    collected,
    managed,
    network,
    process_ids,
    rules,
    serially,
)

pytestmark = pytest.mark.usefixtures("quick_workers", "short_pauses")
NAME: GameName = "tic-tac-toe"


# --- rows 5, 6 and 7: stopped, or stuck ------------------------------------------------------------------------------


@dataclass(frozen=True)
class StopsAndSaysWhen:
    """Stops the process, after it has noted the moment."""

    file: Path

    def __call__(self, troubled: Troubled) -> None:
        self.file.write_text(repr(time.monotonic()))
        stops(troubled)


def seconds_until_replaced(folder: Path, limit: float) -> float:
    """How long it takes until a worker that is stopped in the middle of a block was found and killed."""
    found = list[float]()

    def say(text: str) -> None:
        if "no sign of life" in text:
            found.append(time.monotonic() - float((folder / "when").read_text()))

    folder.mkdir()
    build = WithTrouble(StopsAndSaysWhen(folder / "when"), flag=folder / "once")
    with managed(rules(build=build), worker_timeout=limit) as manager:
        manager._say = say
        assert collected(manager, NAME, 1) == serially(NAME, 1)
    return found[0]


def test_hang_is_seen_within_the_limit_and_a_tenth_of_a_second(tmp_path: Path) -> None:
    """The machine may be busy with others, so the best of some counts."""
    best = min(seconds_until_replaced(tmp_path / str(number), 0.5) for number in range(5))
    assert 0.4 < best < 0.5 + crowded(0.1)


def woken_after(seconds: float, processes: list[int]) -> threading.Timer:
    """Stop processes now, and wake them later."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)

    def wake() -> None:
        for process in processes:
            if is_there(process):
                os.kill(process, signal.SIGCONT)

    timer = threading.Timer(seconds, wake)
    timer.start()
    return timer


def restarts_of_a_short_stop() -> float:
    with managed(worker_timeout=20.0) as manager:
        collected(manager, NAME, 1)
        timer = woken_after(0.5, process_ids(manager))
        assert collected(manager, NAME, 2, first=1) == serially(NAME, 3)[1:]
        timer.join()
        return manager.statistics()["parallel/restarts"]


def test_stop_shorter_than_the_limit_costs_no_worker() -> None:
    assert restarts_of_a_short_stop() == 0


def test_without_patience_a_short_stop_costs_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    original = WorkerCommunicator.silent_for

    def silent_for(worker: WorkerCommunicator, now: float) -> float:
        return 1e9 if worker.is_stopped() else original(worker, now)

    monkeypatch.setattr(WorkerCommunicator, "silent_for", silent_for)
    assert restarts_of_a_short_stop() == 2


def stuck_ones_left(folder: Path) -> list[int]:
    """Which workers are still there when one that was stuck has been replaced, and all of them have been ended."""
    build = WithTrouble(holds_the_interpreter, flag=folder / "once")
    with managed(rules(build=build), worker_timeout=0.5) as manager:
        manager.start_workers(network(NAME, 0))
        workers = process_ids(manager)
        assert collected(manager, NAME, 2) == serially(NAME, 2)
    return [process for process in workers if is_there(process)]


def test_worker_that_is_stuck_in_c_is_gone_for_certain(tmp_path: Path) -> None:
    assert stuck_ones_left(tmp_path) == []


def test_with_a_polite_signal_a_worker_that_is_stuck_in_c_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = WorkerCommunicator.end

    def ask_to_end(worker: WorkerCommunicator) -> int:
        if worker.silent_for(time.monotonic()) < 0.5:
            return original(worker)
        signal.pidfd_send_signal(worker.descriptor, signal.SIGTERM)
        worker.line.close()
        os.close(worker.descriptor)
        return -signal.SIGTERM

    monkeypatch.setattr(WorkerCommunicator, "end", ask_to_end)
    (stuck,) = stuck_ones_left(tmp_path)
    os.kill(stuck, signal.SIGKILL)
    os.waitpid(stuck, 0)
