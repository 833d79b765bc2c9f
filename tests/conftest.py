"""What holds for all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Networks of tests are so small that several threads only wait for each other: four times as long on two cores."""
    if "torch" not in sys.modules:
        yield
        return
    from keisei.threads import torch_threads

    with torch_threads(1):
        yield
