"""What spans add up to, for a table; and how they look on a timeline, for Perfetto or Chrome's tracing page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from keisei.bench.spans import Recording, Span

Window = tuple[float, float]


@dataclass(frozen=True)
class Track:
    """What one thread did within a window of time."""

    process: int
    process_name: str
    thread: int
    thread_name: str
    spans: Sequence[Span]  # within the window, in the order in which they began

    @property
    def name(self) -> str:
        """What it is called in a table."""
        return f"{self.process_name}, {self.thread_name}" if self.thread_name else self.process_name


@dataclass
class Row:
    """An activity: how often, how long in all, and how long but for the activities within it."""

    name: str
    count: int = 0
    seconds: float = 0.0
    own_seconds: float = 0.0
    within: dict[str, Row] = field(default_factory=dict)

    def add(self, seconds: float) -> None:
        """It has happened once more."""
        self.count += 1
        self.seconds += seconds
        self.own_seconds += seconds

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Row]]:
        """This one and all within it, the longest first, each with its depth."""
        yield depth, self
        for row in sorted(self.within.values(), key=lambda one: -one.seconds):
            yield from row.walk(depth + 1)


def tracks_of(
    recording: Recording, process_name: str, thread_names: Mapping[int, str], window: Window
) -> Iterator[Track]:
    """What the threads of a process did within a window; what was not over by then ends with it."""
    first, last = window
    threads: dict[int, list[Span]] = {}
    for span in recording.spans:
        if span.end > first and span.begin < last:
            inside = Span(span.name, span.thread, max(span.begin, first), min(span.end, last))
            threads.setdefault(span.thread, []).append(inside)
    for number, (thread, spans) in enumerate(threads.items()):
        yield Track(recording.process, process_name, number, thread_names.get(thread, ""), spans)


def account(track: Track, names: Sequence[str], window: Window) -> Row:
    """Where a thread's time went; the row's own seconds are those in which nothing that is traced was done."""
    whole = Row(track.name)
    whole.add(window[1] - window[0])
    stack: list[tuple[Row, float]] = [(whole, window[1])]
    for span in track.spans:
        while span.begin >= stack[-1][1]:
            stack.pop()
        around = stack[-1][0]
        row = around.within.setdefault(names[span.name], Row(names[span.name]))
        row.add(span.end - span.begin)
        around.own_seconds -= span.end - span.begin
        stack.append((row, span.end))
    return whole


def write_trace(tracks: Sequence[Track], names: Sequence[str], window: Window, file: Path) -> None:
    """A timeline in the format of Chrome's trace events."""
    with file.open("w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        out.write(",\n".join(json.dumps(event, separators=(",", ":")) for event in _events(tracks, names, window)))
        out.write("\n]}\n")


def _events(tracks: Sequence[Track], names: Sequence[str], window: Window) -> Iterator[dict[str, object]]:
    for place, track in enumerate(tracks):
        where = {"pid": track.process, "tid": track.thread}
        yield {"ph": "M", "name": "process_name", **where, "args": {"name": track.process_name}}
        yield {"ph": "M", "name": "process_sort_index", **where, "args": {"sort_index": place}}
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": track.thread_name or "main"}}
        for span in track.spans:
            start, length = 1e6 * (span.begin - window[0]), 1e6 * (span.end - span.begin)
            yield {"ph": "X", "name": names[span.name], **where, "ts": round(start, 3), "dur": round(length, 3)}
