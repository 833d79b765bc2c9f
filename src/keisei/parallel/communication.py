"""The manager's line to one worker: its process, its messages, its heartbeat. It decides nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import subprocess
import time
from dataclasses import replace

from keisei.parallel.line import Line
from keisei.parallel.messages import Order, Setup
from keisei.parallel.shared_memory import UInt64
from keisei.parallel.spawner import Spawner
from keisei.parallel.starvation import Starvation, state_of

_MESSAGE_BYTES = 1 << 24
"""The longest message beside slabs; tracebacks can be long."""
_EXIT_SECONDS = 0.5
"""How long a process may take to end when its line has ended."""
_FREE_DESCRIPTORS = 20
"""So many stay free for logs, checkpoints and the start of a process."""
_SPARE = -1
_LATE_SECONDS = 0.1
"""From then on it is asked what keeps a silent worker: asking the system takes longer than looking at heartbeats."""


class WorkerCommunicator:
    """One worker process. It is killed for certain, and waited for, before anybody else gets its block."""

    def __init__(self, setup: Setup, heartbeats: UInt64, spawner: Spawner) -> None:
        """Start the process; raises OSError, and leaves nothing, where the system has none to give."""
        self.setup = setup
        self.place = _SPARE  # the number that messages and statistics call it by
        self.order: Order | None = None
        self._orders = 0
        self.ready = False
        self.alive_at = time.monotonic()
        self._is_late = False  # whether its silence is worth asking the system about
        self._heartbeat = heartbeats[setup.number]
        self._beaten = int(self._heartbeat[0])
        _require_descriptors()
        with contextlib.ExitStack() as undo:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                self.process = spawner.start(theirs.fileno(), _descriptors(setup))
            undo.callback(_kill, self.process)
            self._starvation = Starvation(self.process.pid)
            self.descriptor = os.pidfd_open(self.process.pid)
            undo.pop_all()
        self.line = Line(ours, _MESSAGE_BYTES + setup.blocks * setup.slab_bytes)
        self.line.send(setup)

    @property
    def name(self) -> str:
        """How messages call it."""
        return "the spare worker" if self.place == _SPARE else f"worker {self.place}"

    @property
    def process_name(self) -> str:
        """How messages call its process."""
        return f"process {self.process.pid}"

    @property
    def where(self) -> str:
        """How messages say who was at what: `worker 3, block 17, ply 41`."""
        return f"{self.name}, block {self.block}, ply {int(self._heartbeat[1])}" if self.order else self.name

    @property
    def block(self) -> int:
        """The block of its order at which it is; -1 where it has none."""
        blocks = self.order.blocks if self.order else (-1,)
        return blocks[min(int(self._heartbeat[2]), len(blocks) - 1)]

    def give(self, order: Order) -> None:
        """Tell the worker what to play."""
        self._orders += 1
        self.order = replace(order, number=self._orders)
        self._heartbeat[1:3] = 0  # until the worker writes
        self.is_alive()
        self.line.send(self.order)

    def is_alive(self) -> None:
        """From now on its silence is counted."""
        self.alive_at = time.monotonic()
        self._is_late = False

    def silent_for(self, now: float) -> float:
        """Seconds since its last sign of life, without those in which no processor was free for it; 0 while idle."""
        beaten = int(self._heartbeat[0])
        if beaten != self._beaten:
            self._beaten = beaten
            self.is_alive()
        if self.order is None and self.ready:
            return 0.0
        silent = now - self.alive_at
        if not self._is_late:
            if silent < _LATE_SECONDS:
                return max(0.0, silent)
            self._is_late = True
            self._starvation.begin(now)
        return max(0.0, silent - self._starvation.seconds(now))

    def resident_bytes(self) -> float:
        """The memory that it holds."""
        return resident_bytes(self.process.pid)

    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process."""
        return state_of(self.process.pid) in {"t", "T"}

    def end(self) -> int:
        """End the process for certain; gives its exit status, which is that of an earlier end if there was one."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        status = self.process.wait()
        self.line.close()
        os.close(self.descriptor)
        return status

    def ended(self) -> int:
        """The exit status of a process whose line has ended, and which therefore ends, or is made to."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.poll(1e3 * _EXIT_SECONDS)
        return self.end()


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status < 0:
        return f"exit by {signal.Signals(-status).name}"
    return f"exit with status {status}" if status else "exit with status 0, which nobody asked for"


def is_of_its_own(status: int) -> bool:
    """Whether an exit status is the doing of the process itself, not of somebody who sent it a signal."""
    return -status not in {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}


def resident_bytes(process: int) -> float:
    """The memory that a process holds; 0 where it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/statm", encoding="utf-8") as file:
        return float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    return 0.0


def _require_descriptors() -> None:
    """Raise OSError where a worker would take the last descriptors, which logs and checkpoints need, too."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if len(os.listdir("/proc/self/fd")) + _FREE_DESCRIPTORS > most:
        raise OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)} (at most {most}; see `ulimit -n`)")


def _descriptors(setup: Setup) -> tuple[int, ...]:
    return (
        *setup.slab_descriptors,
        setup.weights_descriptor,
        setup.past_descriptor,
        setup.heartbeat_descriptor,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
