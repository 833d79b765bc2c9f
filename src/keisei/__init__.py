"""Keisei trains game-playing agents by playing many games at once.

`make` builds an environment by name. Importing this package loads neither torch nor the native code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keisei.environment import Environment

__all__ = ["__version__", "make"]
__version__ = "0.1.0"


def make(name: str, **options: object) -> Environment:
    """Build the environment called `name`; `options` are the keys of its configuration section."""
    from keisei import build

    return build.environment(name, **options)
