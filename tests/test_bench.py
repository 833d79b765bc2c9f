"""The benchmark harness: turns, ratios, the JSON line, and peers as separate programs. Nothing here is timed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from keisei.bench import async_learning, connect_four, connect_four_workers
from keisei.bench.harness import (
    Contender,
    Measurement,
    Report,
    Result,
    Sample,
    Settings,
    result,
    result_against,
    take_turns,
)
from keisei.bench.machine import describe, held_to
from keisei.bench.peer import PROGRAMS, contenders_of, note_on, python_of, running_peer
from keisei.bench.self_play import REPLAYED_STEPS, Form, ReplayedSelfPlay, SelfPlay, draw
from keisei.cli import app
from keisei.environment import Legal
from keisei.errors import ConfigError, WorkerError

PEER = """
from runner import serve
serve("counter", "1.2.3", {"count": lambda seconds: (10 * seconds, seconds), "fail": lambda seconds: 1 / 0})
"""

PARENT = """
import subprocess
from runner import serve
child = subprocess.Popen(["sleep", "600"])
serve("parent", "1", {"child": lambda seconds: (child.pid, seconds)})
"""


class Scripted:
    """A contender whose rates are written down beforehand, and which tells a diary when it is measured."""

    def __init__(self, name: str, rates: list[float], diary: list[str]) -> None:
        self.name = name
        self._rates = iter([0.0, *rates])  # the first is the warm-up
        self._diary = diary

    def measure(self, seconds: float) -> Sample:
        self._diary.append(f"{self.name} {seconds:g}")
        return Sample(work=next(self._rates) * seconds, seconds=seconds)


def quiet(rounds: int) -> Settings:
    return Settings(rounds=rounds, seconds=1.0, core=max(os.sched_getaffinity(0)), say=lambda line: None)


def test_contenders_take_turns_in_alternating_order_after_a_warm_up() -> None:
    diary: list[str] = []
    contenders: list[Contender] = [Scripted("a", [1, 2, 3], diary), Scripted("b", [4, 5, 6], diary)]
    measured = take_turns(contenders, quiet(rounds=3))
    assert diary == ["a 0.2", "b 0.2", "a 1", "b 1", "b 1", "a 1", "a 1", "b 1"]
    assert measured == {"a": Measurement("a", (1, 2, 3)), "b": Measurement("b", (4, 5, 6))}


def test_a_result_is_the_median_and_keeps_the_best() -> None:
    assert result(Measurement("a", (10, 40, 20)), "plies/s") == Result("a", 20, "plies/s", best=40)


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    ours, theirs = Measurement("a", (10, 40, 100)), Measurement("b", (5, 10, 100))
    found = result_against(ours, "plies/s", theirs, "b")
    assert (found.value, found.against, found.ratio, found.against_value) == (40, "b", 2, 10)


def test_without_the_other_side_there_is_no_ratio() -> None:
    found = result_against(Measurement("a", (1, 2, 3)), "plies/s", None, "b")
    assert (found.value, found.against, found.ratio) == (2, None, None)


def test_values_are_rounded_to_four_digits() -> None:
    assert result(Measurement("a", (123_456.0,)), "plies/s").value == 123_500


def test_the_json_line_has_the_promised_shape() -> None:
    core = max(os.sched_getaffinity(0))
    results = (Result("a", 3.0, "plies/s", "b", 1.5, best=4.0, against_value=2.0), Result("size", 7, "bytes"))
    line = Report("games", describe([core]), results, ("a note",)).json_line()
    assert "\n" not in line
    report = json.loads(line)
    assert list(report) == ["benchmark", "machine", "results"]
    assert report["benchmark"] == "games"
    assert report["machine"]["pinned"] == [core]
    assert report["results"] == [
        {"name": "a", "value": 3.0, "unit": "plies/s", "against": "b", "ratio": 1.5},
        {"name": "size", "value": 7, "unit": "bytes", "against": None, "ratio": None},
    ]


def test_held_to_a_core_and_back() -> None:
    before = os.sched_getaffinity(0)
    with held_to([max(before)]):
        assert os.sched_getaffinity(0) == {max(before)}
    assert os.sched_getaffinity(0) == before


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with one peer in it."""
    (tmp_path / "runner.py").write_text((PROGRAMS / "runner.py").read_text())
    (tmp_path / "peer_counter.py").write_text(PEER)
    return tmp_path


