"""Workers that die or dawdle: what is promised, and how it breaks without what keeps the promise.

The processes and signals are real; `docs/faults.md` has the numbers of the rows.
"""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from crowding import crowded
from keisei.environment import Environment
from keisei.parallel.communication import WorkerCommunicator
from keisei.parallel.crew import Crew, Event
from keisei.parallel.dispatch import Dispatch
from keisei.parallel.manager import ParallelManager
from keisei.parallel.messages import Order
from keisei.parallel.playing import BlockDispatch
from keisei.parallel.starvation import starved_seconds
from trouble import is_killed, lingers
from workers import (
    Enough,
    GameName,
    Log,
    Troubled,
    WithTrouble,
    after,
    collected,
    crew,
    environment,
    everybody,
    give_up,
    managed,
    network,
    process_ids,
    rules,
    serially,
    wait_for_spare,
)

pytestmark = pytest.mark.usefixtures("quick_workers", "short_pauses")
NAME: GameName = "tic-tac-toe"


# --- row 1: killed at random instants --------------------------------------------------------------------------------


@contextmanager
def playing_on(manager: ParallelManager) -> Iterator[threading.Thread]:
    """Another thread collects on and on."""
    ends = threading.Event()

    def work() -> None:
        iteration = 0
        while not ends.is_set():
            manager.collect(iteration)
            iteration += 1

    manager.start_workers(network(NAME, 0))
    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    ends.set()
    thread.join()


def victim(manager: ParallelManager, chance: random.Random) -> int:
    """A worker that plays while nobody is being started."""
    while True:
        time.sleep(chance.uniform(0, 0.02))
        everyone = tuple(crew(manager)._everybody)
        if len(everyone) == 3 and all(one.ready for one in everyone):
            return chance.choice([one for one in everyone if one.place >= 0]).process.pid


def seconds_until_seen(kills: int, limit: float) -> list[float]:
    """How long each death of a worker at work is not seen, in order, without what this process waited for others."""
    chance, found = random.Random(1), list[float]()
    slow = rules(build=WithTrouble(lingers, at=-1))
    with managed(slow, max_restarts=1000, worker_timeout=limit) as manager, playing_on(manager) as thread:
        assert thread.native_id is not None
        while len(found) < kills:
            process, restarts = victim(manager, chance), crew(manager).restarts
            began, starved = time.monotonic(), starved_seconds(thread.native_id)
            os.kill(process, signal.SIGKILL)
            while crew(manager).restarts == restarts:
                time.sleep(0.0005)
            found.append(time.monotonic() - began - (starved_seconds(thread.native_id) - starved))
    return sorted(found)


def test_death_is_seen_within_fifty_milliseconds() -> None:
    assert statistics.median(seconds_until_seen(20, limit=20.0)) < crowded(0.05)


@pytest.mark.faults
def test_ninety_nine_of_a_hundred_deaths_are_seen_within_fifty_milliseconds() -> None:
    seen = seconds_until_seen(200, limit=20.0)
    assert seen[math.ceil(0.99 * len(seen)) - 1] <= crowded(0.05), seen[-5:]


def test_death_is_seen_by_silence_alone_without_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_away(self: Crew, worker: WorkerCommunicator) -> list[Event]:
        time.sleep(0.01)
        return []

    monkeypatch.setattr(Crew, "_ended", look_away)
    monkeypatch.setattr(Dispatch, "_count_failure", lambda self, block, text: None)  # of a worker that seems to hang
    assert statistics.median(seconds_until_seen(3, limit=0.5)) > 0.2


@pytest.mark.parametrize("inference", ["worker", "learner"])
def test_every_step_and_game_is_counted_once_whoever_is_killed(tmp_path: Path, inference: str) -> None:
    build = WithTrouble(is_killed, flag=tmp_path / "once")
    with managed(rules(build=build), inference=inference) as manager:
        manager.publish(network(NAME, 0).state_dict(), 0)
        steps = games = 0
        for iteration in range(3):
            rollout = manager.collect(iteration)
            steps, games = steps + rollout.steps, games + int(rollout.ended.sum())
        numbers = manager.statistics()
    assert numbers["parallel/restarts"] == 1
    for name, counted in (("steps", steps), ("games", games)):
        assert sum(numbers[f"worker/{place}/{name}"] for place in range(2)) == counted


def test_without_playing_again_what_a_dead_worker_held_it_is_learnt_from_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accept(self: BlockDispatch, worker: WorkerCommunicator, order: Order | None) -> None:
        self.missing.difference_update(order.blocks if order else ())

    monkeypatch.setattr(BlockDispatch, "_give_again", accept)
    with managed(rules(build=WithTrouble(is_killed, flag=tmp_path / "once"))) as manager:
        assert collected(manager, NAME, 2) != serially(NAME, 2)


