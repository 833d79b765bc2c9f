"""Starts worker processes from a thread that lives as long as they may: a worker dies with the thread that made it."""

from __future__ import annotations

import errno
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from keisei.heap import in_large_pages
from keisei.parallel.entry import COMMAND

_Job = tuple[Sequence[int], "Future[subprocess.Popen[bytes]]"]


class Spawner:
    """A thread that starts processes."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, line: int, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
        """A fresh worker process with the descriptor of its end of a line, and others; raises OSError."""
        if self._thread is None:
            self._thread = _started(self._work)
        started: Future[subprocess.Popen[bytes]] = Future()
        self._jobs.put(((line, *descriptors), started))
        return started.result()

    def _work(self) -> None:
        # What is started inherits this, so that Ctrl-C ends no worker before it can say that it does not care.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (job := self._jobs.get()) is not None:
            inherited, started = job
            try:
                started.set_result(_start(inherited))
            except BaseException as error:  # goes home with the result
                started.set_exception(error)

    def close(self) -> None:
        """End the thread, when no worker is left; may be called twice."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()


def _started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="spawner", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system has no thread to give
        raise OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)} ({error})") from error
    return thread


def _start(inherited: Sequence[int]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", COMMAND, str(inherited[0]), str(os.getpid()), *sys.path]
    return subprocess.Popen(command, pass_fds=inherited, stdin=subprocess.DEVNULL, env=in_large_pages(os.environ))
