"""The same bits whoever plays the blocks: serially, in 1, 2 and 4 processes, killed, stopped, or over the line."""

from __future__ import annotations

import signal

import pytest
import torch

from keisei.collect.collector import Compression
from keisei.collect.serial import SerialCollector
from keisei.errors import WorkerError
from workers import BLOCKS, GameName, Log, collected, digest, managed, network, rules, serially, through

ITERATIONS = 6


@pytest.mark.parametrize("name", ["tic-tac-toe", "connect four"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_live_the_same_as_a_plain_loop(name: GameName, workers: int) -> None:
    with managed(rules(name), workers) as manager:
        assert collected(manager, name, ITERATIONS) == serially(name, ITERATIONS)


def test_rollouts_over_the_line_are_the_same() -> None:
    with managed(use_shared_memory=False) as manager:
        assert collected(manager, "tic-tac-toe", ITERATIONS) == serially("tic-tac-toe", ITERATIONS)


@pytest.mark.usefixtures("quick_workers")
@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_workers_act_with_the_same_rounded_weights_as_one_process(compression: Compression) -> None:
    alone, expected = SerialCollector(rules(), blocks=BLOCKS, compression=compression), []
    for iteration in range(ITERATIONS):
        alone.publish(network("tic-tac-toe", iteration).state_dict(), iteration)
        expected.append(digest(alone.collect(iteration)))
    with managed(compression=compression) as manager:
        assert collected(manager, "tic-tac-toe", ITERATIONS) == expected
    assert not set(expected) & set(serially("tic-tac-toe", ITERATIONS)), "nothing was rounded"


@pytest.mark.parametrize("shared", [True, False])
def test_sigkills_at_random_instants_change_no_bit(shared: bool) -> None:
    log = Log()
    with managed(log=log, use_shared_memory=shared) as manager:
        found = through(manager, signal.SIGKILL, 4)
        assert manager.statistics()["parallel/restarts"] >= 2, log.text
    assert found == serially("tic-tac-toe", len(found) + 1)[1:]
    assert "exit by SIGKILL" in log.text


def test_stopped_worker_changes_no_bit() -> None:
    log = Log()
    with managed(log=log, worker_timeout=0.5) as manager:
        found = through(manager, signal.SIGSTOP, 1)
        assert manager.statistics()["parallel/restarts"] == 1, log.text
    assert found == serially("tic-tac-toe", len(found) + 1)[1:]
    assert "stopped by a signal" in log.text


def test_states_go_on_with_another_number_of_workers() -> None:
    expected = serially("connect four", 4)
    with managed(rules("connect four"), workers=1) as first:
        assert collected(first, "connect four", 2) == expected[:2]
        saved = {name: tensor.clone() for name, tensor in first.state().items()}
    with managed(rules("connect four"), workers=3) as second:
        second.load_state(saved)
        assert collected(second, "connect four", 2, first=2) == expected[2:]


def test_same_version_with_other_weights_is_played_with_the_other_weights() -> None:
    with managed(workers=1) as manager:
        manager.publish(network("tic-tac-toe", 5).state_dict(), 0)
        manager.collect(0)
        manager.reset()
        assert collected(manager, "tic-tac-toe", 1) == serially("tic-tac-toe", 1)


def test_weights_that_change_after_they_were_published_are_not_played() -> None:
    model = network("tic-tac-toe", 0)
    with managed(workers=1) as manager:
        manager.publish(model.state_dict(), 0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        manager._progress.degraded = True
        from workers import digest

        assert [digest(manager.collect(0))] == serially("tic-tac-toe", 1)


def test_experience_without_weights_is_refused() -> None:
    with managed() as manager, pytest.raises(WorkerError, match="weights before experience"):
        manager.collect(0)
