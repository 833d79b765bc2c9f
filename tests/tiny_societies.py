"""Societies of three agents who play tag for a few turns: a run takes milliseconds, as plain Python."""

from __future__ import annotations

from keisei.learning.population import Population
from keisei.learning.society import SocietyLearner
from keisei.train import Training
from tiny_runs import Sections

AGENTS, COPIES, TURNS = 3, 4, 4
EPOCH = AGENTS * COPIES * TURNS
"""Steps of lanes in an epoch."""

TAG: Sections = {
    "run": {"seed": 3, "total_steps": 6 * EPOCH, "checkpoint_interval": 100, "keep_checkpoints": 3},
    "environment": {
        "name": "tag", "agents": AGENTS, "max_turns": TURNS, "numbers": {"height": 5, "width": 5}, "copies": COPIES,
        "radius": 1, "frames": 2, "debug": True,
    },
    "network": {"kind": "mlp", "depth": 1, "width": 8, "policy": "dense", "value_reach": 50},
    "learner": {"kind": "dqn", "batch_size": 8, "memory": 40, "layer": 8, "learning_rate": 0.01},
    "parallel": {"enabled": False, "block_size": 2, "parallel_actions": "stacked", "parallel_training": "stacked"},
    "evaluation": {"interval": 0, "final_games": 0},
}  # fmt: skip

EVERYTHING = (
    "{seats: 0, learner: {kind: iqn, quantiles: 3, cosines: 4, layer: 8, memory: 60, batch_size: 8, n_step: 3, "
    "prioritised: true, dueling: true, noisy: true, updates_per_epoch: 2, learning_rate: 0.01}}"
)
PPO = "{seats: 1, network: {width: 6}, learner: {kind: ppo, minibatch_size: 8, learning_rate: 0.01}}"
SEES_MORE = "{seats: 2, window: {radius: 2, frames: 1, position: true}, network: {kind: convolutional, width: 4}}"
MIXED = f"agents=[{EVERYTHING}, {PPO}, {SEES_MORE}]"
"""Three agents who have nothing in common."""


def epochs(number: int) -> str:
    """A run of so many epochs, as an override."""
    return f"run.total_steps={number * EPOCH}"


def population(made: Training) -> Population:
    """The agents of a run."""
    learner = made.parts.learner
    assert isinstance(learner, SocietyLearner)
    return learner.population
