"""`num_workers: auto`: who collects is chosen by a short measurement, and one line says why."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import cast

import pytest

from keisei import build
from keisei.build.automatic import chosen, fitting
from keisei.collect.serial import SerialCollector
from keisei.config import Config, load_run
from keisei.parallel.manager import ParallelManager
from tiny_runs import write_config

SLOW, FAST = 0.02, 0.001
LONG = "run.total_steps=1_000_000"
AHEAD = "parallel.async_learning=true"


class Paced:
    """The collector of a run, which takes so many seconds more for a rollout."""

    def __init__(self, plain: SerialCollector, seconds: float) -> None:
        self.policy = plain.policy
        self.closed = self.has_begun_anew = False
        self._plain = plain
        self._seconds = seconds

    def collect(self, iteration: int) -> object:
        time.sleep(self._seconds)
        return self._plain.collect(iteration)

    def publish(self, weights: object, version: int) -> None:
        pass

    def reset(self) -> None:
        self.has_begun_anew = True

    def close(self) -> None:
        self.closed = True


class Choice:
    """What was chosen, of a serial collector and workers of a certain pace, on so many processors."""

    def __init__(self, config: Config, monkeypatch: pytest.MonkeyPatch, *, here: float, there: float) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        self.said: list[str] = []
        self.numbers: list[int] = []
        self.workers = Paced(build.serial(config, build.game(config)), there)

        def serial(steps: int | None) -> SerialCollector:
            return cast(SerialCollector, Paced(build.serial(config, build.game(config), steps), here))

        def workers(number: int) -> ParallelManager:
            self.numbers.append(number)
            return cast(ParallelManager, self.workers)

        self.chosen: object = chosen(config, serial, workers, lambda kind, text: self.said.append(f"{kind} {text}"))

    @property
    def line(self) -> str:
        """The one line that was said."""
        (line,) = self.said
        return line


def configured(folder: Path, *overrides: str) -> Config:
    return load_run(write_config(folder, "parallel.enabled=true", LONG, *overrides))


def test_workers_that_are_faster_are_taken_and_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Choice(configured(tmp_path), monkeypatch, here=SLOW, there=FAST)
    assert choice.chosen is choice.workers
    assert choice.workers.has_begun_anew
    assert choice.numbers == [2]
    assert choice.line.startswith("mode 2 workers: ")
    assert "steps/s in one process" in choice.line


def test_workers_that_are_slower_are_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Choice(configured(tmp_path), monkeypatch, here=FAST, there=SLOW)
    assert choice.chosen is not choice.workers
    assert choice.workers.closed
    assert choice.line.startswith("mode no workers: ")


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (("parallel.block_size=4",), "all copies are one block"),
        (("run.total_steps=64",), "one process collects the whole run in about"),
        ((AHEAD, "parallel.learner_threads=2"), "the learner keeps all processors busy"),
    ],
)
def test_workers_that_cannot_help_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], why: str
) -> None:
    choice = Choice(configured(tmp_path, *overrides), monkeypatch, here=FAST, there=FAST)
    assert not choice.numbers
    assert why in choice.line


def test_a_worker_collects_ahead_where_a_processor_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is slower: what it does costs the learner nothing."""
    config = configured(tmp_path, AHEAD, "parallel.block_size=4")
    choice = Choice(config, monkeypatch, here=FAST, there=SLOW)
    assert choice.chosen is choice.workers
    assert choice.numbers == [fitting(config)] == [1]
    assert choice.line.startswith("mode 1 worker: ")


def test_a_run_says_what_was_chosen(tmp_path: Path) -> None:
    config = load_run(write_config(tmp_path, "parallel.enabled=true", "parallel.block_size=4"))
    said: list[str] = []
    build.collector(config, build.game(config), lambda kind, text: said.append(text)).close()
    assert said == ["no workers: all copies are one block, which one process plays"]
