"""An agent's memory: `decisions.py` takes them from a rollout, `memory.py` keeps them, `priorities.py` draws some."""

from keisei.replay.memory import ReplayMemory, Windows
from keisei.replay.priorities import Priorities

__all__ = ["Priorities", "ReplayMemory", "Windows"]
