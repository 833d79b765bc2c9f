"""Gridworlds: several agents in one world, many worlds at once.

`world.py` says how a world is written, `engine.py` how it is run; the worlds that ship are in `worlds/`.
"""

from __future__ import annotations

from keisei.gridworld.engine import GridworldEnvironment
from keisei.gridworld.view import Encoding, View
from keisei.gridworld.world import SHIPPED, World, WorldFile, load_world

__all__ = ["SHIPPED", "Encoding", "GridworldEnvironment", "View", "World", "WorldFile", "load_world"]
