"""Worker processes that are forked from a process that has imported torch: they start in milliseconds, not seconds.

Keisei starts them fresh, and other tests do so, too. From their first line on they are the same: real processes that
get real signals. What a test puts in the place of something in its own process is in its place in theirs as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import cast

import pytest

from keisei.parallel import entry, spawner


class Forked:
    """A child process, with what a manager asks of one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Its exit status."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self) -> None:
        """End it."""
        os.kill(self.pid, 9)


def fork(inherited: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start a worker process."""
    manager = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which hold nothing that a worker needs
        child = os.fork()
    if child == 0:
        _become_worker(manager, inherited)
    return cast("subprocess.Popen[bytes]", Forked(child))


def _become_worker(manager: int, inherited: Sequence[int]) -> None:
    status = 1
    try:
        low = 3
        for kept in sorted(inherited):
            os.closerange(low, kept)
            low = kept + 1
        os.closerange(low, 1 << 20 if low < 1 << 20 else low)
        sys.argv = ["worker", str(inherited[0]), str(manager)]
        _keep_what_is_counted()
        entry.main()
        status = 0
    except SystemExit:
        raise AssertionError("a worker has let an exit through") from None
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _keep_what_is_counted() -> None:
    """Where covered lines are counted, save them whenever this process waits: it ends by being killed."""
    if "coverage" not in sys.modules:
        return
    from coverage import Coverage

    from keisei.parallel.line import WorkerLine

    counting, receive = Coverage.current(), WorkerLine.receive
    if counting is None:
        return

    def save_and_receive(line: WorkerLine) -> object:
        counting.save()
        return receive(line)

    WorkerLine.receive = save_and_receive  # type: ignore[method-assign, assignment]


def start_quickly(patch: pytest.MonkeyPatch) -> None:
    """From now on workers of this process are forked."""
    patch.setattr(spawner, "_start", fork)


@pytest.fixture
def quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a test are forked."""
    start_quickly(monkeypatch)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost workers of a test are replaced soon, however many are lost."""
    from keisei.parallel import crew

    monkeypatch.setattr(crew, "_LONGEST_PAUSE", 0.05)
