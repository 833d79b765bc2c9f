"""Trouble that an environment makes in a worker: handed to `workers.WithTrouble`."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from workers import Troubled


def nothing(troubled: Troubled) -> None:
    """None."""


def is_killed(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stops(troubled: Troubled) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def lingers(troubled: Troubled) -> None:
    time.sleep(0.002)


def holds_the_interpreter(troubled: Troubled) -> None:
    """As C code does that blocks signals and never returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    ctypes.PyDLL(None).sleep(1000)
