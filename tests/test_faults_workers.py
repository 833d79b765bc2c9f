"""Faults of workers, made for real: each is seen, named and mended, or stops the run with a line that says why."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keisei.collect import blocks
from keisei.errors import WorkerError
from keisei.parallel import line, model_sync, worker
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew, Event
from keisei.parallel.dispatch import Dispatch
from keisei.parallel.messages import Done, Failed, Order, Stale
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.shared_memory import Slab
from keisei.parallel.worker import SelfPlayWorker
from workers import (
    Enough,
    GameName,
    Log,
    Trouble,
    Troubled,
    WithTrouble,
    after,
    collected,
    give_up,
    managed,
    network,
    process_ids,
    rules,
    serially,
)

pytestmark = pytest.mark.usefixtures("quick_workers", "short_pauses")
NAME: GameName = "tic-tac-toe"


# --- trouble: what environments do -----------------------------------------------------------------------------------


def raises(troubled: Troubled) -> None:
    raise RuntimeError("the board caught fire")


def exits(troubled: Troubled) -> None:
    sys.exit(3)


def exits_at_once(troubled: Troubled) -> None:
    os._exit(0)


def aborts(troubled: Troubled) -> None:
    os.abort()


def segfaults(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stops(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def holds_the_interpreter(troubled: Troubled) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    ctypes.PyDLL(None).sleep(1000)


def pays_no_number(troubled: Troubled) -> None:
    assert troubled.step_now is not None
    troubled.step_now.reward[1] = np.nan


def has_odd_signs(troubled: Troubled) -> None:
    assert troubled.step_now is not None
    troubled.step_now.discount[2] = 0.5


def lists_what_is_not(troubled: Troubled) -> None:
    troubled.seen_now[0].legal.actions[0] = 9


def write_to_line(garbage: bytes) -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                os.write(descriptor, garbage)


def garbles_its_line(troubled: Troubled) -> None:
    write_to_line(b"\xff" * 100)


def loses_its_checksum(troubled: Troubled) -> None:
    """This worker seals what it then changes: a stray write."""
    original = Slab.seal

    def seal(slab: Slab, incarnation: int, iteration: int, version: int) -> None:
        original(slab, incarnation, iteration, version)
        slab.rollout.reward[0, 3, 2] += 1
        Slab.seal = original  # type: ignore[method-assign]

    Slab.seal = seal  # type: ignore[method-assign, assignment]


def claims_a_length(troubled: Troubled) -> None:
    """This worker's header says that its slab is longer than all memory."""
    original = Slab.seal

    def seal(slab: Slab, incarnation: int, iteration: int, version: int) -> None:
        original(slab, incarnation, iteration, version)
        slab.header[3] = 1 << 60
        Slab.seal = original  # type: ignore[method-assign]

    Slab.seal = seal  # type: ignore[method-assign, assignment]


def announces_a_message(troubled: Troubled) -> None:
    """This worker says that a message comes that is longer than all memory."""
    write_to_line(struct.pack("<4sQQ", b"keis", 1 << 60, 0) + b"\xff" * 100)


# --- once: it is mended ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (raises, r"worker \d, block \d, ply 5 \(process \d+\): .*the board caught fire.*seed 7.*is played again"),
        (exits, r"SystemExit: 3"),
        (exits_at_once, r"worker \d, block \d, ply 5, exit with status 0, which nobody asked for"),
        (aborts, r"worker \d, block \d, ply 5, exit by SIGABRT"),
        (segfaults, r"exit by SIGSEGV"),
        (is_killed, r"worker \d, block \d, ply 5, exit by SIGKILL \(process \d+\); .* restart 1 of 50"),
        (stops, r"ply 5, no sign of life for \d+\.\d\d s, stopped by a signal"),
        (holds_the_interpreter, r"ply 5, no sign of life for \d+\.\d\d s, exit by SIGKILL"),
        (pays_no_number, r"ContractError: expected a finite number as reward, found nan in step 4, lane 1"),
        (has_odd_signs, r"expected -1, 0 or 1 as discount, found 0.5 in step 4, lane 2"),
        (lists_what_is_not, r"expected less than 9 as legal.actions, found 9"),
        (garbles_its_line, r"handed out expected a message of at most"),
        (loses_its_checksum, r"handed out a wrong checksum"),
        (claims_a_length, r"handed out a length of 1152921504606846976 bytes in a slab of \d+"),
        (announces_a_message, r"handed out expected a message of at most \d+ bytes, found 6b656973"),
    ],
)
def test_trouble_is_named_and_the_block_is_played_again(tmp_path: Path, trouble: Trouble, said: str) -> None:
    log = Log()
    with managed(rules(build=WithTrouble(trouble, flag=tmp_path / "once")), log=log, worker_timeout=0.5) as manager:
        assert collected(manager, NAME, 3) == serially(NAME, 3)
    assert re.search(said, log.text, re.DOTALL), log.text
    assert all(re.match(r"worker \d, [^(]*\(process \d+\)", line) for line in log), log.text


