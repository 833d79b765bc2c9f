"""Memory that a process gives back stays with it, and lies in large pages where a worker's end waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from keisei.heap import in_large_pages
from workers import collected, managed

LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

CODE = """
import contextlib, resource, sys
from keisei import cli, heap
how, sys.argv[1:] = sys.argv[1], ["--version"]
with contextlib.suppress(SystemExit):
    {"kept": heap.keep_freed_memory, "kept by the command": cli.main, "left alone": lambda: None}[how]()
import numpy as np
def step():
    return sum(float(one[0]) for one in [np.ones(1 << 20) for _ in range(6)])
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """How often the system had to give pages in 20 steps."""
    ran = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True, check=True)
    return int(ran.stdout.split()[-1])


def test_memory_that_is_used_again_is_not_asked_for_again() -> None:
    assert faults("kept") < 20
    assert faults("kept by the command") < 20
    assert faults("left alone") > 20 * 100


def large_page_bytes(process: int) -> int:
    """How much of a process's own memory lies in large pages."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))


@pytest.mark.skipif(
    not LARGE_PAGES.exists() or "[never]" in LARGE_PAGES.read_text(), reason="this system has no large pages to give"
)
def test_the_heap_of_a_worker_lies_in_large_pages() -> None:
    with managed(workers=1) as manager:
        collected(manager, "tic-tac-toe", 1)
        (worker,) = manager.processes()
        assert large_page_bytes(worker) > 16 << 20


def test_what_a_user_asks_of_the_c_library_stays() -> None:
    asked = {"PATH": "/bin", "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=0"}
    assert in_large_pages(asked) == {"PATH": "/bin", "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}
    assert in_large_pages({}) == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