def test_spare_that_stands_by_takes_the_place_of_the_dead() -> None:
    with managed() as manager:
        collected(manager, NAME, 1)
        spare = wait_for_spare(manager)
        os.kill(process_ids(manager)[1], signal.SIGKILL)
        assert collected(manager, NAME, 1, first=1) == serially(NAME, 2)[1:]
        assert process_ids(manager)[1] == spare


def test_without_a_spare_the_replacement_has_to_be_started_first(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Crew._new
    monkeypatch.setattr(Crew, "_new", lambda self, place: original(self, place) if place >= 0 else None)
    with managed() as manager:
        collected(manager, NAME, 1)
        before = everybody(manager)
        os.kill(before[1], signal.SIGKILL)
        collected(manager, NAME, 1, first=1)
        assert before[0] in everybody(manager)
        assert not set(everybody(manager)) - {before[0]} & set(before)


# --- rows 3 and 4: all at once, again and again ----------------------------------------------------------------------


def seconds_per_rollout(manager: ParallelManager, iterations: range) -> float:
    began = time.monotonic()
    for iteration in iterations:
        manager.collect(iteration)
    return (time.monotonic() - began) / len(iterations)


def test_run_is_as_fast_as_before_soon_after_all_workers_were_killed_at_once() -> None:
    with managed(rules(build=WithTrouble(lingers, at=-1)), workers=4) as manager:
        found = collected(manager, NAME, 1)
        wait_for_spare(manager)
        usual = min(seconds_per_rollout(manager, range(first, first + 2)) for first in (1, 3, 5))
        before = everybody(manager)
        for process in before:
            os.kill(process, signal.SIGKILL)
        killed = time.monotonic()
        iteration = 7
        while seconds_per_rollout(manager, range(iteration, iteration + 2)) > usual / 0.9:
            assert time.monotonic() - killed < crowded(15), "it stays slower"
            iteration += 2
        assert not set(before) & set(everybody(manager))
        assert len(process_ids(manager)) == 4
    assert found == serially(NAME, 1)


def test_without_replacements_nobody_plays_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with managed(workers=2) as manager:
        collected(manager, NAME, 1)
        monkeypatch.setattr(Crew, "_new", lambda self, place: None)
        for process in everybody(manager):
            os.kill(process, signal.SIGKILL)
        give_up(manager, after(1.0))
        with pytest.raises(Enough):
            manager.collect(1)


def test_storm_of_kills_uses_the_budget_up() -> None:
    log = Log()
    with managed(rules(build=WithTrouble(is_killed, at=-2)), log=log, max_restarts=3) as manager:
        assert collected(manager, NAME, 2) == serially(NAME, 2)
        assert manager.statistics()["parallel/restarts"] == 4
    assert "the budget of 3 restarts is spent" in log.text


def test_without_a_budget_a_storm_of_kills_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crew, "spent", property(lambda self: False))
    with managed(rules(build=WithTrouble(is_killed, at=-2)), max_restarts=3) as manager:
        manager.start_workers(network(NAME, 0))
        give_up(manager, lambda: crew(manager).restarts > 10)
        with pytest.raises(Enough):
            manager.collect(0)


# --- row 8: slow -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WithDawdler:
    """Builds environments whose steps take ten times as long in whichever worker comes first."""

    claim: Path
    home: int = field(default_factory=os.getpid)

    def __call__(self, first_lane: int) -> Environment:
        return Troubled(environment(NAME, first_lane), self._pause, at=-1)

    def _pause(self, troubled: Troubled) -> None:
        if os.getpid() != self.home:
            time.sleep(0.02 if self._is_first() else 0.002)

    def _is_first(self) -> bool:
        try:
            self.claim.symlink_to(str(os.getpid()))
        except FileExistsError:
            return os.readlink(self.claim) == str(os.getpid())
        return True


def fewest_and_seconds(claim: Path) -> tuple[int, float]:
    """Of eight blocks, how many the slower of two workers has played; and how long all of it took."""
    with managed(rules(build=WithDawdler(claim)), blocks=8) as manager:
        manager.start_workers(network(NAME, 0))
        began = time.monotonic()
        assert collected(manager, NAME, 1) == serially(NAME, 1, blocks=8)
        took = time.monotonic() - began
        return min(record.blocks for record in crew(manager).records), took


def test_slow_worker_delays_only_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any free worker takes the next block; with fixed shares, all wait for the slow one's."""
    played, took = fewest_and_seconds(tmp_path / "any")
    assert played <= 2

    def own_share(self: BlockDispatch, worker: WorkerCommunicator) -> int | None:
        own = [block for block in self._waiting if block % 2 == worker.place]
        if own:
            self._waiting.remove(own[0])
        return own[0] if own else None

    monkeypatch.setattr(BlockDispatch, "_next_block", own_share)
    played, took_longer = fewest_and_seconds(tmp_path / "shares")
    assert played == 4
    assert took < took_longer
