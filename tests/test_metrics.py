"""Where numbers go: files that are whole, also where the disk is full, and cut back to a checkpoint."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keisei.errors import CheckpointError, RunError
from keisei.history import LINES, Event, Record, read
from keisei.metrics import EVENT_FILES, AppendedFile, JsonLines, Metrics, Sink, TensorBoard, cut_back, open_metrics
from keisei.view import LogLines
from some_run import STEPS, numbers, write


class Listener(Sink):
    """Keeps what it is told; fails with an error for as long as it has one."""

    def __init__(self, name: str = "listener") -> None:
        self.name = name
        self.records: list[Record] = []
        self.events: list[Event] = []
        self.error: OSError | None = None
        self.closed = 0

    def record(self, record: Record) -> None:
        if self.error:
            raise self.error
        self.records.append(record)

    def event(self, event: Event) -> None:
        if self.error:
            raise self.error
        self.events.append(event)

    def flush(self) -> None:
        if self.error:
            raise self.error

    def close(self) -> None:
        self.closed += 1

    def heard(self) -> list[tuple[str, str]]:
        return [(event.kind, event.text) for event in self.events]


def event_files(run: Path) -> list[Path]:
    return sorted((run / EVENT_FILES).iterdir())


def scalars(run: Path) -> EventAccumulator:
    """What TensorBoard reads from a run."""
    found = EventAccumulator(str(run / EVENT_FILES), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


# --- telling ---------------------------------------------------------------------------------------------------------


def test_every_sink_is_told_everything_in_order() -> None:
    first, second = Listener("first"), Listener("second")
    with Metrics([first, second]) as metrics:
        metrics.record(1, numbers(1))
        metrics.event(1, "checkpoint", "saved")
    for sink in (first, second):
        assert [record.iteration for record in sink.records] == [1]
        assert sink.heard() == [("checkpoint", "saved")]


def test_signal_in_the_middle_of_a_record_is_told_after_it(tmp_path: Path) -> None:
    class Interrupted(Listener):
        def record(self, record: Record) -> None:
            super().record(record)
            metrics.event(record.iteration, "stop", "as a signal handler says it")

    file, before, after = JsonLines(tmp_path), Interrupted("before"), Listener("after")
    metrics = Metrics([before, file, after])
    metrics.record(1, numbers(1))
    metrics.record(2, numbers(2))
    assert [record.iteration for record in after.records] == [1, 2]
    assert [event.iteration for event in after.events] == [1, 2]
    kinds = ["event" if b'"event"' in each else "record" for each in (tmp_path / LINES).read_bytes().splitlines()]
    assert kinds == ["record", "event", "record", "event"]
    metrics.close()


def test_signals_at_any_moment_cost_no_line(tmp_path: Path) -> None:
    metrics = open_metrics(tmp_path, LogLines(tmp_path))
    told = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told += 1
        metrics.event(0, "stop", f"{told}")

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for iteration in range(1, 301):
            metrics.record(iteration, numbers(iteration, total=300))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    metrics.close()
    history = read(tmp_path)
    assert told > 10
    assert [record.iteration for record in history.records] == list(range(1, 301))
    assert [int(event.text) for event in history.events] == list(range(1, told + 1))
    assert history.damaged == 0
    assert len(scalars(tmp_path).Scalars("learn/kl")) == 300


def test_closing_twice_closes_once() -> None:
    sink = Listener()
    metrics = Metrics([sink])
    metrics.close()
    metrics.close()
    assert sink.closed == 1


def test_sink_that_fails_is_one_alarm_to_the_others_until_it_recovers() -> None:
    failing, other = Listener("the view"), Listener("other")
    metrics = Metrics([failing, other])
    failing.error = BrokenPipeError(32, "Broken pipe")
    for iteration in (1, 2, 3):
        metrics.record(iteration, numbers(iteration))
    alarm = ("alarm", "the view cannot be written: Broken pipe")
    assert other.heard() == [alarm]
    assert [record.iteration for record in other.records] == [1, 2, 3]
    failing.error = None
    metrics.record(4, numbers(4))
    assert other.heard() == [alarm, ("recovered", "the view is written again")]
    assert failing.heard() == [("recovered", "the view is written again")]


def test_sinks_that_all_fail_do_not_stop_the_run() -> None:
    sinks = [Listener("first"), Listener("second")]
    for sink in sinks:
        sink.error = OSError(5, "Input/output error")
    metrics = Metrics(sinks)
    for iteration in (1, 2, 3):
        metrics.record(iteration, numbers(iteration))
    metrics.close()


def test_sink_that_fails_at_the_end_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Last(Sink):
        name = "the view"

        def close(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    Metrics([Last()]).close()
    assert caplog.messages == ["the view cannot be written: Broken pipe"]


def test_mistake_in_a_sink_is_not_swallowed() -> None:
    class Wrong(Sink):
        def record(self, record: Record) -> None:
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        Metrics([Wrong()]).record(1, numbers(1))


@pytest.mark.parametrize("name", ["iteration", "time", "event", "text", "not_finite"])
def test_number_with_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is no name for a number"):
        Metrics([]).record(1, {**numbers(1), name: 1.0})


# --- files -----------------------------------------------------------------------------------------------------------


def test_lines_are_written_at_once(tmp_path: Path) -> None:
    metrics = open_metrics(tmp_path)
    metrics.record(1, numbers(1))
    metrics.event(1, "mode", "collects in this process")
    first, second = map(json.loads, (tmp_path / LINES).read_text().splitlines())
    assert first["iteration"] == 1
    assert first["learn/policy_loss"] == -0.0125
    assert second["event"] == "mode"
    metrics.close()


def test_truth_values_and_other_numbers_are_written_as_plain_ones(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    with open_metrics(tmp_path) as metrics:
        metrics.record(1, {**numbers(1), "learn/stopped_early": True, "learn/kl": np.float32(0.5)})
    said = json.loads((tmp_path / LINES).read_text())
    assert said["learn/stopped_early"] == 1
    assert said["learn/stopped_early"] is not True
    assert said["learn/kl"] == 0.5


def test_tensorboard_reads_the_event_file(tmp_path: Path) -> None:
    with open_metrics(tmp_path) as metrics:
        for iteration in (1, 2, 3):
            metrics.record(iteration, {**numbers(iteration), "learn/kl": math.nan})
        metrics.event(3, "checkpoint", "00000003 saved")
    found = scalars(tmp_path)
    assert set(numbers(1)) <= set(found.Tags()["scalars"])
    losses = found.Scalars("learn/value_loss")
    assert [event.step for event in losses] == [STEPS, 2 * STEPS, 3 * STEPS]
    assert [event.value for event in losses] == pytest.approx([1.0, 0.5, 1 / 3])
    assert all(math.isnan(event.value) for event in found.Scalars("learn/kl"))
    (text,) = found.Tensors("event/checkpoint")
    assert text.step == 3 * STEPS
    assert text.tensor_proto.string_val == [b"00000003 saved"]


def test_importing_metrics_loads_neither_torch_nor_tensorboard() -> None:
    code = "import sys, keisei.metrics; sys.exit('torch' in sys.modules or 'tensorboard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_killed_run_has_everything_that_was_recorded(tmp_path: Path) -> None:
    code = f"""
