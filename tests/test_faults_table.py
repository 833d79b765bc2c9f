"""The table of faults in the docs: every promise has tests, and tests in which what protects is taken away."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLE = (TESTS.parent / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [*range(1, 12), *range(15, 23), *range(25, 39), 41, 42, 45, 46, 57]
ALWAYS = {1, 2, 5, 9, 10, 11, 15, 19, 21, 22, 25, 29, 30, 34, 35}
"""Those that `make test` shows."""


def rows() -> dict[int, tuple[bool, list[str], list[str]]]:
    """Each row: whether it is in bold, its tests, and those without protection."""
    found: dict[int, tuple[bool, list[str], list[str]]] = {}
    for line in TABLE.splitlines():
        if match := re.match(r"\| (\*\*)?(\d+)", line):
            shown, without = (re.findall(r"`(test_\w+)`", cell) for cell in line.split("|")[4:6])
            found[int(match[2])] = bool(match[1]), shown, without
    return found


@cache
def on_demand() -> dict[str, bool]:
    """All tests, and whether all of a test's file or of the test itself is left out of `make test`."""
    found: dict[str, bool] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        marks = [
            ast.unparse(one.value) for one in tree.body if isinstance(one, ast.Assign) and "pytestmark" in names(one)
        ]
        for one in tree.body:
            if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                own = [ast.unparse(decorator) for decorator in one.decorator_list]
                plain = [mark for mark in [*marks, *own] if not mark.startswith("pytest.mark.parametrize")]
                left_out = any(re.search(r"\bmark\.(faults|slow|long)\b", mark) for mark in plain)
                found[one.name] = found.get(one.name, True) and left_out
    return found


def names(assignment: ast.Assign) -> list[str]:
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]


def test_table_has_all_rows() -> None:
    assert sorted(rows()) == ROWS
    assert {number for number, (bold, _, _) in rows().items() if bold} == ALWAYS


@pytest.mark.parametrize("row", ROWS)
def test_row_is_shown_with_and_without_protection(row: int) -> None:
    bold, shown, without = rows()[row]
    assert shown
    assert without
    for name in (*shown, *without):
        assert name in on_demand(), f"there is no test {name}"
    if bold:
        assert not all(on_demand()[name] for name in shown), "none of them is in `make test`"
        assert not all(on_demand()[name] for name in without), "none of them is in `make test`"
