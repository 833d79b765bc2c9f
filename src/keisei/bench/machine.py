"""What a number was measured on, and holding a thread to chosen cores."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import keisei

BUSY_LOAD = 0.5
"""From this load average on, somebody else is using the machine."""


@dataclass(frozen=True)
class Machine:
    """The machine and the versions behind a report."""

    cpu: str
    cores: int  # that this process may use
    pinned: tuple[int, ...]  # the cores that were measured on
    load: float  # average over the minute before the start
    kernel: str
    python: str
    numpy: str
    keisei: str
    compiler: str  # of the native code


def describe(pinned: Collection[int]) -> Machine:
    """The machine as it stands now."""
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        pinned=tuple(sorted(pinned)),
        load=round(os.getloadavg()[0], 2),
        kernel=platform.release(),
        python=platform.python_version(),
        numpy=metadata.version("numpy"),
        keisei=keisei.__version__,
        compiler=_compiler(),
    )


@contextmanager
def held_to(cores: Collection[int]) -> Iterator[None]:
    """Run this thread, and threads and programs it starts meanwhile, on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _compiler() -> str:
    """What the build wrote down about itself; it lies where the installer put it."""
    try:
        files = metadata.distribution("keisei").files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "native_build.json":
            built: dict[str, str] = json.loads(Path(str(file.locate())).read_text())
            return built["compiler"] + (" -march=native" if built["cpu_flags"] else "")
    return "unknown"
