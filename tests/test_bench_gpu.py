"""The benchmark of a GPU runs to its end on a CPU in tiny sizes, and says what it did not measure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from commands import keisei
from keisei.bench.gpu import _limit, run, sizes
from keisei.bench.gpu_busy import BusyGpu
from keisei.bench.harness import Settings
from small_device import needs_gpu

QUICK = Settings(rounds=1, seconds=0.01, core=0, say=lambda line: None)


def test_every_number_is_named_on_the_machine_that_it_is_for() -> None:
    full = sizes(gpu=True)
    assert (full.trained.name, full.collected.name, full.agents) == ("10x128", "6x96", 128)
    assert full.shape.games % full.shape.groups == 0
    assert full.shape.games * full.shape.rollout % full.shape.minibatch == 0


def test_networks_are_measured_beside_their_bare_passes() -> None:
    report = run(QUICK, ["networks"], tiny=True)
    found = {result.name: result for result in report.results}
    assert found["collect_1x8"].against == found["collect_1x4"].against == "forward"
    assert found["train_1x8"].against == "limit"
    assert {"forward_1x8", "backward_1x8", "forward_1x4", "bytes_up_per_move_1x8", "compile_seconds_1x8"} <= set(found)
    assert all(result.value >= 0 for result in report.results)
    assert found["bytes_up_per_move_1x8"].value > 99, "a packed position goes up"
    if not torch.cuda.is_available():
        assert any("no GPU is measured" in note for note in report.notes)


def test_environment_is_measured_on_all_processors() -> None:
    (ours,) = run(QUICK, ["env"], tiny=True).results
    assert ours.name.startswith("env_packed_")
    assert ours.value > 1000


@pytest.mark.slow
def test_populations_are_measured_stacked_and_one_by_one() -> None:
    found = {result.name: result for result in run(QUICK, ["population"], tiny=True).results}
    assert found["population_4"].against == found["population_run_4"].against == "looped"
    assert {"population_4_looped", "population_run_4_looped"} <= set(found)


def test_part_that_fails_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from keisei.bench import gpu

    def broken(*_: object) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(gpu, "measure_networks", broken)
    report = run(QUICK, ["networks", "env"], tiny=True)
    assert any("networks is not measured: RuntimeError: CUDA error" in note for note in report.notes)
    assert len(report.results) == 1


def test_limit_is_one_pass_of_each_kind() -> None:
    assert _limit(880_000, 212_000) == pytest.approx(170_842, rel=1e-4)


def test_busy_gpu_is_asked_while_something_runs() -> None:
    lines = "import time\nfor n in (90, 100, 'x', 95): print(n, flush=True)\ntime.sleep(60)"
    busy = BusyGpu([sys.executable, "-c", lines])
    with busy:
        while len(busy._seen) < 3:
            pass
    assert busy.percent == 95
    with BusyGpu([]) as nobody:
        pass
    assert nobody.percent is None if not torch.cuda.is_available() else True


def test_command_ends_with_one_line_of_json(tmp_path: Path) -> None:
    words = ("bench", "gpu", "--tiny", "--parts", "networks", "--rounds", "1", "--seconds", "0.01", "--json")
    told = json.loads(keisei(tmp_path, *words).output.splitlines()[-1])
    assert told["benchmark"] == "gpu"
    assert {"collect_1x8", "train_1x8"} <= {result["name"] for result in told["results"]}


@needs_gpu
def test_gpu_is_busy_with_whole_sizes() -> None:
    report = run(Settings(1, 1.0, 0, lambda line: None), ["networks"])
    assert {"collect_10x128", "collect_6x96", "train_10x128"} <= {result.name for result in report.results}
