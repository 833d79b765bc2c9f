"""Faults of workers, made for real: each is seen, named and mended, or stops the run with a line that says why."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from keisei.collect import blocks
from keisei.errors import WorkerError
from keisei.parallel import crew as crews
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.shared_memory import Slab
from workers import (
    GameName,
    Log,
    Trouble,
    Troubled,
    WithTrouble,
    collected,
    managed,
    network,
    process_ids,
    rules,
    serially,
)

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


def garbles_its_line(troubled: Troubled) -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                os.write(descriptor, b"\xff" * 100)
        except OSError:
            pass


def loses_its_checksum(troubled: Troubled) -> None:
    """This worker seals what it then changes: a stray write."""
    original = Slab.seal

    def seal(slab: Slab, incarnation: int, iteration: int, version: int) -> None:
        original(slab, incarnation, iteration, version)
        slab.rollout.reward[0, 3, 2] += 1
        Slab.seal = original  # type: ignore[method-assign]

    Slab.seal = seal  # type: ignore[method-assign, assignment]


# --- once: it is mended ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (raises, r"worker \d, block \d, ply 5: .*the board caught fire.*seed 7.*is played again"),
        (exits, r"SystemExit: 3"),
        (exits_at_once, r"worker \d, block \d, ply 5, exit with status 0, which nobody asked for"),
        (aborts, r"worker \d, block \d, ply 5, exit by SIGABRT"),
        (segfaults, r"exit by SIGSEGV"),
        (is_killed, r"worker \d, block \d, ply 5, exit by SIGKILL \(process \d+\); .* restart 1 of 50"),
        (stops, r"ply 5, no sign of life for 0\.[5-9]\d s, stopped by a signal"),
        (holds_the_interpreter, r"ply 5, no sign of life for 0\.[5-9]\d s, exit by SIGKILL"),
        (pays_no_number, r"ContractError: expected a finite number as reward, found nan in step 4, lane 1"),
        (has_odd_signs, r"expected -1, 0 or 1 as discount, found 0.5 in step 4, lane 2"),
        (lists_what_is_not, r"expected less than 9 as legal.actions, found 9"),
        (garbles_its_line, r"handed out expected a message of at most"),
        (loses_its_checksum, r"handed out a wrong checksum"),
    ],
)
def test_trouble_is_named_and_the_block_is_played_again(tmp_path: Path, trouble: Trouble, said: str) -> None:
    log = Log()
    with managed(rules(build=WithTrouble(trouble, flag=tmp_path / "once")), log=log, worker_timeout=0.5) as manager:
        assert collected(manager, NAME, 3) == serially(NAME, 3)
    assert re.search(said, log.text, re.DOTALL), log.text


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


# --- without what protects -------------------------------------------------------------------------------------------


def test_without_checksum_a_stray_write_is_learnt_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slab, "complaint", lambda *stamp: "")
    with managed(rules(build=WithTrouble(loses_its_checksum, flag=tmp_path / "once"))) as manager:
        assert collected(manager, NAME, 3) != serially(NAME, 3)


def test_without_heartbeat_a_hang_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerCommunicator, "silent_for", lambda worker, now: 0.0)
    log = Log()
    with managed(
        rules(build=WithTrouble(stops, flag=tmp_path / "once")), workers=1, log=log, worker_timeout=0.2
    ) as manager:
        manager.start_workers(network(NAME, 0))
        crew = manager._crew
        assert crew is not None
        until = time.monotonic() + 1.0

        class Enough(Exception): ...

        original = crew.listen

        def listen(seconds: float = 0.05) -> list[crews.Event]:
            if time.monotonic() > until:
                raise Enough
            return original(seconds)

        monkeypatch.setattr(crew, "listen", listen)
        with pytest.raises(Enough):
            manager.collect(0)
    assert "no sign of life" not in log.text


def test_without_check_garbage_reaches_the_learner(tmp_path: Path) -> None:
    build = WithTrouble(pays_no_number_unchecked, flag=tmp_path / "once")
    with managed(rules(build=build), workers=1) as manager:
        manager.publish(network(NAME, 0).state_dict(), 0)
        assert np.isnan(manager.collect(0).reward).any()


def pays_no_number_unchecked(troubled: Troubled) -> None:
    blocks.check_rollout = lambda *ignored: None
    pays_no_number(troubled)


# --- signals, weights and means --------------------------------------------------------------------------------------


def test_stop_shorter_than_the_limit_costs_no_worker() -> None:
    with managed(worker_timeout=5.0) as manager:
        collected(manager, NAME, 1)
        for process in process_ids(manager):
            os.kill(process, signal.SIGSTOP)
        ids = process_ids(manager)

        def wake() -> None:
            for one in ids:
                os.kill(one, signal.SIGCONT)

        timer = threading.Timer(0.5, wake)
        timer.start()
        assert collected(manager, NAME, 2, first=1) == serially(NAME, 3)[1:]
        timer.join()
        assert manager.statistics()["parallel/restarts"] == 0


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
    """The next weights are hit by a stray write so many times."""
    original, left = ModelSynchronizer.publish_again, [times]

    def publish_again(sync: ModelSynchronizer) -> int:
        slot = original(sync)
        if left[0] > 0:
            left[0] -= 1
            sync.memory.bytes[slot * sync.layout.bytes + 100] ^= 1
        return slot

    monkeypatch.setattr(ModelSynchronizer, "publish_again", publish_again)


def test_garbled_weights_are_refused_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    garbled(monkeypatch, 1)
    log = Log()
    with managed(log=log) as manager:
        assert collected(manager, NAME, 2) == serially(NAME, 2)
    assert "weights of version 0 in slot 0 have a wrong checksum; the weights are published again" in log.text


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
        before = len(os.listdir("/proc/self/fd"))
        with managed(log=log) as manager:
            assert collected(manager, NAME, 2) == serially(NAME, 2)
        del manager  # its arrays hold what they show
        assert said in log.text
        assert len(os.listdir("/proc/self/fd")) == before
