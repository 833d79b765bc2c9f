"""The core by itself, under the address and undefined-behaviour sanitizers: perft, the rules, the fuzzer and lanes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "build" / "native-tests"
PERFT = json.loads((ROOT / "tests" / "data" / "perft.json").read_text())
RULES: list[dict[str, str | int | bool]] = json.loads((ROOT / "tests" / "data" / "shogi-rules.json").read_text())
OUTCOMES = {"white_wins": "white perpetual_check", "black_wins": "black perpetual_check", "draw": "draw sennichite"}


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


def questions(case: dict[str, str | int | bool]) -> Iterator[tuple[str, str, str]]:
    """What a rule case asks: question, argument and answer."""
    mover = "white" if " w " in str(case["sfen"]) else "black"
    verdicts = {"WIN": f"{mover} declaration", "DRAW": "draw declaration", "LOSE": "none"}
    if "n_legal" in case:
        yield "count", "", str(case["n_legal"])
    if "move" in case:
        yield "legal", str(case["move"]), "yes" if case["expect_legal"] else "no"
    if "points_black" in case:
        yield "points", "", f"{case['points_black']} {case['points_white']}"
    for law in ("27", "24"):
        if verdict := case.get(f"law{law}_side_to_move"):
            yield f"{'handicap' if 'note' in case else 'outcome'} {law}", "", verdicts[str(verdict)]
    if "moves" in case:
        yield "outcome 27", str(case["moves"]), OUTCOMES.get(str(case["expect"]), "none")


def test_every_rule_case_agrees_under_the_sanitizers() -> None:
    asked = [list(questions(case)) for case in RULES]
    assert all(asked)
    lines = [
        f"{question}\t{case['sfen']}\t{argument}\t{answer}\n"
        for case, some in zip(RULES, asked, strict=True)
        for question, argument, answer in some
    ]
    result = run("rules", text="".join(lines))
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(lines)} passed, 0 failed" in result.stdout


def test_a_wrong_answer_fails() -> None:
    assert run("rules", text="legal\tstartpos\t7g7f\tno\n").returncode == 1


@pytest.mark.parametrize("count", [200_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_no_text_breaks_the_core(count: int) -> None:
    result = run("fuzz", str(count), "7")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{count} texts, no fault" in result.stdout


def test_damaged_states_of_lanes_are_refused() -> None:
    result = run("lanes", "1000", "7")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1000 steps, 1000 damaged states refused" in result.stdout
