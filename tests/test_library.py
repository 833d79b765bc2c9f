"""Worker processes outside any run: the snippet of `docs/how-it-works/parallel.md`, as it stands there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from keisei import build
from keisei.config import Config
from keisei.errors import ConfigError
from keisei.sections import check
from workers import digest

ENVIRONMENT: dict[str, object] = {"name": "shogi", "copies": 8, "move_limit": 20, "random_plies": 12}
NETWORK: dict[str, object] = {"kind": "convolutional", "depth": 1, "width": 8}
PARALLEL: dict[str, object] = {"num_workers": 2, "block_size": 4, "rollout_length": 8, "model_sync_interval": 2}
TRAINING_STEPS = 4

pytestmark = pytest.mark.usefixtures("quick_workers")


def configuration() -> Config:
    sections = {"run": {"seed": 7}, "environment": ENVIRONMENT, "network": NETWORK, "parallel": PARALLEL}
    return check(Config, sections, "in a test")


def new_model() -> nn.Module:
    config = configuration()
    return build.network(config.network, build.game(config), 7)


def learn(model: nn.Module, step: int) -> None:
    """Something that changes the weights."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * (step + 1))


def test_snippet_collects_what_one_process_does() -> None:
    said: list[str] = []
    model, found = new_model(), []
    manager = build.parallel_manager(ENVIRONMENT, NETWORK, PARALLEL, seed=7, tell=said.append)
    manager.start_workers(model)
    for step in range(TRAINING_STEPS):
        experience = manager.collect_experiences()
        found.append(digest(experience))
        learn(model, step)
        assert manager.sync_model_if_needed(model, step) == (step % 2 == 1)
    assert manager.statistics()["parallel/syncs"] == 1 + TRAINING_STEPS // 2
    manager.stop_workers()
    manager.close()
    assert found == serially()
    assert not said


def serially() -> list[str]:
    """The same by hand: weights are published first, and after every second step."""
    config, model, found = configuration(), new_model(), []
    collector = build.serial(config, build.game(config))
    collector.publish(model.state_dict(), 0)
    for step in range(TRAINING_STEPS):
        found.append(digest(collector.collect(step)))
        learn(model, step)
        if step % 2 == 1:
            collector.publish(model.state_dict(), step + 1)
    collector.close()
    return found


def test_it_can_be_used_in_a_block_and_must_be_told_how_many() -> None:
    with build.parallel_manager(ENVIRONMENT, NETWORK, {**PARALLEL, "num_workers": 1}, seed=7) as manager:
        manager.start_workers(new_model())
        assert len(manager.processes()) == 1
    assert manager.processes() == []
    with pytest.raises(ConfigError, match=r"'parallel.num_workers' must be a number here"):
        build.parallel_manager(ENVIRONMENT, NETWORK, {**PARALLEL, "num_workers": "auto"}, seed=7)
