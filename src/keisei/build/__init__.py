"""From configuration to parts: the one place where a name becomes an implementation.

`environments.py` has what `keisei.make` builds, `games.py` what a run knows of its game, `players.py` networks and
opponents, `collectors.py` who collects experience (`automatic.py` measures who does it best), `runs.py` the rest of a
run, `stages.py` worlds to be looked at. Importing this loads no torch.
"""

from keisei.build.collectors import collector, parallel_manager, serial, workers
from keisei.build.environments import environment, gymnasium, pettingzoo
from keisei.build.games import Game, game, match_environment
from keisei.build.learners import learner, ppo
from keisei.build.players import checkpoint_policy, network, opponent, policy, policy_of
from keisei.build.runs import evaluator, training
from keisei.build.societies import run_agent_learner
from keisei.build.stages import learnt_stage, random_stage, spectator

__all__ = [
    "Game",
    "checkpoint_policy",
    "collector",
    "environment",
    "evaluator",
    "game",
    "gymnasium",
    "learner",
    "learnt_stage",
    "match_environment",
    "network",
    "opponent",
    "parallel_manager",
    "pettingzoo",
    "policy",
    "policy_of",
    "ppo",
    "random_stage",
    "run_agent_learner",
    "serial",
    "spectator",
    "training",
    "workers",
]