def test_a_peer_measures_in_a_program_of_its_own_and_takes_turns(programs: Path) -> None:
    with running_peer("counter", Path(sys.executable), programs) as peer:
        assert note_on(peer, "counter") == "counter is version 1.2.3"
        measured = take_turns([*contenders_of(peer, ["count"]), Scripted("a", [20, 30], [])], quiet(rounds=2))
    assert list(measured["counter.count"].rates) == [10, 10]
    assert result_against(measured["a"], "1/s", measured["counter.count"], "counter").ratio == 2.5


def test_a_peer_that_is_not_installed_is_none_and_the_note_says_what_to_do(tmp_path: Path) -> None:
    with running_peer("counter", tmp_path / "python", tmp_path) as peer:
        assert contenders_of(peer, ["count"]) == []
        assert "make bench-peers" in note_on(peer, "counter")


def test_a_peer_that_dies_is_named(programs: Path) -> None:
    with (
        running_peer("counter", Path(sys.executable), programs) as peer,
        pytest.raises(WorkerError, match="peer counter ended with status 1"),
    ):
        contenders_of(peer, ["fail"])[0].measure(1.0)


def test_moves_are_drawn_uniformly_from_lists_and_masks_alike() -> None:
    mask = np.zeros((3, 5), np.uint8)
    mask[0, [1, 4]] = mask[1, 2] = mask[2, [0, 1, 3]] = 1
    masked = Legal(mask, np.zeros(0, np.int32))
    listed = Legal(np.array([1, 4, 2, 0, 1, 3, 99], np.uint16), np.array([0, 2, 3, 6], np.int32))
    for legal in (masked, listed):
        random = np.random.default_rng(1)
        drawn = np.stack([draw(legal, random) for _ in range(600)])
        for lane, legal_actions in enumerate(([1, 4], [2], [0, 1, 3])):
            actions, counts = np.unique(drawn[:, lane], return_counts=True)
            assert actions.tolist() == legal_actions
            assert counts.min() > 0.8 * counts.mean()


def ticking() -> Callable[[], float]:
    """A clock that goes on by a second whenever it is read."""
    ticks = count()
    return lambda: float(next(ticks))


@pytest.mark.parametrize("form", [Form("uint8", "list"), Form("packed", "list"), Form("float32", "mask")], ids=str)
def test_self_play_plays_until_its_clock_says_stop(form: Form) -> None:
    games = SelfPlay("games", form, copies=3, clock=ticking())
    assert games.measure(5.0) == Sample(work=4 * 3, seconds=5.0)
    games.close()


def test_replayed_self_play_plays_the_moves_that_it_drew() -> None:
    games = ReplayedSelfPlay("games", Form("float32", "mask"), copies=3, clock=ticking())
    assert games.measure(2.0) == Sample(work=2 * REPLAYED_STEPS * 3, seconds=2.0)
    games.close()


def test_training_on_connect_four_is_measured_in_whole_iterations_and_learns() -> None:
    training = connect_four.Training(connect_four.config())
    before = connect_four.match(training.policy, games=200)
    sample = training.measure(0.01)
    assert sample.work == 16 * 128
    training.learn_for(2.0)
    after = connect_four.match(training.policy, games=200)
    assert after.wins > max(before.wins, 140)  # as often as not at the start


def test_connect_four_is_learnt_ahead_in_two_workers() -> None:
    with connect_four_workers.training() as training:
        assert training.measure(0.01).work == 16 * 128
    assert str(PROGRAMS) not in sys.path


