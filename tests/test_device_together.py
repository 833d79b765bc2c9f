"""Two processes that learn one network, each from games of its own, have the same weights at every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as distributed
import torch.multiprocessing as processes

from keisei.device.together import TogetherPPO
from keisei.learning.ppo import Schedule
from small_device import device_policy
from small_ppo import SETTINGS
from small_shogi import small_collector, small_game, small_policy

RANKS, LANES = 2, 4
LEARN = replace(SETTINGS, minibatch_size=32, epochs=2, gradient_norm=1.0, learning_rate=Schedule(1e-3, 1e-3))


def one_of_two(rank: int, folder: str) -> None:
    """What one process does: collect its own games, and learn them together with the other."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    try:
        game = small_game(block_size=LANES, random_plies=5, move_limit=9, seed=rank)
        learner = TogetherPPO(device_policy(seed=rank, game=game), LEARN, 5, same_weights=False)
        steps = 12 + 5 * rank  # of different lengths, even
        collector = small_collector(game, small_policy(game=game), blocks=2, steps=steps, seed=rank)
        told = []
        for iteration in range(3):
            rollout = collector.collect(iteration)
            told.append(learner.learn(rollout, iteration, 0.5))
            collector.publish(learner.network.state_dict(), iteration + 1)
        torch.save(
            {
                "weights": {name: tensor.clone() for name, tensor in learner.network.state_dict().items()},
                "kl": torch.tensor([numbers["kl"] for numbers in told]),
                "updates": torch.tensor([numbers["updates"] for numbers in told]),
                "seen": torch.from_numpy(rollout.observation[0, 0].copy()),
            },
            f"{folder}/{rank}.pt",
        )
    finally:
        distributed.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, torch.Tensor]]:
    folder = tmp_path_factory.mktemp("together")
    processes.spawn(one_of_two, (str(folder),), nprocs=RANKS)  # type: ignore[attr-defined, no-untyped-call]
    return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(RANKS)]


def test_all_have_the_same_weights_whatever_they_began_with(found: list[dict[str, torch.Tensor]]) -> None:
    one, other = (dict(each["weights"]) for each in found)
    assert all(torch.equal(one[name], other[name]) for name in one)
    fresh = device_policy(seed=0).network.state_dict()
    assert any(not torch.equal(one[name], fresh[name]) for name in one)


def test_each_plays_games_of_its_own(found: list[dict[str, torch.Tensor]]) -> None:
    assert not torch.equal(found[0]["seen"], found[1]["seen"])


def test_all_make_as_many_updates_and_report_the_same(found: list[dict[str, torch.Tensor]]) -> None:
    assert found[0]["updates"].tolist() == found[1]["updates"].tolist()
    assert torch.allclose(found[0]["kl"], found[1]["kl"])
    assert found[0]["updates"].tolist() == [2 * 5] * 3  # 2 · 17 · 4 decisions in minibatches of 32
