"""The manager as a library: start, collect, publish, pause, reset, numbers, stop; and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from torch import nn

from commands import wait_until
from forked import gone_within, named_memory
from harm import children
from keisei.environment import Environment, UInt8
from keisei.errors import WorkerError
from keisei.parallel.code import loaded_files, package_files
from keisei.parallel.communication import resident_bytes
from keisei.parallel.manager import ParallelManager, ParallelSettings
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.starvation import state_of
from keisei.policy import Policy, encode_numbers
from trouble import stops
from workers import (
    BLOCKS,
    GameName,
    Log,
    WithTrouble,
    collected,
    digest,
    environment,
    managed,
    network,
    process_ids,
    rules,
    serially,
)

pytestmark = pytest.mark.usefixtures("quick_workers")
NAME: GameName = "tic-tac-toe"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_library_snippet_of_the_design() -> None:
    model, log = network(NAME, 0), Log()
    manager = ParallelManager(rules(), ParallelSettings(blocks=BLOCKS, num_workers=2), log)
    manager.start_workers(model)
    found = []
    for step in range(3):
        found.append(digest(manager.collect_experiences()))
        model.load_state_dict(network(NAME, step + 1).state_dict())
        assert manager.sync_model_if_needed(model, step)
    manager.stop_workers()
    manager.close()
    manager.close()
    assert found == serially(NAME, 3)
    assert not log


def test_weights_are_published_at_the_interval_only() -> None:
    model = network(NAME, 0)
    with managed(model_sync_interval=3, workers=1) as manager:
        assert [manager.sync_model_if_needed(model, step) for step in range(6)] == [False, False, True] * 2


def test_workers_can_be_stopped_and_started_again_and_games_go_on() -> None:
    with managed() as manager:
        found = collected(manager, NAME, 2)
        manager.stop_workers()
        assert found + collected(manager, NAME, 1, first=2) == serially(NAME, 3)


def test_reset_begins_anew() -> None:
    with managed() as manager:
        found = collected(manager, NAME, 2)
        manager.reset()
        assert collected(manager, NAME, 2) == found


def test_pause_holds_another_thread_until_resume_and_refuses_its_own() -> None:
    with managed(workers=1) as manager:
        collected(manager, NAME, 1)
        manager.pause()
        with pytest.raises(WorkerError, match="call resume"):
            manager.collect(1)
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.extend(collected(manager, NAME, 1, first=1)))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        manager.resume()
        thread.join(10)
        assert found == serially(NAME, 2)[1:]


def test_statistics_tell_what_workers_did() -> None:
    with managed() as manager:
        manager.publish(network(NAME, 0).state_dict(), 0)
        rollout = manager.collect(0)
        numbers = manager.statistics()
        assert sum(numbers[f"worker/{place}/steps"] for place in range(2)) == rollout.steps
        assert sum(numbers[f"worker/{place}/games"] for place in range(2)) == rollout.ended.sum()
        assert sum(numbers[f"worker/{place}/reward"] for place in range(2)) == rollout.reward.sum() != 0
        assert [numbers[f"worker/{place}/restarts"] for place in range(2)] == [0, 0]
        assert [numbers[f"worker/{place}/silent_seconds"] for place in range(2)] == [0, 0], "they wait for orders"
        assert numbers["parallel/syncs"] == 1
        assert numbers["parallel/sync_bytes"] > 0
        assert numbers["memory/all"] > numbers["memory/worker_0"] > 1e6
        manager.publish(network(NAME, 1).state_dict(), 1)
        assert manager.statistics()["parallel/version_lag"] == 1


def test_statistics_tell_who_was_killed_and_keep_what_the_dead_did() -> None:
    with managed() as manager:
        manager.publish(network(NAME, 0).state_dict(), 0)
        rewards = manager.collect(0).reward.sum()
        os.kill(process_ids(manager)[1], signal.SIGKILL)
        rewards += manager.collect(1).reward.sum()
        numbers = manager.statistics()
    assert [numbers[f"worker/{place}/restarts"] for place in range(2)] == [0, 1]
    assert numbers["parallel/restarts"] == 1
    assert sum(numbers[f"worker/{place}/reward"] for place in range(2)) == rewards != 0


def test_statistics_tell_how_long_a_worker_has_been_silent(tmp_path: Path) -> None:
    build = WithTrouble(stops, flag=tmp_path / "stopped")
    with managed(rules(build=build)) as manager:
        manager.start_workers(network(NAME, 0))
        thread = threading.Thread(target=manager.collect, args=(0,))
        began = time.monotonic()
        thread.start()
        wait_until((tmp_path / "stopped").exists)
        stopped = time.monotonic()
        time.sleep(0.4)
        numbers = manager.statistics()
        now = time.monotonic()
        (silent,) = [place for place, process in enumerate(process_ids(manager)) if state_of(process) == "T"]
        os.kill(process_ids(manager)[silent], signal.SIGCONT)
        thread.join(20)
        assert now - stopped - 0.2 < numbers[f"worker/{silent}/silent_seconds"] <= now - began
        assert numbers[f"worker/{1 - silent}/silent_seconds"] == 0, "it waits for orders"
        assert manager.statistics()[f"worker/{silent}/silent_seconds"] == 0
        assert manager.statistics()["parallel/restarts"] == 0


def test_statistics_tell_how_long_publishing_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = ModelSynchronizer._seal

    def seal_slowly(sync: ModelSynchronizer, places: Sequence[UInt8]) -> None:
        time.sleep(0.02)
        seal(sync, places)

    monkeypatch.setattr(ModelSynchronizer, "_seal", seal_slowly)
    with managed(workers=1) as manager:
        began = time.perf_counter()
        for version in range(4):
            manager.publish(network(NAME, version).state_dict(), version)
        took = time.perf_counter() - began
        numbers = manager.statistics()
    assert numbers["parallel/syncs"] == 4
    assert 20 <= numbers["parallel/sync_ms"] <= 1e3 * took / 4


def test_environment_without_saved_states_stays_with_its_worker_and_the_log_says_so_once() -> None:
    log = Log()
    with managed(rules(build=WithTrouble(print, at=10**9, saved=False)), log=log) as manager:
        found = collected(manager, NAME, 3)
        assert manager.state()["states"].numel() == 0
        assert found == serially(NAME, 3)
        os.kill(process_ids(manager)[0], signal.SIGKILL)
        collected(manager, NAME, 3, first=3)
        manager.reset()
        assert collected(manager, NAME, 3) == found
    assert log.text.count("cannot save its states") == 1


PARENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from workers import *
with managed(workers=2) as manager:
    collected(manager, "tic-tac-toe", 1)
    print(*process_ids(manager), flush=True)
    while True:
        collected(manager, "tic-tac-toe", 1)
"""


