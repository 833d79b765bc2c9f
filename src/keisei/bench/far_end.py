"""A process at the other end of a benchmark: fresh, held to one core, and spoken to over the product's own line."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec

from keisei.parallel.line import WorkerLine
from keisei.parallel.shared_memory import SharedMemory

P = ParamSpec("P")
Program = Callable[Concatenate[WorkerLine, P], None]

_END_SECONDS = 5.0
FRESH = multiprocessing.get_context("spawn")


@contextmanager
def far_end(core: int, program: Program[P], *arguments: P.args, **named: P.kwargs) -> Iterator[WorkerLine]:
    """Run `program(line, …)` in a process on that core until its line ends; gives our end of the line."""
    ours, theirs = socket.socketpair()
    process = FRESH.Process(target=_begin, args=(theirs, core, program, arguments, named), daemon=True)
    process.start()
    theirs.close()
    try:
        yield WorkerLine(ours)
    finally:
        ours.close()
        process.join(_END_SECONDS)
        process.kill()  # for certain
        process.join()


def _begin(
    end: socket.socket, core: int, program: Program[...], arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    os.sched_setaffinity(0, [core])
    with suppress(EOFError, BrokenPipeError):
        program(WorkerLine(end), *arguments, **named)


def handed_out(memory: SharedMemory) -> tuple[int, int, int]:
    """What another process needs to reach memory of this one."""
    return os.getpid(), memory.descriptor, memory.size


def reached(process: int, descriptor: int, size: int) -> SharedMemory:
    """Memory that another process has handed out."""
    return SharedMemory(size, os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC))


def other_core(core: int) -> int:
    """Another core than that, where there is one."""
    return min(os.sched_getaffinity(0) - {core}, default=core)