def test_exception_as_a_game_begins_is_named_and_the_block_is_played_again(tmp_path: Path) -> None:
    log = Log()
    build = WithTrouble(raises, at=0, flag=tmp_path / "once", saved=False)
    with managed(rules(build=build), log=log) as manager:
        assert collected(manager, NAME, 3) == serially(NAME, 3)
    assert re.search(
        r"worker \d, block \d, ply 0 \(process \d+\): .*the board caught fire.*is played again", log.text, re.DOTALL
    )


def processes_of_an_exception(folder: Path) -> tuple[list[int], list[int], str]:
    """The workers before and after an exception of their environment, and what was said."""
    log = Log()
    with managed(rules(build=WithTrouble(raises, flag=folder / "once")), log=log) as manager:
        manager.start_workers(network(NAME, 0))
        before = process_ids(manager)
        assert collected(manager, NAME, 2) == serially(NAME, 2)
        return before, process_ids(manager), log.text


def test_worker_whose_environment_raises_keeps_its_process(tmp_path: Path) -> None:
    before, now, said = processes_of_an_exception(tmp_path)
    assert now == before
    assert "in raises" in said


def test_without_the_catch_the_process_is_lost_and_nobody_knows_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unprotected(SelfPlayWorker):
        def carry_out(self, order: Order) -> Done | Stale | Failed:
            answer = super().carry_out(order)
            if isinstance(answer, Failed):
                raise RuntimeError(answer.traceback)
            return answer

    monkeypatch.setitem(worker._WORKERS, "worker", Unprotected)
    before, now, said = processes_of_an_exception(tmp_path)
    assert len(set(before) - set(now)) == 1
    assert "exit with status 1" in said
    assert "caught fire" not in said


# --- again and again: it stops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [raises, segfaults, pays_no_number])
def test_block_that_fails_twice_stops_the_run_with_the_states_before_it(trouble: Trouble) -> None:
    with managed(rules(build=WithTrouble(trouble, at=-2)), workers=1) as manager:
        before = manager.state()["states"]
        with pytest.raises(WorkerError, match=r"block 0 of iteration 0 failed twice"):
            collected(manager, NAME, 1)
        assert manager.state()["states"].equal(before)


def test_exception_tells_how_to_see_it_again() -> None:
    said = r"(?s)in raises.*seed 7, step 2.*parallel.enabled=false"
    with managed(rules(build=WithTrouble(raises, at=-2)), workers=1) as manager, pytest.raises(WorkerError, match=said):
        collected(manager, NAME, 1)


def test_without_counting_failures_a_block_that_always_fails_never_stops_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Dispatch, "_count_failure", lambda self, block, text: None)
    log = Log()
    with managed(rules(build=WithTrouble(raises, at=-2)), workers=1, log=log) as manager:
        manager.start_workers(network(NAME, 0))
        give_up(manager, lambda: len(log) > 5)
        with pytest.raises(Enough):
            manager.collect(0)


# --- without what protects -------------------------------------------------------------------------------------------


def test_without_checksum_a_stray_write_is_learnt_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slab, "complaint", lambda *stamp: "")
    with managed(rules(build=WithTrouble(loses_its_checksum, flag=tmp_path / "once"))) as manager:
        assert collected(manager, NAME, 3) != serially(NAME, 3)


def test_without_heartbeat_a_hang_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerCommunicator, "silent_for", lambda worker, now: 0.0)
    log, build = Log(), WithTrouble(stops, flag=tmp_path / "once")
    with managed(rules(build=build), workers=1, log=log, worker_timeout=0.2) as manager:
        manager.start_workers(network(NAME, 0))
        give_up(manager, after(1.0))
        with pytest.raises(Enough):
            manager.collect(0)
    assert "no sign of life" not in log.text


