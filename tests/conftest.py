"""What holds for all tests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from encoder import ffmpeg
from quick_workers import quick_workers, short_pauses

__all__ = ["ffmpeg", "one_torch_thread", "quick_workers", "short_pauses"]


def pytest_configure() -> None:
    """Signals mean what they mean at a terminal, also where a shell has started the tests with some of them ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Networks of tests are so small that several threads only wait for each other: four times as long on two cores."""
    if "torch" not in sys.modules:
        yield
        return
    from keisei.threads import torch_threads

    with torch_threads(1):
        yield