def a_run() -> tuple[subprocess.Popen[str], list[int]]:
    """A process with a manager that plays on and on, and the numbers of its workers."""
    command = [sys.executable, "-c", PARENT, str(Path(__file__).parent)]
    parent = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    return parent, [int(number) for number in parent.stdout.readline().split()]


def test_workers_die_with_their_parent_and_leave_nothing() -> None:
    parent, workers = a_run()
    assert len(workers) == 2
    assert named_memory([parent.pid, *workers]) == set()
    os.kill(parent.pid, signal.SIGKILL)
    assert gone_within(workers, 1.0)
    parent.communicate()


def test_ctrl_c_to_the_group_ends_in_one_traceback_which_is_not_a_workers() -> None:
    parent, workers = a_run()
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=20)
    assert errors.count("Traceback") == 1, errors
    assert "parallel/worker.py" not in errors
    assert gone_within(workers, 1.0)


@pytest.mark.parametrize("cycles", [3, pytest.param(100, marks=pytest.mark.long)])
def test_starting_and_stopping_leaks_nothing(cycles: int) -> None:
    """Neither descriptors nor memory, processes or threads."""

    def cycle() -> None:
        with managed(workers=1) as manager:
            collected(manager, NAME, 1)

    def belongings() -> tuple[int, int, int]:
        gc.collect()
        return descriptors(), threading.active_count(), len(children(os.getpid()))

    for _ in range(3):
        cycle()
    before, memory = belongings(), resident_bytes(os.getpid())
    for _ in range(cycles):
        cycle()
    assert belongings() == before
    assert resident_bytes(os.getpid()) - memory < 8 << 20


def test_budget_spent_goes_on_in_this_process_or_stops() -> None:
    log = Log()
    with managed(log=log, workers=1, max_restarts=0) as manager:
        found = collected(manager, NAME, 1)
        os.kill(process_ids(manager)[0], signal.SIGKILL)
        found += collected(manager, NAME, 2, first=1)
        assert found == serially(NAME, 3)
        assert manager.statistics()["parallel/degraded"] == 1
        assert manager.statistics()["parallel/restarts"] == 1
    assert "IN THE LEARNER'S PROCESS" in log.text
    with managed(workers=1, max_restarts=0, on_failure="stop") as manager:
        collected(manager, NAME, 1)
        os.kill(process_ids(manager)[0], signal.SIGKILL)
        with pytest.raises(WorkerError, match="budget"):
            collected(manager, NAME, 1, first=1)


def test_worker_of_other_code_is_refused() -> None:
    with managed(workers=1) as manager:
        manager._code["parallel/worker.py"] = "other"
        with pytest.raises(WorkerError, match=r"other code .* parallel/worker.py changed"):
            collected(manager, NAME, 1)


@dataclass(frozen=True)
class Elsewhere:
    """Builds as many bytes in a worker as at home, in other shapes or under other names."""

    what: str
    home: int = field(default_factory=os.getpid)

    def environment(self, first_lane: int) -> Environment:
        made = environment(NAME, first_lane)
        if self.what == "slabs" and os.getpid() != self.home:
            (group,) = made.groups
            vars(made)["groups"] = (replace(group, shape=group.shape[::-1]),)
        return made

    def policy(self) -> Policy:
        made = network(NAME)
        if self.what == "weights" and os.getpid() != self.home:
            made.body = nn.Sequential(made.body)
        return Policy(made, encode_numbers)


@pytest.mark.parametrize("what", ["slabs", "weights"])
def test_worker_of_other_shapes_or_names_is_refused(what: str) -> None:
    other = Elsewhere(what)
    of = replace(rules(build=other.environment), build_policy=other.policy)
    with (
        managed(of, workers=1) as manager,
        pytest.raises(WorkerError, match=rf"does not fit: its {what} have other shapes or dtypes"),
    ):
        collected(manager, NAME, 1)


def test_native_code_is_part_of_the_code() -> None:
    assert any(name.startswith("shogi/_native.") for name in package_files())
    assert package_files().items() >= loaded_files().items()


def test_worker_that_cannot_start_says_why() -> None:
    class Unreadable(WithTrouble):
        def __setstate__(self, state: object) -> None:
            raise RuntimeError("a builder that cannot be read")

    globals()["Unreadable"] = Unreadable
    Unreadable.__qualname__ = "Unreadable"
    with (
        managed(rules(build=Unreadable(print)), workers=1) as manager,
        pytest.raises(WorkerError, match="could not start"),
    ):
        collected(manager, NAME, 1)