def test_where_status_zero_counts_as_the_end_of_work_nobody_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Crew._ended

    def ended(self: Crew, worker: WorkerCommunicator) -> list[Event]:
        if os.waitid(os.P_PIDFD, worker.descriptor, os.WEXITED | os.WNOWAIT).si_status:  # type: ignore[union-attr]
            return original(self, worker)
        worker.ended()
        self._everybody.remove(worker)
        return []

    monkeypatch.setattr(Crew, "_ended", ended)
    log, build = Log(), WithTrouble(exits_at_once, flag=tmp_path / "once")
    with managed(rules(build=build), log=log) as manager:
        manager.start_workers(network(NAME, 0))
        give_up(manager, after(1.0))
        with pytest.raises(Enough):
            manager.collect(0)
    assert "exit with status 0" not in log.text


def test_without_bounds_the_rest_of_an_endless_message_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "_length", lambda frame, most: line._FRAME.unpack_from(frame)[1])
    log, build = Log(), WithTrouble(announces_a_message, flag=tmp_path / "once")
    with managed(rules(build=build), workers=1, log=log) as manager:
        manager.start_workers(network(NAME, 0))
        give_up(manager, after(1.0))
        with pytest.raises(Enough):
            manager.collect(0)
    assert not log


def test_without_check_garbage_reaches_the_learner(tmp_path: Path) -> None:
    build = WithTrouble(pays_no_number_unchecked, flag=tmp_path / "once")
    with managed(rules(build=build), workers=1) as manager:
        manager.publish(network(NAME, 0).state_dict(), 0)
        assert np.isnan(manager.collect(0).reward).any()


def pays_no_number_unchecked(troubled: Troubled) -> None:
    blocks.check_rollout = lambda *ignored: None
    pays_no_number(troubled)


# --- signals, weights and means --------------------------------------------------------------------------------------


def test_idle_worker_that_died_is_replaced_when_it_is_needed() -> None:
    log = Log()
    with managed(log=log) as manager:
        collected(manager, NAME, 1)
        for process in process_ids(manager):
            os.kill(process, signal.SIGKILL)
        time.sleep(0.1)
        assert collected(manager, NAME, 2, first=1) == serially(NAME, 3)[1:]
        assert manager.statistics()["parallel/restarts"] == 2
    assert "worker 0, exit by SIGKILL" in log.text


def garbled(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Weights are hit by a stray write so many times, where workers read them."""
    left = [times]

    def hit(sync: ModelSynchronizer, slot: int) -> int:
        if left[0] > 0:
            left[0] -= 1
            sync.memory.bytes[slot * sync.layout.bytes + 100] ^= 64
        return slot

    publish, again = ModelSynchronizer.publish, ModelSynchronizer.publish_again
    monkeypatch.setattr(ModelSynchronizer, "publish", lambda sync, *weights: hit(sync, publish(sync, *weights)))
    monkeypatch.setattr(ModelSynchronizer, "publish_again", lambda sync: hit(sync, again(sync)))


def test_garbled_weights_are_refused_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    garbled(monkeypatch, 2)
    log = Log()
    with managed(log=log) as manager:
        assert collected(manager, NAME, 2) == serially(NAME, 2)
    assert "weights of version 0 in slot 0 have a wrong checksum; the weights are published again" in log.text


def test_without_their_checksum_garbled_weights_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    class Believed(int):
        def __ne__(self, other: object) -> bool:
            return False

    original = model_sync._copied
    monkeypatch.setattr(model_sync, "_copied", lambda source, target: Believed(original(source, target)))
    garbled(monkeypatch, 1)
    with managed() as manager:
        assert collected(manager, NAME, 1) != serially(NAME, 1)


def test_weights_that_stay_garbled_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    garbled(monkeypatch, 1000)
    with managed(workers=1) as manager, pytest.raises(WorkerError, match="weights were refused"):
        collected(manager, NAME, 1)


def test_no_process_to_start_goes_on_with_fewer_or_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from keisei.parallel.spawner import Spawner

    original, left = Spawner.start, [1]

    def start(spawner: Spawner, line: int, inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
        if left[0] <= 0:
            raise BlockingIOError("Resource temporarily unavailable")
        left[0] -= 1
        return original(spawner, line, inherited)

    monkeypatch.setattr(Spawner, "start", start)
    for allowed, said in ((1, "1 of 2 play"), (0, "IN THE LEARNER'S PROCESS")):
        left[0], log = allowed, Log()
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        with managed(log=log) as manager:
            assert collected(manager, NAME, 2) == serially(NAME, 2)
        del manager  # its arrays hold what they show
        gc.collect()
        assert said in log.text
        assert len(os.listdir("/proc/self/fd")) == before
