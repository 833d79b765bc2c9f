"""Spans: what a thread did, from when to when. Each process writes its own file, which outlives whoever is killed.

A span is written when it begins and completed when it ends, in memory that is the file: nothing is sent, nobody waits,
and what a process was in when it ended is seen, too.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_SPAN = struct.Struct("<QQQQ")  # begin and end in nanoseconds, the thread, the number of its name plus one
_END = struct.Struct("<Q")
MOST_SPANS = 1 << 22
"""So many fit into a file, which takes as much of the disk as is written; those beyond are counted only."""


@dataclass(frozen=True)
class Span:
    """What one thread did for a while, in seconds of the clock that all processes share."""

    name: int
    thread: int
    begin: float
    end: float  # infinite: it was not over when the process ended, or the file was read


@dataclass(frozen=True)
class Recording:
    """What one process has written, in the order in which spans began."""

    process: int
    spans: list[Span]
    lost: int  # spans for which there was no room


class Recorder:
    """Writes the spans of this process."""

    def __init__(self, folder: Path, most: int = MOST_SPANS) -> None:
        """The file's name is the number of the process."""
        self.threads: dict[int, str] = {}
        self._most = most
        self._numbers = itertools.count(1)  # the first place is for what was lost
        with (folder / f"{os.getpid()}.spans").open("w+b") as file:
            os.ftruncate(file.fileno(), (most + 1) * _SPAN.size)
            self._memory = mmap.mmap(file.fileno(), 0)

    def traced(self, name: int, function: Callable[P, R]) -> Callable[P, R]:
        """The same function, each of whose calls is a span."""
        clock, begin, end = time.perf_counter_ns, self._begin, self._end

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            number = begin(name, clock())
            try:
                return function(*args, **kwargs)
            finally:
                end(number, clock())

        return call

    def _begin(self, name: int, now: int) -> int:
        number, thread = next(self._numbers), threading.get_ident()
        if thread not in self.threads:
            self.threads[thread] = _name_of_this_thread()
        if number <= self._most:
            _SPAN.pack_into(self._memory, number * _SPAN.size, now, 0, thread, name + 1)
        else:
            _END.pack_into(self._memory, 0, number - self._most)
        return number

    def _end(self, number: int, now: int) -> None:
        if number <= self._most:
            _END.pack_into(self._memory, number * _SPAN.size + 8, now)


def _name_of_this_thread() -> str:
    """Nothing for the main one."""
    thread = threading.current_thread()
    return "" if thread is threading.main_thread() else thread.name


def read(file: Path) -> Recording:
    """What a process has written so far."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as memory:
        lost = _SPAN.unpack_from(memory, 0)[0]
        spans: list[Span] = []
        for at in range(_SPAN.size, len(memory), _SPAN.size):
            begin, end, thread, name = _SPAN.unpack_from(memory, at)
            if not name:
                break
            spans.append(Span(name - 1, thread, begin / 1e9, end / 1e9 if end else math.inf))
    return Recording(int(file.stem), spans, lost)


def read_all(folder: Path) -> list[Recording]:
    """What all processes have written, the oldest process first."""
    return [read(file) for file in sorted(folder.glob("*.spans"), key=lambda file: int(file.stem))]


def seconds_per_span(folder: Path) -> float:
    """What it costs to write a span down."""
    own = folder / "cost"
    own.mkdir()
    count = 10_000
    traced = Recorder(own, count).traced(0, time.perf_counter_ns)
    began = time.perf_counter()
    for _ in range(count):
        traced()
    half = time.perf_counter()
    for _ in range(count):
        time.perf_counter_ns()
    return max(0.0, 2 * half - began - time.perf_counter()) / count
