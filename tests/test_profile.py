"""`keisei profile`: the table adds up, the timeline has every process, and the run is the one that it would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keisei.bench import profile
from keisei.bench.profile import as_profiled
from keisei.bench.spans import Recording, Span
from keisei.bench.timeline import Row, account, tracks_of, write_trace
from keisei.bench.tracing import NAMES, POINTS, traced_here
from keisei.cli import app
from keisei.config import load_run
from keisei.policy import Policy
from tiny_runs import SHOGI, TIC_TAC_TOE, Sections, final_sha256, write_config

WINDOW = (10.0, 20.0)
NAMED = ("a", "b")
ASYNC = "parallel.async_learning=true"


def recording(*spans: tuple[int, int, float, float]) -> Recording:
    return Recording(7, [Span(*one) for one in spans], 0)


def only_row(found: Recording) -> Row:
    (track,) = tracks_of(found, "learner", {}, WINDOW)
    return account(track, NAMED, WINDOW)


def test_time_goes_to_the_innermost_activity() -> None:
    row = only_row(recording((0, 1, 11, 15), (1, 1, 12, 13), (1, 1, 13, 14), (0, 1, 16, 17)))
    assert [(depth, one.name, one.count, one.seconds, one.own_seconds) for depth, one in row.walk()] == [
        (0, "learner", 1, 10.0, 5.0),
        (1, "a", 2, 5.0, 3.0),
        (2, "b", 2, 2.0, 2.0),
    ]


def test_only_what_lies_within_the_window_counts() -> None:
    row = only_row(recording((1, 1, 1, 2), (0, 1, 5, 12), (1, 1, 6, 11), (0, 1, 19, float("inf")), (1, 1, 21, 22)))
    assert [(one.name, one.seconds) for _, one in row.walk()] == [("learner", 10.0), ("a", 3.0), ("b", 1.0)]


def test_threads_have_tracks_of_their_own() -> None:
    tracks = list(tracks_of(recording((0, 1, 11, 15), (1, 2, 12, 13)), "learner", {2: "ahead"}, WINDOW))
    assert [track.name for track in tracks] == ["learner", "learner, ahead"]


def test_timeline_is_in_microseconds_from_the_start_of_the_window(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    write_trace(list(tracks_of(recording((1, 1, 9, 12)), "learner", {}, WINDOW)), NAMED, WINDOW, file)
    *named, span = json.loads(file.read_text())["traceEvents"]
    assert {one["ph"] for one in named} == {"M"}
    assert span == {"ph": "X", "name": "b", "pid": 7, "tid": 0, "ts": 0.0, "dur": 2e6}


def test_functions_are_traced_only_for_a_while(tmp_path: Path) -> None:
    before = [getattr(point.owner, point.function) for point in POINTS]
    act = Policy.act
    with traced_here(tmp_path):
        assert Policy.act is not act
    assert [getattr(point.owner, point.function) for point in POINTS] == before


def names_within(row: Row) -> set[str]:
    return {one.name for depth, one in row.walk() if depth}


def assert_adds_up(found: profile.Profile) -> None:
    """Each thread's own times are the time on the wall, none of them negative."""
    for top in found.rows:
        rows = [row for _, row in top.walk()]
        assert sum(row.own_seconds for row in rows) == pytest.approx(found.seconds, rel=1e-6)
        assert all(row.own_seconds > -1e-6 for row in rows)


@pytest.mark.parametrize("base", [SHOGI, TIC_TAC_TOE], ids=["shogi", "tic-tac-toe"])
def test_serial_profile_shows_what_one_process_does(tmp_path: Path, base: Sections) -> None:
    config = load_run(write_config(tmp_path, base=base))
    found = profile.run(config, "serial", 0.2, None)
    assert (found.workers, found.lost) == (0, 0)
    assert found.steps == 16 * found.iterations > 0
    learner = found.rows[0]
    assert learner.name == "learner"
    assert {"learn", "collect", "network", "step the games", "publish weights"} <= names_within(learner)
    assert learner.own_seconds < 0.5 * found.seconds
    assert_adds_up(found)


@pytest.mark.parametrize(
    ("overrides", "waits"),
    [
        ((ASYNC,), {"wait for a rollout", "wait for the learner", "wait for workers"}),
        pytest.param((), {"wait for workers"}, marks=pytest.mark.slow),
        pytest.param(("parallel.inference=learner",), {"wait for workers"}, marks=pytest.mark.slow),
    ],
    ids=["ahead", "plain", "stepping"],
)
def test_parallel_profile_shows_every_process_and_its_waiting(
    tmp_path: Path, overrides: tuple[str, ...], waits: set[str]
) -> None:
    file = tmp_path / "trace.json"
    config = load_run(write_config(tmp_path, "parallel.num_workers=2", *overrides))
    found = profile.run(config, "parallel", 0.2, file)
    assert found.workers == 2
    assert_adds_up(found)
    threads = {top.name.partition(",")[0]: names_within(top) for top in found.rows}
    assert {"learner", "worker 0", "worker 1", "spare"} == set(threads)
    assert waits <= {name for top in found.rows if top.name.startswith("learner") for name in names_within(top)}
    assert {"carry out an order", "wait for an order", "step the games", "seal"} <= threads["worker 0"]
    assert threads["spare"] == {"wait for an order"}

    events = json.loads(file.read_text())["traceEvents"]
    processes = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert sorted(processes.values()) == ["learner", "spare", "worker 0", "worker 1"]
    spans = [one for one in events if one["ph"] == "X"]
    assert {one["pid"] for one in spans} == set(processes)
    assert {one["name"] for one in spans} <= set(NAMES)
    assert all(one["ts"] >= 0 and one["ts"] + one["dur"] <= 1e6 * found.seconds + 1 for one in spans)


def test_profiled_run_has_its_own_number_of_workers_or_one_that_fits(tmp_path: Path) -> None:
    file = write_config(tmp_path)
    assert as_profiled(load_run(file, ["parallel.num_workers=3"]), "parallel").parallel.num_workers == 3
    fitting = as_profiled(load_run(file), "parallel")
    assert fitting.parallel.enabled
    assert fitting.parallel.num_workers in (1, 2)
    assert not as_profiled(load_run(file), "serial").parallel.enabled


def test_tracing_changes_no_bit(tmp_path: Path) -> None:
    (tmp_path / "spans").mkdir()
    plain = final_sha256(tmp_path / "plain")
    with traced_here(tmp_path / "spans"):
        assert final_sha256(tmp_path / "traced") == plain


def test_command_prints_a_table_and_writes_the_timeline(tmp_path: Path) -> None:
    config, file = write_config(tmp_path), tmp_path / "trace.json"
    ran = CliRunner().invoke(app, ["profile", str(config), "--seconds", "0.05", "--trace", str(file)])
    assert ran.exit_code == 0, ran.output
    assert "step the games" in ran.output
    assert "% of the processes' time" in ran.output
    assert json.loads(file.read_text())["traceEvents"]


def test_command_ends_with_a_line_of_json(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["profile", str(write_config(tmp_path)), "--seconds", "0.05", "--json"])
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["rows"][0]["name"] == "learner"
    assert said["workers"] == 0
