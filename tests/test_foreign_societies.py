"""Parallel environments of others as societies: every agent learns for itself, and its return is told."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from keisei import build
from keisei.adapters import pettingzoo_builder, pettingzoo_games
from keisei.checkpoint import latest
from keisei.config import PettingZooRun, PettingZooSociety, check_run
from keisei.environment import Telling, new_observation, new_step
from keisei.errors import ConfigError
from keisei.history import read
from keisei.metrics import open_metrics
from keisei.stopping import StopRequest
from keisei.train import GROUPS

RUN: dict[str, dict[str, object]] = {
    "run": {"seed": 5, "total_steps": 160, "checkpoint_interval": 100},
    "environment": {"name": "pettingzoo", "id": "foreign_games:Meadow", "copies": 4, "learners": "each"},
    "network": {"kind": "mlp", "depth": 1, "width": 8, "policy": "dense"},
    "learner": {"kind": "dqn", "layer": 8, "memory": 64, "batch_size": 8},
    "parallel": {
        "block_size": 2,
        "rollout_length": 10,
        "enabled": False,
        "parallel_actions": "looped",
        "parallel_training": "looped",
    },
    "evaluation": {"interval": 0, "final_games": 3, "against": ["random"]},
}


def config(**changes: dict[str, object]) -> PettingZooSociety:
    sections = copy.deepcopy(RUN)
    for name, keys in changes.items():
        sections[name] = {**sections.get(name, {}), **keys}
    found = check_run(sections, "in a test")
    assert isinstance(found, PettingZooSociety)
    return found


def trained(folder: Path, run: PettingZooSociety) -> dict[str, bytes]:
    """A run's last weights, as bytes."""
    folder.mkdir()
    with open_metrics(folder) as metrics:
        training = build.training(run, folder, metrics, StopRequest())
        training.prepare()
        training.run()
    weights = latest(folder, GROUPS).checkpoint.weights
    return {name: tensor.numpy().tobytes() for name, tensor in weights.items()}


def test_every_agent_has_a_network_of_its_own_and_its_return_is_told(tmp_path: Path) -> None:
    seats = len(build.game(config()).seats)
    weights = trained(tmp_path / "run", config())
    assert {int(name.split(".")[0]) for name in weights} == set(range(seats))
    numbers = [record.numbers for record in read(tmp_path / "run").records]
    for agent in range(seats):
        assert any(f"agents/{agent}/return" in each for each in numbers)
        assert all(f"learn/agents/{agent}/loss" in each for each in numbers if "learn/loss" in each)
    assert "evaluate/world/return" in numbers[-1]
    assert "evaluate/random/world/return" in numbers[-1]


def test_agents_that_differ_learn_beside_each_other_and_the_same_again(tmp_path: Path) -> None:
    learner: dict[str, object] = {"kind": "ppo"}
    sections = copy.deepcopy(RUN)
    seats = len(build.game(config()).seats)
    agents = [{"seats": f"0-{seats - 2}"}, {"seats": f"{seats - 1}", "learner": learner}]
    run = check_run({**sections, "agents": agents}, "in a test")
    assert isinstance(run, PettingZooSociety)
    assert trained(tmp_path / "first", run) == trained(tmp_path / "second", run)


def test_told_returns_are_the_sums_of_rewards() -> None:
    environment = pettingzoo_games(pettingzoo_builder("foreign_games:Meadow", "parallel", {}), lanes="seat", copies=3)
    assert isinstance(environment, Telling)
    assert environment.groups[0].figures == ("return",)
    (seen,), step = new_observation(environment), new_step(environment)
    environment.reset([seen])
    generator = np.random.default_rng(1)
    earned, ends = np.zeros(environment.lanes), 0
    for _ in range(300):
        mask = seen.legal.actions.reshape(environment.lanes, -1)
        actions = np.array([generator.choice(np.flatnonzero(row)) if row.any() else 0 for row in mask])
        environment.step([actions], step, [seen])
        earned += step.reward
        told = np.full((environment.lanes, 1), np.nan, np.float32)
        environment.tell(step.ended, told)
        assert np.allclose(told[step.ended, 0], earned[step.ended], atol=1e-5)
        assert np.isnan(told[~step.ended]).all()
        ends += int(step.ended.sum())
        earned[step.ended] = 0
    assert ends > 10


def test_one_learner_is_still_what_is_usual() -> None:
    sections = copy.deepcopy(RUN)
    del sections["environment"]["learners"], sections["parallel"]["parallel_actions"]
    del sections["parallel"]["parallel_training"]
    assert type(check_run(sections, "in a test")) is PettingZooRun


@pytest.mark.parametrize(
    ("changes", "agents", "message"),
    [
        ({"environment": {"lanes": "game"}}, [], "environment.lanes must be seat or auto where learners is each"),
        ({}, [{"seats": "0-9", "window": {"radius": 1}}], "agents' window is for gridworlds"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    changes: dict[str, dict[str, object]], agents: list[dict[str, object]], message: str
) -> None:
    sections = copy.deepcopy(RUN)
    for name, keys in changes.items():
        sections[name].update(keys)
    with pytest.raises(ConfigError, match=message):
        check_run({**sections, "agents": agents}, "in a test")
