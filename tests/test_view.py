"""Views in real terminals, files and pipes, and what happens when these go away."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from keisei.history import Event, Record
from keisei.metrics import Metrics, Sink
from keisei.screen import Pace, Screen
from keisei.view import LOG, LiveView, LogLines, Outlet, PlainView, choose_view, plain_event, plain_record
from some_run import numbers, record


class Alarms(Sink):
    """Keeps the alarms."""

    name = "alarms"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def event(self, event: Event) -> None:
        if event.kind == "alarm":
            self.heard.append(event.text)


# --- the choice ------------------------------------------------------------------------------------------------------


class Terminal:
    """A terminal of which somebody reads the other side."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self._read = b""
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                self._read += data
        except OSError:  # nobody writes any more
            pass

    def shows(self, text: str, seconds: float = 5) -> bool:
        """Whether a text appears in time."""
        end = time.monotonic() + seconds
        while text not in self._read.decode(errors="replace"):
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        self.stream.close()
        self._reader.join(5)
        os.close(self._master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "40")
    found = Terminal()
    yield found
    found.close()


def test_terminal_gets_the_live_screen(terminal: Terminal) -> None:
    view = choose_view(terminal.stream, "run")
    assert isinstance(view, LiveView)
    view.close()


def test_dumb_terminal_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    view = choose_view(terminal.stream, "run")
    assert isinstance(view, PlainView)
    view.close()


