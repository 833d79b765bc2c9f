"""How the C library deals with memory: a network asks for the same sizes at every step, and a process ends with all."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # the numbers of `mallopt`
_KEPT_BYTES = 1 << 29
_STEP_BYTES = 1 << 26
_LARGEST_ON_THE_HEAP = 1 << 25  # the C library takes no larger number here


def keep_freed_memory() -> None:
    """Let this process keep up to half a GiB that it gives back, instead of asking the system for it at every step.

    A page that comes from the system is empty, and to empty it takes longer than to fill it: acting spends a third of
    its time so. Where the C library is another one, nothing happens.
    """
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_ON_THE_HEAP)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_TOP_PAD, _STEP_BYTES)


_TUNABLES, _LARGE_PAGES = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"


def in_large_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a fresh process whose heap is to lie in large pages, where the system has them.

    Only when its memory is given back is a killed process seen to have ended: page by page that takes twice as long.
    """
    others = [one for one in environment.get(_TUNABLES, "").split(":") if one and not one.startswith(_LARGE_PAGES[:-1])]
    return {**environment, _TUNABLES: ":".join([*others, _LARGE_PAGES])}
