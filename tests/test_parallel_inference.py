"""Workers only step, and this process acts for all blocks: the same bits as a plain loop over one large block."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from keisei.collect.block_set import set_rules
from keisei.collect.blocks import check_rollout
from keisei.collect.serial import SerialCollector
from keisei.config import load_run
from keisei.environment import NO_SEAT
from keisei.errors import ConfigError, ContractError, WorkerError
from keisei.parallel import stepper
from keisei.parallel.shared_memory import Slab
from keisei.rollout import RolloutLayout
from tictactoe import TicTacToe
from tiny_runs import STEPS as RUN_STEPS
from tiny_runs import final_sha256
from workers import (
    BLOCKS,
    COPIES,
    GameName,
    Log,
    Trouble,
    Troubled,
    WithTrouble,
    collected,
    digest,
    managed,
    network,
    process_ids,
    rules,
    serially,
    through,
)

pytestmark = pytest.mark.usefixtures("quick_workers")
NAME: GameName = "tic-tac-toe"
ITERATIONS = 4


def in_one(name: GameName, iterations: int) -> list[str]:
    """What a plain loop lives whose one block has the copies of all."""
    return serially(name, iterations, blocks=1, copies=BLOCKS * COPIES)


# --- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tic-tac-toe", "connect four"])
def test_one_process_lives_the_same_as_a_plain_loop(name: GameName) -> None:
    collector = SerialCollector(set_rules(rules(name), BLOCKS), blocks=1)
    found = []
    for iteration in range(ITERATIONS):
        collector.publish(network(name, iteration).state_dict(), iteration)
        found.append(digest(collector.collect(iteration)))
    assert found == in_one(name, ITERATIONS)


@pytest.mark.parametrize(
    ("name", "workers", "shared"),
    [("tic-tac-toe", 1, True), ("connect four", 2, True), ("tic-tac-toe", 4, True), ("tic-tac-toe", 3, False)],
)
def test_workers_live_the_same_as_a_plain_loop(name: GameName, workers: int, shared: bool) -> None:
    with managed(rules(name), workers, inference="learner", use_shared_memory=shared) as manager:
        assert collected(manager, name, ITERATIONS) == in_one(name, ITERATIONS)


def test_states_go_on_with_another_number_of_workers_or_none() -> None:
    expected = in_one(NAME, 4)
    with managed(workers=2, inference="learner") as first:
        assert collected(first, NAME, 2) == expected[:2]
        saved = {name: tensor.clone() for name, tensor in first.state().items()}
    with managed(workers=1, inference="learner") as second:
        second.load_state(saved)
        assert collected(second, NAME, 1, first=2) == expected[2:3]
        saved = dict(second.state())
    third = SerialCollector(set_rules(rules(), BLOCKS), blocks=1)
    third.load_state(saved)
    third.publish(network(NAME, 3).state_dict(), 3)
    assert digest(third.collect(3)) == expected[3]


@pytest.mark.parametrize("shared", [True, False])
def test_sigkills_at_random_instants_change_no_bit(shared: bool) -> None:
    log = Log()
    with managed(log=log, inference="learner", use_shared_memory=shared) as manager:
        found = through(manager, signal.SIGKILL, 4)
        assert manager.statistics()["parallel/restarts"] >= 2, log.text
    assert found == in_one(NAME, len(found) + 1)[1:]
    assert "exit by SIGKILL" in log.text


def test_stopped_worker_changes_no_bit() -> None:
    log = Log()
    with managed(log=log, inference="learner", worker_timeout=0.5) as manager:
        found = through(manager, signal.SIGSTOP, 1)
        assert manager.statistics()["parallel/restarts"] == 1, log.text
    assert found == in_one(NAME, len(found) + 1)[1:]
    assert "stopped by a signal" in log.text


RUN = f"run.total_steps={4 * RUN_STEPS}", "parallel.inference=learner"
WORKERS = "parallel.enabled=true", "parallel.num_workers=2"


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("parallel.async_learning=true", "parallel.max_lag=2", "parallel.compression=bf16"),
        ("parallel.episodes_per_worker=1",),
    ],
)
def test_run_ends_with_the_same_weights_in_one_process_and_with_workers(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    alone = final_sha256(tmp_path / "alone", *RUN, *overrides)
    assert final_sha256(tmp_path / "workers", *RUN, *WORKERS, *overrides) == alone


def test_run_against_frozen_opponents_ends_with_the_same_weights(tmp_path: Path) -> None:
    final_sha256(tmp_path / "past", RUN[0], "run.checkpoint_interval=2", "run.seed=5")
    past = f"[{tmp_path}/past/checkpoints/00000002, {tmp_path}/past/checkpoints/00000004]"
    overrides = *RUN, f"opponents.checkpoints={past}", "opponents.share=0.7"
    alone = final_sha256(tmp_path / "alone", *overrides)
    assert final_sha256(tmp_path / "workers", *overrides, *WORKERS) == alone
    assert final_sha256(tmp_path / "nobody", *RUN) != alone


# --- trouble ---------------------------------------------------------------------------------------------------------


def raises(troubled: Troubled) -> None:
    raise RuntimeError("the board caught fire")


def is_killed(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stops(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def pays_no_number(troubled: Troubled) -> None:
    assert troubled.step_now is not None
    troubled.step_now.reward[1] = np.nan


def lists_what_is_not(troubled: Troubled) -> None:
    troubled.seen_now[0].legal.actions[0] = 9


def loses_its_checksum(troubled: Troubled) -> None:
    """This worker seals a turn that it then changes: a stray write."""
    original = Slab.seal

    def seal(slab: Slab, incarnation: int, iteration: int, version: int, ply: int) -> None:
        original(slab, incarnation, iteration, version, ply)
        slab.rollout.reward[0, 0, 2] += 1
        Slab.seal = original  # type: ignore[method-assign]

    Slab.seal = seal  # type: ignore[method-assign, assignment]


def seals_an_earlier_ply(troubled: Troubled) -> None:
    original = Slab.seal

    def seal(slab: Slab, incarnation: int, iteration: int, version: int, ply: int) -> None:
        original(slab, incarnation, iteration, version, ply - 1)
        Slab.seal = original  # type: ignore[method-assign]

    Slab.seal = seal  # type: ignore[method-assign, assignment]


def seals_nothing(troubled: Troubled) -> None:
    original = Slab.seal

    def seal(slab: Slab, incarnation: int, iteration: int, version: int, ply: int) -> None:
        Slab.seal = original  # type: ignore[method-assign]

    Slab.seal = seal  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (
            raises,
            r"worker \d, block \d, ply 5 \(process \d+\): .*caught fire.*block \d of iteration 0, seed 7.*again",
        ),
        (is_killed, r"worker \d, block \d, ply 5, exit by SIGKILL \(process \d+\); .* restart 1 of 50"),
        (stops, r"block \d, ply 5, no sign of life for \d+\.\d\d s, stopped by a signal"),
        (pays_no_number, r"ply 5 .*ContractError: expected a finite number as reward, found nan in step 0, lane 1"),
        (lists_what_is_not, r"expected less than 9 as legal.actions, found 9"),
        (loses_its_checksum, r"handed out a wrong checksum"),
        (seals_an_earlier_ply, r"handed out ply 4 instead of 5"),
        (seals_nothing, r"handed out incarnation 0 instead of \d"),
    ],
)
def test_trouble_is_named_and_the_blocks_are_built_up_again(tmp_path: Path, trouble: Trouble, said: str) -> None:
    log, build = Log(), WithTrouble(trouble, flag=tmp_path / "once")
    with managed(rules(build=build), log=log, worker_timeout=0.5, inference="learner") as manager:
        assert collected(manager, NAME, 2) == in_one(NAME, 2)
    assert re.search(said, log.text, re.DOTALL), log.text


def test_last_position_that_is_no_number_is_refused() -> None:
    environment = TicTacToe(2, dtype=np.float32)
    layout = RolloutLayout(environment.groups[0], 1, finals=True)
    turn = layout.rollout(layout.allocate(1))
    turn.seat[:] = NO_SEAT
    check_rollout(turn, environment)
    turn.final_observation[0, 0, 1] = np.nan
    with pytest.raises(ContractError, match="expected a finite number as final_observation, found nan in step 0, lane"):
        check_rollout(turn, environment)


def test_block_that_fails_twice_stops_the_run_with_the_states_before_it() -> None:
    with managed(rules(build=WithTrouble(raises, at=-2)), workers=1, inference="learner") as manager:
        before = manager.state()["states"]
        with pytest.raises(WorkerError, match=r"block 0 of iteration 0 failed twice"):
            collected(manager, NAME, 1)
        assert manager.state()["states"].equal(before)


def test_budget_spent_goes_on_in_this_process_or_stops(tmp_path: Path) -> None:
    log, build = Log(), WithTrouble(is_killed, flag=tmp_path / "once")
    with managed(rules(build=build), log=log, workers=1, max_restarts=0, inference="learner") as manager:
        assert collected(manager, NAME, 2) == in_one(NAME, 2)
        assert manager.statistics()["parallel/degraded"] == 1
    assert "IN THE LEARNER'S PROCESS" in log.text
    build = WithTrouble(is_killed, flag=tmp_path / "twice")
    with (
        managed(rules(build=build), workers=1, max_restarts=0, on_failure="stop", inference="learner") as manager,
        pytest.raises(WorkerError, match="budget"),
    ):
        collected(manager, NAME, 1)


# --- without what protects -------------------------------------------------------------------------------------------


def test_without_checksum_a_stray_write_is_learnt_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slab, "complaint", lambda *stamp: "")
    build = WithTrouble(loses_its_checksum, flag=tmp_path / "once")
    with managed(rules(build=build), inference="learner") as manager:
        assert collected(manager, NAME, 1) != in_one(NAME, 1)


def pays_no_number_unchecked(troubled: Troubled) -> None:
    stepper.check_rollout = lambda *ignored: None  # type: ignore[attr-defined]
    pays_no_number(troubled)


def test_without_the_check_of_turns_garbage_stops_the_run_at_the_next_wall(tmp_path: Path) -> None:
    build = WithTrouble(pays_no_number_unchecked, flag=tmp_path / "once")
    with (
        managed(rules(build=build), workers=1, inference="learner") as manager,
        pytest.raises(ContractError, match="expected a finite number as reward, found nan in step 4"),
    ):
        collected(manager, NAME, 1)


# --- games that cannot be saved, and the rest ------------------------------------------------------------------------


def test_games_that_cannot_be_saved_stay_with_their_worker_and_begin_anew_with_another(tmp_path: Path) -> None:
    log = Log()
    build = WithTrouble(is_killed, at=60, flag=tmp_path / "once", saved=False)
    with managed(rules(build=build), log=log, inference="learner") as manager:
        found = collected(manager, NAME, 2)
        assert found == in_one(NAME, 2)
        assert collected(manager, NAME, 1, first=2) != in_one(NAME, 3)[2:]
        manager.reset()
        assert collected(manager, NAME, 2) == found
    assert log.text.count("cannot save its states") == 1
    assert "games of iteration 2 are lost; the rollout begins again" in log.text


def test_no_process_is_kept_free_of_what_it_is_to_do() -> None:
    overrides = "parallel.inference=learner", "parallel.async_learning=true", "parallel.use_threads=false"
    with pytest.raises(ConfigError, match="inference 'learner' acts in the learner's process, which use_threads"):
        load_run(None, overrides)
    assert load_run(None, overrides[:2]).parallel.inference == "learner"


def test_statistics_tell_what_workers_did() -> None:
    with managed(inference="learner") as manager:
        manager.publish(network(NAME, 0).state_dict(), 0)
        rollout = manager.collect(0)
        numbers = manager.statistics()
        assert [numbers[f"worker/{place}/steps"] for place in range(2)] == [rollout.steps / 2] * 2
        assert sum(numbers[f"worker/{place}/games"] for place in range(2)) == rollout.ended.sum()
        assert all(numbers[f"worker/{place}/busy"] > 0 for place in range(2))
        assert numbers["parallel/syncs"] == 1
        assert numbers["parallel/queue_depth"] == 0


def test_pause_holds_the_next_turn_until_resume() -> None:
    with managed(workers=1, inference="learner") as manager:
        found = collected(manager, NAME, 1)
        manager.pause()
        thread = threading.Thread(target=lambda: found.extend(collected(manager, NAME, 1, first=1)))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        manager.resume()
        thread.join(60)
        assert found == in_one(NAME, 2)


def test_starting_and_stopping_leaks_no_descriptor_and_no_process() -> None:
    def cycle() -> list[int]:
        with managed(workers=1, inference="learner") as manager:
            collected(manager, NAME, 1)
            return process_ids(manager)

    cycle()
    before = len(os.listdir("/proc/self/fd"))
    processes = cycle()
    assert len(os.listdir("/proc/self/fd")) == before
    assert not any(os.path.exists(f"/proc/{process}") for process in processes)