import itertools, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from keisei.metrics import open_metrics
from some_run import numbers
metrics = open_metrics(Path({str(tmp_path)!r}))
for iteration in itertools.count(1):
    metrics.record(iteration, numbers(iteration))
    print(iteration, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(30):
            known = int(process.stdout.readline())
        process.kill()
        known = max([known, *map(int, process.stdout.read().split())])
    history = read(tmp_path)
    assert history.damaged == 0
    assert [record.iteration for record in history.records][:known] == list(range(1, known + 1))
    assert len(scalars(tmp_path).Scalars("learn/kl")) >= known


def test_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(RunError, match=r"cannot write .*metrics.jsonl: File exists"):
        JsonLines(tmp_path / "run")


# --- a full disk -----------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file grows beyond a size; the write that would is cut short first, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def size_of_full_file(sink: Sink) -> int:
    """Some bytes more than a sink's file has: room for half an entry."""
    return sum(sink.sizes().values()) + 30


def assert_full_disk_is_survived(run: Path, sink: Sink, iterations: Callable[[], list[int]]) -> None:
    listener = Listener()
    metrics = Metrics([sink, listener])
    metrics.record(1, numbers(1))
    with full_disk(size_of_full_file(sink)):
        for iteration in (2, 3):
            metrics.record(iteration, numbers(iteration))
        assert [kind for kind, _ in listener.heard()] == ["alarm"]
        assert "cannot be written: File too large" in listener.heard()[0][1]
        assert iterations() == [1]
        assert sum(sink.sizes().values()) == sum((run / name).stat().st_size for name in sink.sizes())
    metrics.record(4, numbers(4))
    assert [kind for kind, _ in listener.heard()] == ["alarm", "recovered"]
    metrics.close()
    assert iterations() == [1, 2, 3, 4]
    assert [record.iteration for record in listener.records] == [1, 2, 3, 4]


def lines_of(run: Path) -> list[int]:
    history = read(run)
    assert history.damaged == 0
    assert (run / LINES).read_bytes().endswith(b"\n")
    return [record.iteration for record in history.records]


def test_full_disk_costs_no_line(tmp_path: Path) -> None:
    assert_full_disk_is_survived(tmp_path, JsonLines(tmp_path), lambda: lines_of(tmp_path))
    assert [event.kind for event in read(tmp_path).events] == ["alarm", "recovered"]


def test_full_disk_costs_no_scalar(tmp_path: Path) -> None:
    def iterations() -> list[int]:
        return [event.step // STEPS for event in scalars(tmp_path).Scalars("learn/kl")]

    assert_full_disk_is_survived(tmp_path, TensorBoard(tmp_path), iterations)


class Careless(Sink):
    """JSON lines as one writes them without a thought."""

    name = LINES

    def __init__(self, run: Path) -> None:
        self._path = run / LINES

    def record(self, record: Record) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"iteration": record.iteration, "time": record.time, **record.numbers}) + "\n")

    def sizes(self) -> dict[str, int]:
        return {LINES: self._path.stat().st_size}


