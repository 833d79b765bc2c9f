"""The manager's line to one worker: its process, its pipe, its heartbeat. It decides nothing."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe

from keisei.parallel.messages import Done, Failed, Play, Ready, Setup, Stale
from keisei.parallel.shared_memory import UInt64

Answer = Done | Stale | Failed | Ready


@dataclass(frozen=True)
class WorkerStatistics:
    """What one worker has done."""

    blocks: int = 0
    steps: int = 0
    games: int = 0
    reward: float = 0.0
    busy_seconds: float = 0.0


class WorkerCommunicator:
    """One worker process. It is killed for certain, and waited for, before anybody else gets its block."""

    def __init__(self, setup: Setup, heartbeats: UInt64, spawner: Spawner) -> None:
        self.setup = setup
        self.started = time.monotonic()
        self.order: Play | None = None
        self.ready = False
        self.statistics = WorkerStatistics()
        self._heartbeat = heartbeats[setup.number : setup.number + 1]
        self._beaten = int(self._heartbeat[0])
        self.alive_at = self.started
        ours, theirs = Pipe()
        self.pipe: Connection = ours
        self.process = spawner.start(theirs, _descriptors(setup))
        theirs.close()
        self.descriptor = os.pidfd_open(self.process.pid)
        with contextlib.suppress(OSError):  # a worker that is dead already is found dead by its descriptor
            self.pipe.send(setup)

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"worker {self.setup.number} (process {self.process.pid})"

    def give(self, order: Play) -> None:
        """Tell the worker what to play."""
        self.order = order
        self.alive_at = time.monotonic()
        with contextlib.suppress(OSError):
            self.pipe.send(order)

    def answer(self) -> Answer | None:
        """What the worker says; None where the line is dead or what came is no answer."""
        try:
            answer = self.pipe.recv()
        except Exception:  # whatever a dying or broken process leaves in a pipe
            return None
        return answer if isinstance(answer, Done | Stale | Failed | Ready) else None

    def silent_for(self, now: float) -> float:
        """Seconds since its last sign of life; 0 while it has nothing to do."""
        beaten = int(self._heartbeat[0])
        if beaten != self._beaten:
            self._beaten, self.alive_at = beaten, now
        return now - self.alive_at if self.order is not None or not self.ready else 0.0

    def count(self, seconds: float, steps: int, games: int, reward: float) -> None:
        """Count a block that it played."""
        done = self.statistics
        self.statistics = replace(
            done,
            blocks=done.blocks + 1,
            steps=done.steps + steps,
            games=done.games + games,
            reward=done.reward + reward,
            busy_seconds=done.busy_seconds + seconds,
        )

    def numbers(self, now: float) -> dict[str, float]:
        """Its statistics, to record."""
        done, start = self.statistics, f"worker/{self.setup.number}"
        return {
            f"{start}/steps": done.steps,
            f"{start}/games": done.games,
            f"{start}/reward": done.reward,
            f"{start}/busy": done.busy_seconds / max(1e-9, now - self.started),
            f"{start}/silent_seconds": self.silent_for(now),
            f"memory/worker_{self.setup.number}": resident_bytes(self.process.pid),
        }

    def end(self) -> str:
        """End the process for certain; gives how it ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        status = self.process.wait()
        with contextlib.suppress(OSError):
            self.pipe.close()
        os.close(self.descriptor)
        return _how_it_ended(status)

    def died(self) -> str:
        """How a process that has ended by itself did so; frees what belonged to it."""
        status = self.process.wait()
        with contextlib.suppress(OSError):
            self.pipe.close()
        os.close(self.descriptor)
        return _how_it_ended(status)


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"exit by {signal.Signals(-status).name}"
    return f"exit with status {status}" if status else "exit with status 0, which nobody asked for"


def resident_bytes(process: int) -> float:
    """The memory that a process holds; 0 where it is gone."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except OSError:
        return 0.0


def _descriptors(setup: Setup) -> tuple[int, ...]:
    return (*setup.slab_descriptors, setup.weights_descriptor, setup.heartbeat_descriptor)


class Spawner:
    """Starts processes from a thread that lives as long as they may: a worker dies with the thread that started it."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="spawner", daemon=True)
        self._thread.start()

    def start(self, pipe: Connection, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
        """A fresh worker process with its end of a pipe, and descriptors that it inherits."""
        started: Future[subprocess.Popen[bytes]] = Future()
        command = [sys.executable, "-m", "keisei.parallel.worker", str(pipe.fileno()), str(os.getpid())]

        def job() -> None:
            try:
                started.set_result(
                    subprocess.Popen(command, pass_fds=(pipe.fileno(), *descriptors), stdin=subprocess.DEVNULL)
                )
            except BaseException as error:  # goes home with the result
                started.set_exception(error)

        self._jobs.put(job)
        return started.result()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        """End the thread, when no worker is left."""
        self._jobs.put(None)
        self._thread.join()
