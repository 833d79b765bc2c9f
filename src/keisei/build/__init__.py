"""From configuration to parts: the one place where a name becomes an implementation.

`environments.py` has what `keisei.make` builds, `games.py` what a run knows of its game, `players.py` networks and
opponents, `runs.py` the rest of a run. Importing this loads no torch.
"""

from keisei.build.environments import environment, gymnasium, pettingzoo
from keisei.build.games import Game, game, match_environment
from keisei.build.players import checkpoint_policy, network, opponent, policy
from keisei.build.runs import collector, evaluator, learner, training

__all__ = [
    "Game",
    "checkpoint_policy",
    "collector",
    "environment",
    "evaluator",
    "game",
    "gymnasium",
    "learner",
    "match_environment",
    "network",
    "opponent",
    "pettingzoo",
    "policy",
    "training",
]
