"""A part of a test in a process of its own: forked, so that it starts at once, and may be limited, harmed or killed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from crowding import crowded

_PR_SET_DUMPABLE = 4
SECONDS = 60.0

Tell = Callable[[object], None]
"""Says something, as JSON, to the process that has forked."""


class Child:
    """A process that runs a part of a test."""

    def __init__(self, pid: int, said: IO[str]) -> None:
        self.pid = pid
        self._said = said
        self._status: int | None = None

    def hear(self) -> object:
        """The next thing that it says."""
        line = self._said.readline()
        assert line, "it has ended without a word"
        return json.loads(line)

    def numbers(self) -> list[int]:
        """The next thing that it says, which is a list of numbers."""
        found = self.hear()
        assert isinstance(found, list)
        return found

    def kill(self) -> None:
        """End it for certain; its end is waited for."""
        if self._status is None:  # else the number may be somebody else's
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Its exit status, negative for a signal."""
        end = time.monotonic() + crowded(SECONDS)
        while self._status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            else:
                time.sleep(0.001)
        return self._status


@contextmanager
def forked(work: Callable[[Tell], None], folder: Path) -> Iterator[Child]:
    """A child that does some work in a session of its own; what is temporary lies in a folder. Killed at the end."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run(work, writer, folder)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as said:
        child = Child(pid, said)
        try:
            yield child
        finally:
            child.kill()


def _run(work: Callable[[Tell], None], writer: int, folder: Path) -> None:
    status = 1
    try:
        os.setsid()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)

        def tell(what: object) -> None:
            os.write(writer, json.dumps(what).encode() + b"\n")

        work(tell)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def become_nobody() -> None:
    """Give up root's rights, where there are any, for a user of one's own: root is not held to what a system allows."""
    if os.geteuid() == 0:
        number = 1_000_000 + os.getpid()
        os.setgroups([])
        os.setgid(number)
        os.setuid(number)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self stays root's


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that anybody may use; those of tests are their owner's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def is_there(process: int) -> bool:
    """Whether a process lives."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone_within(processes: list[int], seconds: float) -> bool:
    """Whether all of these processes are gone within so long."""
    until = time.monotonic() + crowded(seconds)
    while any(is_there(process) for process in processes) and time.monotonic() < until:
        time.sleep(0.005)
    return not any(is_there(process) for process in processes)


def named_memory(processes: list[int]) -> set[str]:
    """What these processes have open or mapped that has a name in shared memory."""
    found = set()
    for process in processes:
        names = [line.split(maxsplit=5)[5:] for line in _text(f"/proc/{process}/maps").splitlines()]
        found |= {name[0].strip() for name in names if name}
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                with suppress(OSError):
                    found.add(os.readlink(f"/proc/{process}/fd/{descriptor}"))
    return {name for name in found if name.startswith("/dev/shm")}


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8")
    return ""
