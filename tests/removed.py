"""Protections of whole runs, each with what takes its place where a test takes it away."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

Removal = Callable[[pytest.MonkeyPatch], None]


def _listening(patch: pytest.MonkeyPatch) -> None:
    """Signals do what they do to any program."""
    from keisei import stopping

    @contextmanager
    def listening(stop: object, tell: object) -> Iterator[None]:
        yield

    patch.setattr(stopping, "listening", listening)


def _deafness(patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C interrupts workers, too."""
    from keisei.parallel import entry

    class Signals:
        def __getattr__(self, name: str) -> object:
            return getattr(signal, name)

        def signal(self, number: int, handler: object) -> None:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    patch.setattr(entry, "signal", Signals())


def _lock(patch: pytest.MonkeyPatch) -> None:
    """Any number of runs use a folder."""
    from keisei import run_folder

    def lock(run: Path, file: int) -> None:
        os.pwrite(file, b"anybody\n", 0)

    patch.setattr(run_folder, "_lock", lock)


def _patience_with_sinks(patch: pytest.MonkeyPatch) -> None:
    """A sink that cannot be written is an error."""
    from keisei.metrics import Metrics

    def raise_it(metrics: Metrics, sink: object, error: OSError) -> None:
        raise error

    patch.setattr(Metrics, "_note_failure", raise_it)


REMOVALS: dict[str, Removal] = {
    "without listening": _listening,
    "without deafness": _deafness,
    "without lock": _lock,
    "without patience": _patience_with_sinks,
}