def test_full_disk_would_cost_lines_without_care(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assert_full_disk_is_survived(tmp_path, Careless(tmp_path), lambda: lines_of(tmp_path))


def test_what_a_full_disk_costs_at_the_end_is_said(tmp_path: Path) -> None:
    sink, listener = JsonLines(tmp_path), Listener()
    with full_disk(10):
        metrics = Metrics([sink, listener])
        metrics.record(1, numbers(1))
        metrics.close()
    assert listener.heard()[-1] == ("alarm", f"{LINES} was not written to its end: 2 entries are lost")


def test_memory_for_what_cannot_be_written_is_bounded(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "file", limit=100)
    with full_disk(0):
        for number in range(10):
            with pytest.raises(OSError, match="File too large"):
                file.append(b"%029d\n" % number)
    assert file.unwritten == 10
    file.flush()
    assert file.unwritten == 7
    assert [int(each) for each in (tmp_path / "file").read_text().split()] == [7, 8, 9]


def test_file_that_was_deleted_is_an_alarm(tmp_path: Path) -> None:
    listener = Listener()
    with Metrics([JsonLines(tmp_path), listener]) as metrics:
        metrics.record(1, numbers(1))
        (tmp_path / LINES).unlink()
        metrics.record(2, numbers(2))
    assert listener.heard()[0] == (
        "alarm",
        f"{LINES} cannot be written: it was deleted",
    )


# --- resuming --------------------------------------------------------------------------------------------------------


def session(run: Path, first: int, last: int) -> dict[str, int]:
    """One session of a run; gives the sizes that a checkpoint after its second iteration keeps."""
    metrics = open_metrics(run, steps=(first - 1) * STEPS)
    for iteration in range(first, last + 1):
        metrics.record(iteration, numbers(iteration))
        if iteration == first + 1:
            sizes = metrics.sizes()
    metrics.close()
    return sizes


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    with open_metrics(tmp_path, Listener()) as metrics:
        metrics.record(1, numbers(1))
        sizes = metrics.sizes()
    (event_file,) = event_files(tmp_path)
    assert set(sizes) == {LINES, f"{EVENT_FILES}/{event_file.name}"}
    assert all((tmp_path / name).stat().st_size == size for name, size in sizes.items())


def test_resumed_run_has_every_iteration_once(tmp_path: Path) -> None:
    sizes = session(tmp_path, 1, 5)
    assert cut_back(tmp_path, sizes) == []
    assert lines_of(tmp_path) == [1, 2]
    session(tmp_path, 3, 6)
    assert lines_of(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert len(event_files(tmp_path)) == 2
    steps = [event.step for event in scalars(tmp_path).Scalars("learn/kl")]
    assert steps == [STEPS * iteration for iteration in range(1, 7)]


def test_event_file_that_the_checkpoint_does_not_know_goes(tmp_path: Path) -> None:
    sizes = session(tmp_path, 1, 3)
    session(tmp_path, 4, 6)
    (tmp_path / EVENT_FILES / "notes.txt").write_text("mine")
    cut_back(tmp_path, sizes)
    assert {f"{EVENT_FILES}/{file.name}" for file in event_files(tmp_path)} == {*sizes, f"{EVENT_FILES}/notes.txt"} - {
        LINES
    }
    assert lines_of(tmp_path) == [1, 2]


def test_watching_tensorboard_forgets_what_was_cut_off(tmp_path: Path) -> None:
    session(tmp_path, 1, 5)
    watching = scalars(tmp_path)
    session(tmp_path, 3, 4)  # as it reads on in a new file, having read the old one before it was cut
    watching.Reload()
    assert [event.step // STEPS for event in watching.Scalars("learn/kl")] == [1, 2, 3, 4]


def test_checkpoint_without_metrics_takes_everything_away(tmp_path: Path) -> None:
    session(tmp_path, 1, 3)
    assert cut_back(tmp_path, {}) == []
    assert (tmp_path / LINES).read_bytes() == b""
    assert event_files(tmp_path) == []


def test_file_that_is_too_short_is_said_and_cut_to_whole_lines(tmp_path: Path) -> None:
    sizes = session(tmp_path, 1, 2)
    os.truncate(tmp_path / LINES, sizes[LINES] - 7)
    (event_file,) = event_files(tmp_path)
    event_file.unlink()
    said = cut_back(tmp_path, sizes)
    assert said == [
        f"{LINES} has {sizes[LINES] - 7} bytes, the checkpoint knew {sizes[LINES]}: the numbers between are missing",
        f"{EVENT_FILES}/{event_file.name} is gone: the numbers before the checkpoint are missing",
    ]
    session(tmp_path, 3, 4)
    assert lines_of(tmp_path) == [1, 3, 4]


@pytest.mark.parametrize(
    "name", ["../metrics.jsonl", "/etc/passwd", "config.yaml", "tensorboard/../a.tfevents.1", "tensorboard/notes"]
)
def test_checkpoint_that_names_other_files_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, 2)
    before = (tmp_path / LINES).read_bytes()
    with pytest.raises(CheckpointError, match="expected the sizes of"):
        cut_back(tmp_path, {name: 0})
    assert (tmp_path / LINES).read_bytes() == before


def test_link_is_not_followed_when_cutting(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not cut")
    (tmp_path / LINES).symlink_to(precious)
    with pytest.raises(RunError, match="cannot cut back"):
        cut_back(tmp_path, {LINES: 1})
    assert precious.read_text() == "do not cut"
