"""The stub of the native module, compared with the module word for word.

stubtest cannot look into nanobind's functions, so here are their names, parameters and types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from keisei.shogi import _native

STUB = Path(__file__).parent.parent / "src" / "keisei" / "shogi" / "_native.pyi"


def signature(definition: ast.FunctionDef) -> str:
    """Parameters and result as text; where a type comes from is left out."""
    result = ast.unparse(definition.returns) if definition.returns else "nothing said"
    return re.sub(r"(\w+\.)+", "", f"({ast.unparse(definition.args)}) -> {result}")


def stubbed(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Everything that the stub declares: the full name, and the signature if it is a function."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield statement.name, "class"
            yield from stubbed(statement.body, f"{statement.name}.")
        elif isinstance(statement, ast.FunctionDef):
            is_value = any(ast.unparse(decorator) == "property" for decorator in statement.decorator_list)
            yield prefix + statement.name, "value" if is_value else signature(statement)
        elif isinstance(statement, ast.AnnAssign):
            yield prefix + ast.unparse(statement.target), "value"


def actual(members: dict[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The same of the module itself, from the signatures that nanobind keeps."""
    for name, member in members.items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, type):
            yield name, "class"
            yield from actual(dict(vars(member)), f"{name}.")
        elif signatures := getattr(member, "__nb_signature__", None):
            text = re.sub(r"ndarray\[[^]]*\]", "_Array", signatures[0][0])
            definition = ast.parse(f"{text}: ...").body[0]
            assert isinstance(definition, ast.FunctionDef)
            yield prefix + name, signature(definition)
        else:
            yield prefix + name, "value"


def test_stub_says_what_the_module_has() -> None:
    assert dict(actual(vars(_native))) == dict(stubbed(ast.parse(STUB.read_text(encoding="utf-8")).body))


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        ("def pop(self) -> str", "def pop(self) -> int"),
        ("def action_to_usi(action: int", "def action_to_usi(number: int"),
        ("    def copy(self) -> Game: ...\n", ""),
        ("PLANES: int\n", ""),
    ],
)
def test_wrong_stub_is_found(declared: str, wrong: str) -> None:
    text = STUB.read_text(encoding="utf-8")
    assert declared in text
    assert dict(actual(vars(_native))) != dict(stubbed(ast.parse(text.replace(declared, wrong)).body))
