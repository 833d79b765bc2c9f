"""Where the time of a run goes: it trains as `keisei train` does, and what its processes do is written down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from keisei import build
from keisei.bench import spans
from keisei.bench.spans import Recorder, Recording
from keisei.bench.stopwatch import Stopwatch
from keisei.bench.timeline import Row, Track, Window, account, tracks_of, write_trace
from keisei.bench.tracing import NAMES, WAITS, Traced, traced_here
from keisei.build.automatic import fitting
from keisei.config import Config
from keisei.metrics import open_metrics
from keisei.stopping import StopRequest

Mode = Literal["serial", "parallel"]
LEARNER = "learner"
ENDLESS = {"run": {"total_steps": 10**12}, "evaluation": {"interval": 0, "final_games": 0}}
"""A profile ends by the clock, and leaves matches out."""


@dataclass(frozen=True)
class Profile:
    """Where the time went between two iterations of a run."""

    workers: int
    seconds: float
    iterations: int
    steps: int
    rows: Sequence[Row]  # one for each thread of each process
    tracing_seconds: float  # what writing spans down has cost, in all processes
    lost: int  # spans for which there was no room

    @property
    def busy_seconds(self) -> float:
        """The time of all processes in which they did not wait."""
        return sum(row.own_seconds for top in self.rows for row in _working(top))


def _working(row: Row) -> Sequence[Row]:
    return [one for depth, one in row.walk() if depth and not one.name.startswith(WAITS)]


def as_profiled(config: Config, mode: Mode) -> Config:
    """The same run without end and matches; in `parallel` mode with a certain number of workers."""
    number = fitting(config) if config.parallel.num_workers == "auto" else config.parallel.num_workers
    section = config.parallel.model_copy(update={"enabled": mode == "parallel", "num_workers": number})
    endless = {name: getattr(config, name).model_copy(update=keys) for name, keys in ENDLESS.items()}
    return config.model_copy(update={"parallel": section, **endless})


def _workers(config: Config) -> int:
    section = config.parallel
    if not section.enabled or section.num_workers == "auto":
        return 0
    return min(section.num_workers, config.environment.copies // section.block_size)


def _tracks(recordings: Sequence[Recording], recorder: Recorder, workers: int, window: Window) -> Iterator[Track]:
    """The learner's threads, the workers in the order of their start, then the spare and what came after it."""
    others = (one for one in recordings if one.process != os.getpid())
    names = [*(f"worker {number}" for number in range(workers)), "spare"]
    for recording in recordings:
        if recording.process == os.getpid():
            yield from tracks_of(recording, LEARNER, recorder.threads, window)
    for place, recording in enumerate(others):
        yield from tracks_of(recording, names[min(place, workers)], {}, window)


def run(config: Config, mode: Mode, seconds: float, trace: Path | None) -> Profile:
    """Train for about so long, once everything has started; with `trace`, a timeline is written there."""
    profiled = as_profiled(config, mode)
    workers = _workers(profiled)
    stop = StopRequest()
    watch = Stopwatch(workers, seconds, stop)
    with TemporaryDirectory() as place:
        folder, recordings = Path(place) / "run", Path(place) / "spans"
        folder.mkdir()
        recordings.mkdir()
        with traced_here(recordings) as recorder, open_metrics(folder, watch) as metrics:
            plain = build.game(profiled)
            of = replace(plain, build_environment=Traced(plain.build_environment, recorder, recordings))
            training = build.training(profiled, folder, metrics, stop, of)
            training.prepare()
            training.run()
        (began, first), (ended, last) = watch.noted[0], watch.noted[-1]
        found = spans.read_all(recordings)
        cost = spans.seconds_per_span(recordings)
    tracks = list(_tracks(found, recorder, workers, (began, ended)))
    if trace is not None:
        write_trace(tracks, NAMES, (began, ended), trace)
    return Profile(
        workers=workers,
        seconds=ended - began,
        iterations=last.iteration - first.iteration,
        steps=last.steps - first.steps,
        rows=[account(track, NAMES, (began, ended)) for track in tracks],
        tracing_seconds=cost * sum(len(track.spans) for track in tracks),
        lost=sum(one.lost for one in found),
    )
