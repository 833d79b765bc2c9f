"""Societies whose agents' networks lie on a device: on the CPU as ever, and stacked on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from keisei.build.devices import placed
from keisei.config import load_run
from small_device import needs_gpu
from tiny_runs import training

WORLD = (
    "environment={name: treasure_hunt, agents: 3, copies: 4, max_turns: 10}",
    "network={kind: mlp, depth: 1, width: 16, policy: dense}",
    "run.total_steps=480",
    "evaluation={interval: 0, final_games: 0}",
)
IQN = "learner={kind: iqn, quantiles: 4, layer: 16, batch_size: 16}"
HERE = "parallel={enabled: false, block_size: 4, parallel_actions: stacked, parallel_training: stacked}"
WORKERS = "parallel={enabled: true, block_size: 4, parallel_actions: stacked, parallel_training: stacked}"


@pytest.mark.parametrize(
    ("learner", "parallel"), [("learner={kind: ppo}", HERE), (IQN, WORKERS)], ids=["ppo agents", "workers"]
)
def test_societies_that_do_not_suit_a_gpu_stay_on_the_processor(learner: str, parallel: str) -> None:
    assert placed(load_run(None, [*WORLD, learner, parallel])).device.kind == "cpu"


@needs_gpu
def test_society_of_action_values_lives_and_learns_on_a_gpu(tmp_path: Path) -> None:
    base = {name: dict[str, object]() for name in ("run", "environment")}
    with training(tmp_path, *WORLD, IQN, HERE, base=base) as made:
        weights = next(made.parts.learner.network.parameters())
        assert weights.is_cuda
        before = weights.detach().clone()
        made.run()
        assert not before.equal(weights)
