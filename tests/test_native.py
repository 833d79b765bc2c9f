"""The core by itself, under the address and undefined-behaviour sanitizers: perft and fuzz programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "build" / "native-tests"
PERFT = json.loads((ROOT / "tests" / "data" / "perft.json").read_text())


def run(program: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAMS / program, *arguments], input=text, capture_output=True, text=True, check=False)


def cases(most_leaves: int) -> str:
    return "".join(
        f"{depth} {leaves} {case['sfen']}\n"
        for case in PERFT
        for depth, leaves in case["nodes"].items()
        if leaves <= most_leaves
    )


def test_perft_agrees_under_the_sanitizers() -> None:
    result = run("perft", text=cases(2_000_000))
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 failed" in result.stdout


def test_a_wrong_count_fails() -> None:
    assert run("perft", text="1 31 lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1\n").returncode == 1


@pytest.mark.parametrize("count", [200_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_no_text_breaks_the_core(count: int) -> None:
    result = run("fuzz", str(count), "7")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{count} texts, no fault" in result.stdout
