"""Records and events as lines, and reading a run's lines again."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from keisei.errors import RunError
from keisei.history import LINES, Evaluation, Event, Record, entry, latest, line, read
from some_run import numbers, record, write


def test_record_needs_its_counts() -> None:
    with pytest.raises(ValueError, match="games missing at 3"):
        Record(3, {"steps": 1, "total_steps": 2, "seconds": 3.0})


def test_record_knows_its_counts_and_groups() -> None:
    given = record(4)
    assert (given.steps, given.total_steps, given.games, given.seconds) == (4000, 10000, 80, 8.0)
    assert given.group("collect/reason") == {"mate": 12, "cut_off": 6, "perpetual_check": 2}
    assert given.group("nothing") == {}


def test_evaluations_are_found_by_opponent() -> None:
    random, greedy = record(4, evaluated=True).evaluations()
    assert random == Evaluation("random", 1.0, math.inf, 402.4, math.inf)
    assert greedy.opponent == "greedy"
    assert record(3).evaluations() == []


def test_opponent_may_have_a_slash_in_its_name() -> None:
    given = Record(1, {**numbers(1), "evaluate/runs/old/score": 0.5, "evaluate/runs/old/elo": 0.0})
    (found,) = given.evaluations()
    assert (found.opponent, found.score, found.elo) == ("runs/old", 0.5, 0.0)
    assert math.isnan(found.elo_low)


def test_line_and_entry_are_inverse() -> None:
    given = Record(7, numbers(7), 1700000000.125)
    assert entry(line(given)) == given
    event = Event(7, "alarm", "zwei\nZeilen – 形勢", 1700000000.125)
    assert entry(line(event)) == event
    assert line(event).count(b"\n") == 1


def test_number_that_is_not_finite_stays_valid_json_and_is_not_forgotten() -> None:
    strange = {"learn/kl": math.nan, "learn/value_loss": math.inf, "learn/entropy": -math.inf}
    written = line(Record(1, {**numbers(1), **strange}))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    said = json.loads(written, parse_constant=refuse)
    assert said["learn/kl"] is None
    assert said["not_finite"] == {"learn/kl": "nan", "learn/value_loss": "inf", "learn/entropy": "-inf"}
    found = entry(written)
    assert isinstance(found, Record)
    assert math.isnan(found.numbers["learn/kl"])
    assert found.numbers["learn/value_loss"] == math.inf
    assert found.numbers["learn/entropy"] == -math.inf
    assert "not_finite" not in found.numbers


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\x00",
        b"[1, 2]",
        b'"text"',
        b"{}",
        b'{"iteration": 1, "time": 2.0, "steps": 3}',
        b'{"iteration": null, "time": 2.0, "event": "a", "text": "b"}',
        b'{"iteration": 1, "time": 2, "steps": "x", "total_steps": 1, "games": 1, "seconds": 1}',
        b'{"iteration": 1, "time": 2, "steps": 1, "total_steps": 1, "games": 1, "seconds": 1, "not_finite": 3}',
    ],
)
def test_damaged_line_says_nothing(damaged: bytes) -> None:
    assert entry(damaged) is None


def test_torn_last_line_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, 3)
    file = tmp_path / LINES
    whole = file.read_bytes()
    for cut in range(1, len(whole) - len(whole[: whole.rindex(b"\n", 0, -1) + 1])):
        file.write_bytes(whole[:-cut])
        history = read(tmp_path)
        assert [each.iteration for each in history.records] == [1, 2]
        assert history.damaged == 0


def test_damaged_line_in_the_middle_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, 3)
    file = tmp_path / LINES
    first, second, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[:20] + b"\n" + third)
    history = read(tmp_path)
    assert [each.iteration for each in history.records] == [1, 3]
    assert history.damaged == 1


def test_latest_is_the_last_one_with_such_numbers(tmp_path: Path) -> None:
    write(tmp_path, 5)
    for group, iteration in (("", 5), ("evaluate", 4), ("learn", 5)):
        found = latest(tmp_path, group)
        assert found is not None
        assert found.iteration == iteration
    assert latest(tmp_path, "agents") is None


def test_missing_metrics_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot read the metrics .*metrics.jsonl: No such file or directory"):
        read(tmp_path)