def test_file_gets_lines(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        view = choose_view(file, "run")
        assert isinstance(view, PlainView)
        view.close()


def test_no_stream_gets_nothing() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        view = choose_view(stream, "run")
        view.record(record(1))
        view.event(Event(1, "alarm", "nobody hears it here"))
        view.close()


# --- plain lines -----------------------------------------------------------------------------------------------------


def plain(every_seconds: float = 1000) -> tuple[PlainView, io.StringIO]:
    stream = io.StringIO()
    return PlainView(Outlet(stream), "run", "shogi", every_seconds), stream


def told(stream: io.StringIO) -> list[str]:
    """The lines without their times of day."""
    return [line.split("  ", 1)[1] for line in stream.getvalue().splitlines()]


def test_record_is_one_line() -> None:
    pace = Pace()
    pace.add(record(4))
    assert plain_record(record(4, evaluated=True), pace) == (
        "iteration 4 · 40.0% · 4,000 steps · 500 steps/s · 80 games · policy loss −0.0125 · value loss 0.25 · "
        "entropy 3.1 · KL 0.008 · against random 100.0% +∞ Elo, 402 to ∞ · "
        "against greedy 25.0% −191 Elo, −260 to −130 · 0:12 left"
    )


def test_event_is_one_line() -> None:
    assert plain_event(Event(3, "alarm", "the disk is full")) == "alarm at iteration 3: the disk is full"


def test_lines_come_no_faster_than_asked_but_evaluations_and_the_last_do() -> None:
    view, stream = plain()
    for iteration in range(1, 8):
        view.record(record(iteration, evaluated=iteration == 4))
    view.close()
    heading, *lines = told(stream)
    assert heading == "run: shogi"
    assert [line.split(" · ")[0] for line in lines] == ["iteration 1", "iteration 4", "iteration 7"]


def test_every_iteration_is_said_where_that_is_asked() -> None:
    view, stream = plain(every_seconds=0)
    for iteration in range(1, 4):
        view.record(record(iteration))
    view.close()
    assert len(told(stream)) == 4


def test_event_of_many_lines_is_one_line() -> None:
    view, stream = plain()
    view.event(Event(2, "alarm", "a batch failed:\nTraceback"))
    assert told(stream)[-1] == "alarm at iteration 2: a batch failed: Traceback"


def test_log_has_every_record_and_event(tmp_path: Path) -> None:
    with Metrics([log := LogLines(tmp_path)]) as metrics:
        for iteration in (1, 2):
            metrics.record(iteration, numbers(iteration))
        metrics.event(2, "checkpoint", "saved")
        assert log.sizes() == {}
    lines = (tmp_path / LOG).read_text().splitlines()
    assert [line[19:].split(" · ")[0] for line in lines] == [
        "  iteration 1",
        "  iteration 2",
        "  checkpoint at iteration 2: saved",
    ]


# --- the live screen -------------------------------------------------------------------------------------------------


def test_live_screen_shows_what_it_is_told(terminal: Terminal) -> None:
    view = choose_view(terminal.stream, "some-run", "shogi")
    assert terminal.shows("starting")
    for iteration in range(1, 5):
        view.record(record(iteration))
    view.event(Event(4, "checkpoint", "00000004 saved"))
    view.close()
    for text in ("some-run", "40.0%", "policy loss", "checkpoint: 00000004 saved"):
        assert terminal.shows(text)
    assert terminal.shows("\x1b[?25h"), "the cursor is back"


def test_live_screen_is_drawn_again_by_itself(terminal: Terminal) -> None:
    view = choose_view(terminal.stream, "some-run")
    view.record(record(3))
    assert terminal.shows("30.0%", seconds=3)
    view.close()


def test_what_others_print_appears_above_the_live_screen(terminal: Terminal) -> None:
    view = choose_view(terminal.stream, "some-run")
    before = sys.stdout
    print("a warning from elsewhere")
    view.close()
    assert terminal.shows("a warning from elsewhere")
    assert sys.stdout is not before


def test_live_view_costs_training_next_to_nothing(terminal: Terminal) -> None:
    view = choose_view(terminal.stream, "some-run")
    records = [record(iteration, total=2000) for iteration in range(1, 1001)]
    began = time.perf_counter()
    for each in records:
        view.record(each)
    assert (time.perf_counter() - began) / len(records) < 0.001
    view.close()


def test_terminal_that_is_gone_is_an_alarm_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w")
    view, alarms = LiveView(Outlet(stream), Screen("run")), Alarms()
    metrics = Metrics([view, alarms])
    os.close(master)
    for iteration in range(1, 40):
        metrics.record(iteration, numbers(iteration, total=100))
        time.sleep(0.05)
    metrics.close()
    stream.close()
    assert alarms.heard == ["the view cannot be written: Input/output error"]


def test_plain_stream_whose_reader_is_gone_is_an_alarm_and_the_run_goes_on() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        alarms = Alarms()
        with Metrics([PlainView(Outlet(stream), "run", every_seconds=0), alarms]) as metrics:
            os.close(reading)
            for iteration in (1, 2, 3):
                metrics.record(iteration, numbers(iteration))
    assert alarms.heard == ["the view cannot be written: Broken pipe"]


RUN = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from keisei.metrics import Metrics
from keisei.view import choose_view
from some_run import numbers, record

view = choose_view(sys.stdout, "run", every_seconds=0)
metrics = Metrics([view])
for iteration in range(1, 200):
    if sys.argv[1] == "guarded":
        metrics.record(iteration, numbers(iteration, total=200))
    else:
        view.record(record(iteration, total=200))
    time.sleep(0.001)
metrics.close()
print("finished", file=sys.stderr)
"""


def piped_into_head(how: str) -> tuple[str, str, int]:
    """What `… | head -1` shows of a run, what the run says on its standard error, and its status."""
    command = [sys.executable, "-c", RUN, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    return first, said, process.returncode


def test_run_piped_into_head_goes_on_to_its_end() -> None:
    first, said, status = piped_into_head("guarded")
    assert first.endswith("run\n")
    assert status == 0
    assert said.splitlines()[-1] == "finished"
    assert "Exception" not in said


def test_run_piped_into_head_would_end_without_metrics_to_guard_it() -> None:
    _, said, status = piped_into_head("bare")
    assert status != 0
    assert "BrokenPipeError" in said


class Direct(Outlet):
    """A stream itself, not a copy that takes its errors."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._file = None


def test_live_screen_without_an_outlet_would_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with pytest.raises(SystemExit):  # as rich answers a broken pipe
        LiveView(Direct(stream), Screen("run"))
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_unknown_letters_do_not_stop_a_view(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as file:
        view = choose_view(file, "形勢")
        view.record(record(1))
        view.close()
    assert "iteration 1" in (tmp_path / "out").read_text()


def test_record_of_another_kind_of_learner_is_a_line_too() -> None:
    pace = Pace()
    given = Record(2, {"steps": 5, "total_steps": 10, "games": 0, "seconds": 0.0, "learn/agent_0/loss": 0.5})
    pace.add(given)
    assert plain_record(given, pace) == "iteration 2 · 50.0% · 5 steps · 0 steps/s · 0 games · agent 0/loss 0.5"
