"""Spans are written down as they happen, from several threads and processes, and are there when a process is not."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keisei.bench.spans import Recorder, read, read_all, seconds_per_span


def test_calls_are_spans_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 8)
    inner = recorder.traced(1, time.sleep)
    outer = recorder.traced(0, lambda: inner(0.01))
    before = time.perf_counter()
    outer()
    after = time.perf_counter()
    (recording,) = read_all(tmp_path)
    assert recording.process == os.getpid()
    assert recording.lost == 0
    first, second = recording.spans
    assert (first.name, second.name) == (0, 1)
    assert before <= first.begin <= second.begin
    assert second.end - second.begin >= 0.01
    assert second.end <= first.end <= after


def test_traced_function_takes_and_gives_what_it_did(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 8)
    assert recorder.traced(0, divmod)(7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        recorder.traced(0, divmod)(7, 0)
    assert all(span.end < math.inf for span in read_all(tmp_path)[0].spans)


def test_spans_without_room_are_counted(tmp_path: Path) -> None:
    traced = Recorder(tmp_path, 3).traced(0, time.perf_counter)
    for _ in range(10):
        traced()
    (recording,) = read_all(tmp_path)
    assert len(recording.spans) == 3
    assert recording.lost == 7


def test_threads_are_told_apart_and_named(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 1000)
    traced = recorder.traced(0, lambda: None)
    threads = [threading.Thread(target=lambda: [traced() for _ in range(100)], name=f"helper {n}") for n in range(3)]
    traced()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = read_all(tmp_path)[0].spans
    assert len(spans) == 301
    assert {recorder.threads[span.thread] for span in spans} >= {"", "helper 0"}


CODE = """
import sys, time
from pathlib import Path
from keisei.bench.spans import Recorder
recorder = Recorder(Path(sys.argv[1]), 8)
recorder.traced(0, abs)(1)
print("ready", flush=True)
recorder.traced(1, time.sleep)(60)
"""


def test_what_a_killed_process_was_in_is_seen(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        file = tmp_path / f"{process.pid}.spans"
        while len(read(file).spans) < 2:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    whole, torn = read(file).spans
    assert whole.end < math.inf
    assert torn.end == math.inf
    assert torn.begin >= whole.end


def test_a_span_costs_next_to_nothing(tmp_path: Path) -> None:
    assert 0 <= seconds_per_span(tmp_path) < 1e-4
    assert not list(tmp_path.glob("*.spans"))
