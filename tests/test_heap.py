"""Memory that a process gives back stays with it, so that a step does not wait for the system to empty pages."""

from __future__ import annotations

import subprocess
import sys

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