def test_ours_is_compared_with_the_best_mode_of_each_peer() -> None:
    rates = {"c4_workers": 30.0, "cleanrl.workers": 10.0, "cleanrl.in_process": 20.0, "rllib.workers": 5.0}
    found = connect_four_workers.compared({name: Measurement(name, (rate,)) for name, rate in rates.items()})
    ratios = {one.against: one.ratio for one in found if one.name == "c4_workers"}
    assert ratios == {"cleanrl": 1.5, "rllib": 6.0}


def test_learning_ahead_is_scored_beside_learning_in_turns() -> None:
    assert 0 <= async_learning.score(4096, 20, "parallel.async_learning=true") <= 100
    scores = {"synchronous": [90.0, 92.0], "asynchronous": [91.0, 95.0]}
    assert [one.value for one in async_learning.results_of(scores)] == [91.0, 93.0, 2.0]
    assert async_learning.interval([91.0, 95.0]) == "93.00 ± 25.41"  # 12.706 · √8 / √2


def test_ways_are_scored_from_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def score(steps: int, games: int, *overrides: str) -> float:
        asked.append(overrides)
        return float(len(asked))

    monkeypatch.setattr(async_learning, "score", score)
    found = async_learning.scores_of({"a": "x=1", "b": "x=1 y=2"}, (1, 2), quiet(1))
    assert found == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert asked[1] == ("run.seed=1", "x=1", "y=2")


def test_weights_are_published_at_the_interval_of_the_run() -> None:
    training = connect_four.Training(connect_four.config("parallel.model_sync_interval=2"))
    versions = []
    for _ in range(4):
        training.learn_steps(1)
        versions.append(training.version)
    training.close()
    assert versions == [0, 2, 2, 4]


def test_a_peer_and_the_programs_that_it_started_end_together(tmp_path: Path) -> None:
    (tmp_path / "runner.py").write_text((PROGRAMS / "runner.py").read_text())
    (tmp_path / "peer_parent.py").write_text(PARENT)
    with running_peer("parent", Path(sys.executable), tmp_path) as peer:
        assert peer is not None
        child = int(peer.ask("child", 1.0).work)
        assert Path(f"/proc/{child}").exists()
    deadline = time.monotonic() + 10
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(child)


def runs(process: int) -> bool:
    """Whether a process is there, and not only waits for its parent to take note of its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_command_ends_with_the_json_line() -> None:
    ran = CliRunner().invoke(app, ["bench", "perft", "--json", "--rounds", "1", "--seconds", "0.001"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["benchmark"] == "perft"
    assert report["results"][0]["name"] == "perft5"
    assert set(report["results"][0]) == {"name", "value", "unit", "against", "ratio"}


def results_of(benchmark: str) -> dict[str, str | None]:
    """What a short measurement's JSON line names, each with what it is compared with."""
    ran = CliRunner().invoke(app, ["bench", benchmark, "--json", "--rounds", "1", "--seconds", "0.001"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["benchmark"] == benchmark
    assert all(one["value"] > 0 for one in report["results"])
    assert all((one["against"] is None) == (one["ratio"] is None) for one in report["results"])
    return {one["name"]: one["against"] for one in report["results"]}


@pytest.mark.slow
def test_blocks_of_every_size_are_measured() -> None:
    assert list(results_of("blocks")) == [f"blocks_of_{size}" for size in (8, 16, 32, 64, 128, 256)]


@pytest.mark.slow
def test_the_environment_is_measured_by_the_promised_names() -> None:
    against = results_of("environment")
    cshogi = "cshogi" if python_of("cshogi").exists() else None
    assert against["env_u8_list"] == against["env_f32_mask"] == cshogi
    assert against["env_packed_list"] is against["bytes_per_game"] is None
    if len(os.sched_getaffinity(0)) > 1:
        assert against["env_2_threads"] == "one"


@pytest.mark.slow
def test_learning_is_measured_by_the_promised_names() -> None:
    against = results_of("learning")
    assert (against["collect"], against["update"]) == ("forward", "step")


def test_a_core_that_does_not_exist_is_refused() -> None:
    ran = CliRunner().invoke(app, ["bench", "perft", "--core", "9999"])
    assert isinstance(ran.exception, ConfigError)
    assert "not 9999" in str(ran.exception)
