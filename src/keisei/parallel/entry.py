"""Where a worker process begins. It can be killed, and ends with its parent, before anything heavy is imported."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

from keisei.heap import keep_freed_memory

_PR_SET_PDEATHSIG = 1

COMMAND = "import sys; sys.path[:] = sys.argv[3:]; from keisei.parallel.entry import main; main()"
"""For a fresh interpreter, with a descriptor, the parent's number, and where the parent finds modules."""


def main() -> None:
    """Serve the manager at the other end of the line whose descriptor is the first argument."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    _die_with_parent(parent)
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the learner decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # whoever started this process blocked it until here

    from keisei.parallel.line import WorkerLine
    from keisei.parallel.worker import serve

    serve(WorkerLine(socket.socket(fileno=descriptor)))


def _die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the thread that started this process ends; it may have ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
