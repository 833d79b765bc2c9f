"""Limits of time in tests, on a machine that others may keep busy meanwhile."""

from __future__ import annotations

import os


def crowded(seconds: float) -> float:
    """So many seconds on a machine of one's own; longer where more processes want to run than there are processors."""
    return seconds * max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
