"""The benchmark of parallel collection: its parts, on runs of a moment. What it measures here says nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keisei.bench import collection, parallel, supervision
from keisei.bench.collection import by_workers, configuration, seconds_per_beat
from keisei.bench.harness import Settings, take_turns
from keisei.bench.learning_ahead import AT_ONCE, ENDLESS, IN_TURNS, Compared, Kind, Run
from keisei.bench.processes import hold_each, processor_seconds, worker_processes
from keisei.cli import app
from keisei.config import Config, load_run
from keisei.errors import ConfigError
from tiny_runs import TIC_TAC_TOE, write_config

CORES = sorted(os.sched_getaffinity(0))
SHORT = Settings(rounds=1, seconds=0.02, core=CORES[0], say=lambda line: None)


def tiny(folder: Path, *overrides: str) -> Config:
    return load_run(write_config(folder, base=TIC_TAC_TOE), overrides)


def test_blocks_are_those_of_the_quick_run_and_enough_for_all_workers() -> None:
    config = configuration(4)
    assert config.environment.copies == 8 * config.parallel.block_size
    assert config.network == load_run(Path("configs/shogi-quick.yaml")).network


def test_workers_are_ready_with_a_spare_and_each_held_to_one_core(tmp_path: Path) -> None:
    with by_workers(tiny(tmp_path), 1, CORES[-1:]) as workers:
        processes = worker_processes()
        assert len(processes) == 2
        for process in processes:
            threads = map(int, os.listdir(f"/proc/{process}/task"))
            assert all(os.sched_getaffinity(thread) == {CORES[-1]} for thread in threads)
        assert workers.measure(0.01).work % 16 == 0
    assert worker_processes() == []
    assert processor_seconds(processes[0]) == 0
    hold_each(processes, CORES)  # they are gone, which is no matter


def test_run_in_turns_tells_how_long_it_collected_and_learnt(tmp_path: Path) -> None:
    run = Run("in turns", Kind(tiny(tmp_path, *ENDLESS, *IN_TURNS), CORES[0], CORES[0]))
    sample = run.measure(0.05)
    assert sample.work % 16 == 0
    assert sample.seconds >= 0.05
    assert 0 < run.collecting[0] + run.learning[0] < sample.seconds / sample.work


def test_gain_of_doing_both_at_once_is_compared_with_its_bound(tmp_path: Path) -> None:
    serial = Run("in turns", Kind(tiny(tmp_path, *ENDLESS, *IN_TURNS), CORES[0], CORES[0]))
    ahead = Run("at once", Kind(tiny(tmp_path, *ENDLESS, *AT_ONCE), CORES[0], CORES[-1]))
    measured = take_turns([ahead, serial], SHORT)
    compared = Compared(measured["in turns"], measured["at once"], [1.5], 0.6)
    gain, bound = compared.against_serial("gain"), compared.against_bound("async")
    assert gain.ratio is not None
    assert bound.ratio == pytest.approx(gain.ratio / 1.5, rel=1e-3)
    assert compared.bound("bound").value == 1.5


def test_hang_is_seen_after_the_limit() -> None:
    assert 0 <= supervision.hangs(1)[0] < 5


@pytest.mark.slow
def test_deaths_are_seen_and_replaced() -> None:
    assert all(0 < one < 5 for one in supervision.deaths(2))
    assert supervision.replacements(1, with_spare=True)[0] < supervision.replacements(1, with_spare=False)[0]


@pytest.mark.parametrize("workers", ["0", "1,x", "", "1,,2", "99999"])
def test_numbers_of_workers_must_be_numbers(workers: str) -> None:
    ran = CliRunner().invoke(app, ["bench", "parallel", "--workers", workers])
    assert isinstance(ran.exception, ConfigError)
    assert "--workers" in str(ran.exception)


@pytest.mark.parametrize("parts", ["", "collecting,", "all", "collecting faults"])
def test_parts_must_be_known(parts: str) -> None:
    ran = CliRunner().invoke(app, ["bench", "parallel", "--parts", parts])
    assert isinstance(ran.exception, ConfigError)
    assert "--parts" in str(ran.exception)


def test_a_part_is_measured_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "configuration", lambda most: tiny(tmp_path))
    report = parallel.run(SHORT, workers=[1], parts=["collecting"])
    results = {one.name: one for one in report.results}
    assert list(results) == ["serial", "workers_1", "supervision_cost"]
    assert results["workers_1"].against == "serial"
    assert results["supervision_cost"].value > 0
    assert 0 < seconds_per_beat() < 1e-3
    assert len(report.notes) == 1
