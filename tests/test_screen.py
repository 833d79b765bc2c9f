"""The live screen as text: what is on it, in every width and height."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from keisei.history import Event, Record
from keisei.screen import HINT, Pace, Screen, share_done, shown_numbers
from some_run import numbers, record


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def drawn(screen: Screen, width: int, height: int = 40, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(record=True, width=width, height=height, file=file)
    console.print(screen)
    text = console.export_text()
    assert {cell_len(line) for line in text.splitlines()} == {width}
    return text


def busy_screen(clock: Clock, iterations: int = 4) -> Screen:
    screen = Screen("shogi-quick", "shogi · residual tower 6×96", clock)
    for iteration in range(1, iterations + 1):
        screen.record(record(iteration, evaluated=iteration % 2 == 0))
    return screen


@pytest.mark.parametrize("width", [60, 100])
def test_screen_shows_how_the_run_goes(width: int) -> None:
    text = drawn(busy_screen(Clock()), width)
    for shown in (
        "shogi-quick",
        "residual tower 6×96",
        "40.0%",
        "4 k of 10 k steps · 0:08 · 0:12 left",
        "2.4 k plies/s playing, 500 steps/s in all",
        "80 · 106 plies long",
        "█ mate 60%  ▓ cut off 30%  ▒ perpetual",
        "black 35%, white 25%",
        "random  100.0%  +∞ Elo, 402 to ∞  at 4",
        "greedy   25.0%  −191 Elo, −260 to −130  at 4",
        "412 MiB learner",
        "policy loss         −0.0125",
        "value loss             0.25 █",
        "KL",
        HINT,
    ):
        assert shown in text, text


@pytest.mark.parametrize("width", [20, 40, 60, 72, 80, 100, 200])
@pytest.mark.parametrize("height", [10, 24, 50])
def test_every_line_fits_the_terminal(width: int, height: int) -> None:
    screen = busy_screen(Clock(), 20)
    screen.event(Event(3, "alarm", "long " * 50))
    screen.event(Event(3, "checkpoint", "two\nlines"))
    text = drawn(screen, width, height)
    if height >= 24:
        assert len(text.splitlines()) < height


def test_small_terminal_keeps_the_last_event_and_alarm_before_numbers() -> None:
    screen = busy_screen(Clock())
    screen.event(Event(3, "checkpoint", "00000003 saved"))
    assert "checkpoint: 00000003 saved" in drawn(screen, 60, 18)


def test_old_terminal_gets_letters_it_knows() -> None:
    text = drawn(busy_screen(Clock()), 80, encoding="ascii")
    assert "# mate 60%  = cut off 30%" in text
    assert not set(text) & set("█▁╭━")


def test_clock_goes_on_between_iterations_and_stands_at_the_end() -> None:
    clock = Clock()
    screen = busy_screen(clock)
    clock.now += 5
    assert "0:13 · 0:07 left" in drawn(screen, 80)
    clock.now += 60
    assert "1:13 · 0:00 left" in drawn(screen, 80)
    screen.close()
    text = drawn(screen, 80)
    assert "0:08 " in text
    assert "left" not in text
    assert HINT not in text


def test_screen_before_the_first_iteration_says_so() -> None:
    clock = Clock()
    screen = Screen("run", clock=clock)
    screen.event(Event(0, "mode", "collects in this process"))
    clock.now += 3
    text = drawn(screen, 60)
    assert "starting … 0:03" in text
    assert "mode: collects in this process" in text


def test_last_record_with_an_evaluation_alone_keeps_what_was_known() -> None:
    screen = busy_screen(Clock(), 3)
    counts = {name: numbers(3)[name] for name in ("steps", "total_steps", "games", "seconds")}
    screen.record(Record(3, {**counts, "evaluate/random/score": 0.5}))
    text = drawn(screen, 80)
    assert "value loss" in text
    assert "107 plies long" in text
    assert "random   50.0%  at 3" in text


def test_run_without_games_or_numbers_is_shown() -> None:
    screen = Screen("run")
    screen.record(Record(1, {"steps": 0, "total_steps": 0, "games": 0, "seconds": 0.0}))
    text = drawn(screen, 60)
    assert "100.0%" in text
    assert "no game has ended lately" in text


def test_names_with_markup_are_shown_as_they_are() -> None:
    screen = Screen("[bold]run[/]", "[red]about")
    screen.event(Event(0, "note", "[/nonsense]"))
    text = drawn(screen, 60)
    for shown in ("[bold]run[/]", "[red]about", "[/nonsense]"):
        assert shown in text


def test_alarms_stay_when_events_follow() -> None:
    screen = busy_screen(Clock())
    screen.event(Event(1, "alarm", "the disk is full"))
    for number in range(9):
        screen.event(Event(2, "checkpoint", f"number {number}"))
    text = drawn(screen, 80)
    assert "alarm: the disk is full" in text
    assert "number 8" in text
    assert "number 2" not in text


def test_pace_is_that_of_the_last_iterations() -> None:
    pace = Pace()
    assert pace.rate() == 0
    assert pace.left() is None
    pace.add(record(1))
    assert pace.rate() == 500
    for iteration in range(2, 5):
        pace.add(record(iteration))
    assert pace.rate() == 500
    assert pace.left() == 12


def test_resumed_run_knows_no_pace_but_the_old_one_at_first() -> None:
    pace = Pace()
    pace.add(record(8))
    assert pace.rate() == 500


def test_share_done_ends_at_the_whole() -> None:
    assert share_done(record(4)) == 0.4
    assert share_done(record(12)) == 1.0


def test_best_known_numbers_come_first() -> None:
    given = Record(1, {**numbers(1), "learn/zeta": 1.0, **{f"learn/a{i}": 0.0 for i in range(9)}})
    assert shown_numbers(given)[:5] == ["policy_loss", "value_loss", "entropy", "kl", "zeta"]
    assert len(shown_numbers(given)) == 8


# --- who collects ----------------------------------------------------------------------------------------------------


def with_workers(count: int, **parallel: float) -> Screen:
    """A run of so many workers, in its fourth iteration."""
    screen = busy_screen(Clock(), 3)
    told = {"restarts": 2, "version_lag": 1, "queue_depth": 3, "syncs": 4, "sync_bytes": 4 * 2**20, "sync_ms": 0.75}
    found = {f"parallel/{name}": value for name, value in {**told, **parallel}.items()}
    for place in range(count):
        about = {"busy": 0.9, "steps": 1500 * (place + 1), "games": 12, "reward": -3.5, "restarts": place}
        found |= {f"worker/{place}/{name}": value for name, value in {**about, "silent_seconds": 2}.items()}
        found[f"memory/worker_{place}"] = 300 * 2**20
    screen.record(Record(4, {**numbers(4), **found, "memory/all": 900 * 2**20}))
    return screen


def test_workers_are_shown_together_and_each() -> None:
    text = drawn(with_workers(2), 100)
    for shown in (
        "2, 90% busy · 2 restarted · 3 blocks waiting",
        "1 versions behind · sent 4 times, 1 MiB in 0.75 ms",
        "worker 0  90% busy  1.5 k steps  12 games  reward −3.5  0 restarts  seen 0:02 ago",
        "worker 1  90% busy  3 k steps",
        "412 MiB learner · 900 MiB all",
    ):
        assert shown in text, text


@pytest.mark.parametrize("height", [12, 18, 24, 30, 100])
def test_many_workers_leave_room_for_the_rest(height: int) -> None:
    screen = with_workers(40)
    screen.event(Event(4, "checkpoint", "00000004 saved"))
    text = drawn(screen, 100, height)
    assert "40, 90% busy" in text
    if height >= 24:
        assert len(text.splitlines()) < height
        assert "00000004 saved" in text
    assert ("worker 0" in text) == (height >= 30)
    assert ("more" in text) == (height == 30)


def test_workers_that_are_all_gone_are_said_to_be() -> None:
    assert "none left: this process plays on · 2 restarted" in drawn(with_workers(0, degraded=1), 100)


def test_screen_of_a_run_without_workers_says_nothing_of_them() -> None:
    assert "workers" not in drawn(busy_screen(Clock()), 100)


def test_time_of_compiling_is_shown_as_such() -> None:
    def screen(**more: float) -> Screen:
        one = Screen("a-run", "")
        one.record(Record(1, {**numbers(1), **more}))
        return one

    assert "compiling" not in drawn(screen(), 100)
    shown = drawn(screen(**{"device/compile_acting_seconds": 75.0, "learn/compile_seconds": 30.0}), 100)
    assert "compiling" in shown
    assert "1:15 for acting, 0:30 for learning" in shown
