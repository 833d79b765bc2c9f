"""Benchmarks that move data between processes: what comes is what went, and what is damaged is not taken for it."""

from __future__ import annotations

import os

import pytest

from keisei.bench.far_end import far_end, other_core
from keisei.bench.harness import Settings, take_turns
from keisei.bench.sync import Tower, compare, compare_costs
from keisei.bench.transport import POSITIONS, InPlace, check, contenders, fill, payload, slab_layout, slabs_in
from keisei.errors import ContractError
from keisei.parallel.line import WorkerLine
from keisei.parallel.shared_memory import SharedMemory

CORE = max(os.sched_getaffinity(0))
SHORT = Settings(rounds=1, seconds=0.05, core=CORE, say=lambda line: None)


def tell_core(line: WorkerLine, word: str) -> None:
    line.send((word, os.sched_getaffinity(0)))


def garble(line: WorkerLine) -> None:
    while True:
        line.send(line.receive())  # and nothing is sealed


def test_far_end_runs_on_its_core_and_ends_with_the_line() -> None:
    core = other_core(CORE)
    with far_end(core, tell_core, "here") as line:
        assert line.receive() == ("here", {core})
    assert core != CORE or len(os.sched_getaffinity(0)) == 1


def test_both_ways_move_the_same_rollouts() -> None:
    with contenders(other_core(CORE)) as both:
        measured = take_turns(both, SHORT)
        assert [one.measure(0.05).work % size() for one in both] == [0, 0]
    assert set(measured) == {"transport", "queue"}
    assert all(rate > 0 for one in measured.values() for rate in one.rates)


def size() -> int:
    slab = slabs_in(SharedMemory(2 * slab_layout().bytes))[0]
    fill(slab)
    observation, mask = payload(slab)
    assert observation.nbytes + mask.nbytes == POSITIONS * (46 * 81 * 4 + 13_527)
    assert 0.005 < mask.mean() < 0.02
    return observation.nbytes + mask.nbytes


def test_rollout_that_is_not_sealed_is_not_taken() -> None:
    memory = SharedMemory(2 * slab_layout().bytes)
    with far_end(CORE, garble) as line, pytest.raises(ContractError, match="came with incarnation 0"):
        InPlace(line, memory).measure(0.05)
    with pytest.raises(ContractError, match="as another one"):
        check(3, *payload(slabs_in(memory)[0]))
    memory.close()


@pytest.mark.slow
def test_weights_arrive_by_every_way_and_are_compared() -> None:
    results = compare("tiny", Tower(1, 8), SHORT, other_core(CORE))
    assert [one.name for one in results] == ["sync_tiny", "queue_of_tensors_tiny", "queue_tiny"]
    assert results[0].against == "queue"
    assert all(one.value > 0 for one in results)


@pytest.mark.slow
def test_what_syncs_cost_the_learner_is_measured_with_one_reader_and_with_several() -> None:
    results = compare_costs(Tower(1, 8), SHORT, other_core(CORE))
    assert [(one.name, one.against) for one in results] == [
        ("learner_4_readers", "learner_1_readers"),
        ("learner_1_readers", None),
    ]
