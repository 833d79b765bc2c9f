"""The trainings of `keisei bench societies`: who lives in which world, how they learn, and for how long.

Learners of kind `iqn` are those of `configs/treasure-hunt.yaml`, `stag-hunt.yaml` and `tag.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keisei.config import Config, check_run

Values = Mapping[str, object]

_FROM_MEMORY: Values = {
    "batch_size": 64, "memory": 20_000, "updates_per_epoch": 16, "learning_rate": 1e-3, "target_rate": 0.01,
    "gamma": 0.95, "exploration": 1.0, "exploration_decay": 0.01, "final_exploration": 0.02, "layer": 250,
}  # fmt: skip
KINDS: Mapping[str, Values] = {
    "iqn": {"kind": "iqn", "quantiles": 12, "cosines": 64, **_FROM_MEMORY},
    "dqn": {"kind": "dqn", **_FROM_MEMORY},
    "ppo": {
        "kind": "ppo", "learning_rate": 2e-3, "final_learning_rate": 5e-4, "entropy": 0.03, "final_entropy": 0.005,
        "gamma": 0.9, "epochs": 4, "minibatch_size": 128, "value_weight": 0.01,
    },
}  # fmt: skip
"""How each kind learns where a world says nothing else."""

_AT_RANDOM: Values = {
    "kind": "dqn", "exploration": 1.0, "exploration_decay": 0, "final_exploration": 1.0, "updates_per_epoch": 0,
    "memory": 64, "layer": 8,
}  # fmt: skip


_SMALL: Values = {"layer": 128, "quantiles": 8, "cosines": 32}
_STAGS: Values = {"gamma": 0.9, "n_step": 3, "threshold": 5.0, "final_exploration": 0.25}
_CATCHES: Values = {
    "gamma": 0.8, "threshold": 10.0, "updates_per_epoch": 32, "exploration_decay": 0.02, "final_exploration": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Society:
    """Who lives where, for how long, and how they learn otherwise than elsewhere."""

    environment: Values
    steps: Mapping[str, int]  # of lanes, by kind
    widths: Mapping[str, int]  # of the network, by kind
    reach: float  # of values
    episodes: int  # that are lived after the training
    learners: Mapping[str, Values] = field(default_factory=dict)  # by kind
    agents: Sequence[Values] = ()
    play: str = "sample"


WORLDS: Mapping[str, Society] = {
    "treasure_hunt": Society(
        {"name": "treasure_hunt", "copies": 8},
        steps={"iqn": 240_000, "dqn": 240_000, "ppo": 240_000},
        widths={"iqn": 250, "dqn": 250, "ppo": 128},
        reach=200.0,
        episodes=64,
        play="greedy",
    ),
    "stag_hunt": Society(
        {"name": "stag_hunt", "copies": 8},
        steps={"iqn": 640_000, "dqn": 480_000, "ppo": 800_000},
        widths={"iqn": 128, "dqn": 250, "ppo": 128},
        reach=50.0,
        episodes=128,
        learners={"iqn": {**_STAGS, **_SMALL}, "dqn": _STAGS, "ppo": {"entropy": 0.06}},
    ),
    "tag": Society(
        {"name": "tag", "copies": 16},
        steps={"iqn": 1_000_000, "dqn": 1_000_000, "ppo": 1_600_000},
        widths={"iqn": 128, "dqn": 128, "ppo": 128},
        reach=60.0,
        episodes=512,
        learners={
            "iqn": {**_CATCHES, **_SMALL},
            "dqn": {**_CATCHES, "layer": 128},
            "ppo": {"gamma": 0.8, "value_weight": 0.001},
        },
        agents=({"seats": "0"}, {"seats": "1-4", "learner": _AT_RANDOM, "network": {"width": 8}}),
    ),
}


def configured(world: str, kind: str, seed: int) -> Config:
    """The run of a society."""
    society = WORLDS[world]
    values = {
        "run": {"seed": seed, "total_steps": society.steps[kind], "checkpoint_interval": 10**6},
        "environment": society.environment,
        "network": {
            "kind": "mlp",
            "depth": 1,
            "width": society.widths[kind],
            "policy": "dense",
            "value_reach": society.reach,
        },
        "learner": {**KINDS[kind], **society.learners.get(kind, {})},
        "agents": list(society.agents),
        "parallel": {"enabled": False, "block_size": society.environment["copies"]},
        "evaluation": {"interval": 0, "final_games": 0, "play": society.play},
    }
    return check_run(values, "in keisei bench societies")
