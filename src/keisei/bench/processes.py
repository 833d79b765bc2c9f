"""The worker processes of this process, seen from outside: which there are, what they use, and where they run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from keisei.errors import WorkerError

_WORKER = b"keisei.parallel.entry"
_TICKS = os.sysconf("SC_CLK_TCK")
_STILL_SECONDS = 0.3
_START_SECONDS = 120.0


def worker_processes() -> list[int]:
    """The numbers of all worker processes, the spare among them, oldest first."""
    found: list[int] = []
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += [int(one) for one in children.read_text().split() if _is_worker(int(one))]
    return sorted(found)


def _is_worker(process: int) -> bool:
    with suppress(OSError):
        return _WORKER in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def processor_seconds(process: int) -> float:
    """The processor time that a process has used; 0 where it is gone."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def hold_each(processes: Sequence[int], cores: Sequence[int]) -> None:
    """Hold each process, with all its threads, to one core, in turns."""
    for place, process in enumerate(processes):
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                os.sched_setaffinity(int(thread), [cores[place % len(cores)]])


def busiest(processes: Sequence[int], seconds: float = 0.05) -> int:
    """The process that works most, once one has worked for so long."""
    before = {one: processor_seconds(one) for one in processes}

    def worked(process: int) -> float:
        return processor_seconds(process) - before[process]

    wait_for(lambda: max(map(worked, processes)) >= seconds, "a process that works")
    return max(processes, key=worked)


def wait_until_still(processes: Sequence[int]) -> None:
    """Wait until none of them works any more, as after starting."""
    until = time.monotonic() + _START_SECONDS
    used = -1.0
    while (now := sum(map(processor_seconds, processes))) != used:
        used = now
        time.sleep(_STILL_SECONDS)
        if time.monotonic() > until:
            raise WorkerError(f"expected {len(processes)} idle workers, and they still work")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = _START_SECONDS) -> float:
    """Wait until something is so; gives the moment, by `time.monotonic`."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise WorkerError(f"expected {what} within {seconds:g} s")
        time.sleep(0.001)
    return time.monotonic()
