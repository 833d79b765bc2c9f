"""Environments across the border: ours handed out as Gymnasium and PettingZoo have them, and theirs brought in.

`vector` hands out many games as one Gymnasium vector environment, `aec` one game as PettingZoo has it, and `parallel`
one world in which all decide at once. What is brought in, by `gymnasium_games` and `pettingzoo_lanes`, has `foreign` in
common. No game is known by name here: what depends on it, as how a view looks to the other side, is handed in.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.adapters.aec import PettingZooAECEnvironment
    from keisei.adapters.gymnasium_games import GymnasiumEnvironment, gymnasium_builder
    from keisei.adapters.parallel import PettingZooParallelEnvironment
    from keisei.adapters.pettingzoo_lanes import pettingzoo_games
    from keisei.adapters.pettingzoo_worlds import pettingzoo_builder
    from keisei.adapters.vector import GymnasiumVectorEnvironment

__all__ = [
    "GymnasiumEnvironment",
    "GymnasiumVectorEnvironment",
    "PettingZooAECEnvironment",
    "PettingZooParallelEnvironment",
    "gymnasium_builder",
    "pettingzoo_builder",
    "pettingzoo_games",
]

_HOMES = {
    "GymnasiumEnvironment": "gymnasium_games",
    "GymnasiumVectorEnvironment": "vector",
    "PettingZooAECEnvironment": "aec",
    "PettingZooParallelEnvironment": "parallel",
    "gymnasium_builder": "gymnasium_games",
    "pettingzoo_builder": "pettingzoo_worlds",
    "pettingzoo_games": "pettingzoo_lanes",
}


def __getattr__(name: str) -> object:
    """Load what is asked for, and with it the library that it needs; that one alone."""
    if name not in _HOMES:
        raise AttributeError(f"module 'keisei.adapters' has no attribute '{name}'")
    return getattr(importlib.import_module(f"keisei.adapters.{_HOMES[name]}"), name)


def missing(error: ImportError) -> ConfigError:
    """What to say where a library is not installed."""
    return ConfigError(f"{error.name} is not installed, but needed here: pip install 'keisei[adapters]'")
