"""A society that learns in seconds: three agents in a small treasure hunt, as plain Python, in two blocks of worlds."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from keisei.config import GridworldRun, load_run

SOCIETY: dict[str, dict[str, object]] = {
    "run": {"seed": 3, "total_steps": 240, "checkpoint_interval": 1},
    "environment": {
        "name": "treasure_hunt",
        "copies": 4,
        "agents": 3,
        "max_turns": 7,
        "debug": True,
        "numbers": {"height": 9, "width": 9, "growth": 0.05},
    },
    "network": {"kind": "mlp", "depth": 1, "width": 8, "policy": "dense"},
    "learner": {"kind": "dqn", "layer": 8, "memory": 64, "batch_size": 8},
    "parallel": {
        "block_size": 2,
        "enabled": False,
        "num_workers": 1,
        "parallel_actions": "looped",
        "parallel_training": "looped",
    },
    "evaluation": {"interval": 0, "games": 2, "final_games": 2, "against": ["random"]},
}


def written(folder: Path, **changes: dict[str, object]) -> Path:
    """Its configuration as a file; changes are of keys of its sections."""
    sections = copy.deepcopy(SOCIETY)
    for name, keys in changes.items():
        sections.setdefault(name, {}).update(keys)
    path = folder / "society.yaml"
    path.write_text(yaml.safe_dump(sections), encoding="utf-8")
    return path


def loaded(folder: Path, **changes: dict[str, object]) -> GridworldRun:
    """Its configuration."""
    config = load_run(written(folder, **changes))
    assert isinstance(config, GridworldRun)
    return config
