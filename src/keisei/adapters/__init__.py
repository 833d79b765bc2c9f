"""Environments across the border: ours handed out as Gymnasium and PettingZoo have them, Gymnasium's brought in.

`vector` hands out many games as one Gymnasium vector environment, `aec` one game as PettingZoo has it, `gymnasium_games`
brings in. No game is known by name here: what depends on it, as how a view looks to the other side, is handed in.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.adapters.aec import PettingZooAECEnvironment
    from keisei.adapters.gymnasium_games import GymnasiumEnvironment, gymnasium_builder
    from keisei.adapters.vector import GymnasiumVectorEnvironment

__all__ = ["GymnasiumEnvironment", "GymnasiumVectorEnvironment", "PettingZooAECEnvironment", "gymnasium_builder"]

_HOMES = {
    "GymnasiumEnvironment": "gymnasium_games",
    "GymnasiumVectorEnvironment": "vector",
    "PettingZooAECEnvironment": "aec",
    "gymnasium_builder": "gymnasium_games",
}


def __getattr__(name: str) -> object:
    """Load what is asked for, and with it the library that it needs; that one alone."""
    if name not in _HOMES:
        raise AttributeError(f"module 'keisei.adapters' has no attribute '{name}'")
    return getattr(importlib.import_module(f"keisei.adapters.{_HOMES[name]}"), name)


def missing(error: ImportError) -> ConfigError:
    """What to say where a library is not installed."""
    return ConfigError(f"{error.name} is not installed, but needed here: pip install 'keisei[adapters]'")
