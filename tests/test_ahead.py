"""Collecting ahead of the learner: the lag is a number, so the bits are those of a plain loop with old weights."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from commands import wait_until
from keisei.collect.ahead import AheadCollector
from keisei.collect.collector import Collector, Weights
from keisei.collect.serial import SerialCollector
from keisei.errors import WorkerError
from keisei.parallel.manager import ParallelManager, ParallelSettings
from keisei.rollout import Rollout
from keisei.train import Training
from tiny_runs import SHOGI, STEPS, TIC_TAC_TOE, Sections, final_sha256, records, sha256, stop_after, training
from workers import BLOCKS, digest, network, rules

ITERATIONS, LAGS = 6, [1, 2, 3]
RUN = (f"run.total_steps={ITERATIONS * STEPS}", "parallel.async_learning=true")


def plain(buffers: int = 1) -> SerialCollector:
    return SerialCollector(rules(), blocks=BLOCKS, buffers=buffers)


def weights(version: int) -> Weights:
    return network("tic-tac-toe", version).state_dict()


@contextmanager
def ahead(lag: int, inside: Collector | None = None, most_waiting: int = 100) -> Iterator[AheadCollector]:
    """A collector that runs ahead; its thread is gone in the end."""
    made = AheadCollector(inside or plain(lag + 1), lag, blocks=BLOCKS, most_waiting=most_waiting)
    try:
        yield made
    finally:
        made.close()
        made.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("ahead")]


def lived(collector: Collector, versions: Mapping[int, int]) -> list[str]:
    """What is lived in iterations with the weights of these versions, by iteration."""
    found = []
    for iteration, version in versions.items():
        collector.publish(weights(version), version)
        found.append(digest(collector.collect(iteration)))
    return found


def with_lag(lag: int, iterations: int = ITERATIONS) -> list[str]:
    """The reference: nobody runs ahead, the weights are old."""
    return lived(plain(), {iteration: max(0, iteration - lag) for iteration in range(iterations)})


def every_version(first: int = 0, iterations: int = ITERATIONS) -> dict[int, int]:
    """As a learner publishes that has one version for each iteration."""
    return {iteration: iteration for iteration in range(first, first + iterations)}


@pytest.mark.parametrize("lag", LAGS)
def test_each_rollout_is_lived_with_the_weights_of_so_many_iterations_before(lag: int) -> None:
    with ahead(lag) as collector:
        assert lived(collector, every_version()) == with_lag(lag)
        assert collector.statistics()["parallel/version_lag"] == lag
    assert with_lag(lag) != with_lag(0)


def test_workers_ahead_live_the_same() -> None:
    settings = ParallelSettings(blocks=BLOCKS, num_workers=2, buffers=3)
    with ahead(2, ParallelManager(rules(), settings)) as collector:
        assert lived(collector, every_version()) == with_lag(2)


@pytest.mark.parametrize("lag", LAGS)
def test_rollout_stays_as_it_is_while_others_are_collected(lag: int) -> None:
    with ahead(lag) as collector:
        collector.publish(weights(0), 0)
        rollout = collector.collect(0)
        before = digest(rollout)
        for _, ordered in sorted(collector._ordered.items()):
            ordered.rollout.result()
        assert len(collector._ordered) == lag + 1
        assert digest(rollout) == before


def test_with_too_few_buffers_the_next_rollout_is_written_over_this_one() -> None:
    with ahead(1, plain(buffers=1)) as collector:
        collector.publish(weights(0), 0)
        rollout = collector.collect(0)
        collector._ordered[1].rollout.result()
        assert digest(rollout) != with_lag(1, 1)[0]


class Counted:
    """A collector that says when it begins."""

    def __init__(self, inside: Collector) -> None:
        self.inside = inside
        self.begun: list[int] = []
        self.publish, self.state, self.load_state = inside.publish, inside.state, inside.load_state
        self.statistics, self.close = inside.statistics, inside.close

    def collect(self, iteration: int) -> Rollout:
        self.begun.append(iteration)
        return self.inside.collect(iteration)


def test_collecting_goes_on_while_the_learner_works_and_pauses_at_the_lag() -> None:
    counted = Counted(plain(3))
    with ahead(2, counted) as collector:
        collector.publish(weights(0), 0)
        collector.collect(0)
        _wait_for(counted.begun, 3)
        time.sleep(0.1)
        assert counted.begun == [0, 1, 2]


def test_collecting_pauses_where_too_many_rollouts_wait() -> None:
    counted = Counted(plain(4))
    with ahead(3, counted, most_waiting=2 * BLOCKS) as collector:
        collector.publish(weights(0), 0)
        collector.collect(0)
        wait_until(lambda: collector.statistics()["parallel/queue_depth"] == 2 * BLOCKS)
        time.sleep(0.1)
        assert counted.begun == [0, 1, 2]
        assert collector.statistics()["parallel/queue_depth"] == 2 * BLOCKS
        state = collector.state()
        assert state["ahead_versions"].tolist() == [0, 0, 0]
        collector.collect(1)
        _wait_for(counted.begun, 4)


def _wait_for(begun: list[int], count: int) -> None:
    until = time.monotonic() + 10
    while len(begun) < count and time.monotonic() < until:
        time.sleep(0.001)
    assert len(begun) == count


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("done", [0, 1, 3])
def test_saved_state_goes_on_with_the_weights_that_were_on_their_way(lag: int, done: int) -> None:
    with ahead(lag) as collector:
        first = lived(collector, every_version(0, done))
        saved = {name: tensor.clone() for name, tensor in collector.state().items()}
    with ahead(lag) as collector:
        collector.load_state(saved)
        again = {name: tensor.clone() for name, tensor in collector.state().items()}
        assert again.keys() == saved.keys()
        assert all(torch.equal(again[name], saved[name]) for name in saved)
        assert first + lived(collector, every_version(done, ITERATIONS - done)) == with_lag(lag)


def test_state_without_the_weights_on_their_way_ends_otherwise() -> None:
    with ahead(2) as collector:
        first = lived(collector, every_version(0, 3))
        saved = dict(collector.state())
    saved["ahead_versions"] = torch.zeros(0, dtype=torch.int64)
    with ahead(2) as collector:
        collector.load_state(saved)
        assert first + lived(collector, every_version(3, ITERATIONS - 3)) != with_lag(2)


class Failing(Counted):
    """A collector that fails in an iteration."""

    def collect(self, iteration: int) -> Rollout:
        if iteration == 2:
            raise RuntimeError("the board caught fire")
        return super().collect(iteration)


def test_failure_reaches_the_learner_with_the_rollout_that_failed() -> None:
    counted = Failing(plain(3))
    with ahead(2, counted) as collector:
        assert len(lived(collector, {0: 0, 1: 1})) == 2
        with pytest.raises(RuntimeError, match="caught fire"):
            collector.collect(2)
        with pytest.raises(WorkerError, match="collecting has ended"):
            collector.collect(3)
        assert counted.begun == [0, 1]


def test_experience_without_weights_is_refused() -> None:
    with ahead(1) as collector, pytest.raises(WorkerError, match="weights before experience"):
        collector.collect(0)


# --- whole runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [TIC_TAC_TOE, SHOGI], ids=["tic-tac-toe", "shogi"])
def test_run_ends_with_the_same_weights_whoever_collects(tmp_path: Path, base: Sections) -> None:
    here = final_sha256(tmp_path / "here", *RUN, base=base)
    for number in (1, 2):
        workers = "parallel.enabled=true", f"parallel.num_workers={number}"
        assert final_sha256(tmp_path / f"workers-{number}", *RUN, *workers, base=base) == here
    apart = "parallel.enabled=true", "parallel.use_threads=false"
    assert final_sha256(tmp_path / "apart", *RUN, *apart, base=base) == here
    assert final_sha256(tmp_path / "at-once", RUN[0], base=base) != here


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
@pytest.mark.parametrize("how", [RUN[:1], RUN], ids=["in turns", "ahead"])
def test_run_with_rounded_weights_ends_with_the_same_weights_whoever_collects(
    tmp_path: Path, compression: str, how: tuple[str, ...]
) -> None:
    rounded = *how, f"parallel.compression={compression}", "parallel.inference=worker"
    here = final_sha256(tmp_path / "here", *rounded)
    workers = "parallel.enabled=true", "parallel.num_workers=2"
    assert final_sha256(tmp_path / "workers", *rounded, *workers) == here
    assert final_sha256(tmp_path / "not-rounded", *how) != here


@pytest.mark.parametrize("lag", ["parallel.max_lag=1", "parallel.max_lag=3"])
@pytest.mark.parametrize("interval", ["parallel.model_sync_interval=1", "parallel.model_sync_interval=2"])
def test_run_stopped_anywhere_and_resumed_ends_with_the_same_weights(tmp_path: Path, lag: str, interval: str) -> None:
    through = final_sha256(tmp_path / "through", *RUN, lag, interval)
    for iterations in range(ITERATIONS):
        run = tmp_path / f"stopped-{iterations}"
        with training(run, *RUN, lag, interval) as made:
            _stop(made, iterations)
        with training(run, *RUN, lag, interval) as made:
            assert sha256(made.run()) == through


def _stop(made: Training, iterations: int) -> None:
    if iterations == 0:
        made.parts.stop.ask("the test")
    stop_after(made, iterations)
    assert made.run().name == f"{iterations:08d}"


def test_lag_is_recorded(tmp_path: Path) -> None:
    final_sha256(tmp_path, *RUN, "parallel.max_lag=2")
    assert [record["parallel/version_lag"] for record in records(tmp_path)] == [0, 1, 2, 2, 2, 2]
