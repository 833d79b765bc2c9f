"""The package of adapters loads what is asked for and nothing beside it, and says what is not installed."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import keisei.adapters
from keisei.errors import ConfigError


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import keisei.adapters", ("gymnasium", "pettingzoo")),
        ("from keisei.adapters import GymnasiumEnvironment", ("pettingzoo", "torch")),
        ("from keisei.adapters import GymnasiumVectorEnvironment", ("pettingzoo", "torch")),
        ("from keisei.adapters import PettingZooAECEnvironment", ("torch",)),
        ("from keisei.adapters import pettingzoo_builder, pettingzoo_games", ("torch",)),
    ],
)
def test_only_the_library_that_is_needed_is_loaded(code: str, absent: tuple[str, ...]) -> None:
    check = f"import sys; {code}; sys.exit(any(name in sys.modules for name in {absent!r}))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_every_name_of_the_package_is_there() -> None:
    for name in keisei.adapters.__all__:
        assert getattr(keisei.adapters, name).__name__ == name
    with pytest.raises(AttributeError, match=r"module 'keisei.adapters' has no attribute 'Nothing'"):
        keisei.adapters.Nothing  # noqa: B018


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("vector", "gymnasium"),
        ("gymnasium_games", "gymnasium"),
        ("pettingzoo_lanes", "gymnasium"),
        ("aec", "pettingzoo"),
        ("parallel", "pettingzoo"),
        ("pettingzoo_worlds", "pettingzoo"),
    ],
)
def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, module: str, library: str) -> None:
    for loaded in [name for name in sys.modules if name.startswith("keisei.adapters.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError, match=rf"{library} is not installed, .*: pip install 'keisei\[adapters\]'"):
        importlib.import_module(f"keisei.adapters.{module}")
