"""What goes wrong in a society: an agent whose update fails stops nobody else, and nobody collects for one gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from commands import keisei
from keisei import build, failed_batch
from keisei.checkpoint import latest
from keisei.config import GridworldRun, load_run
from keisei.environment import Array
from keisei.errors import LearningError
from keisei.learning.ppo import PPO
from keisei.learning.q_learner import QLearner
from keisei.rollout import Rollout
from keisei.train import Training
from tiny_runs import events, records, stop_after, training
from tiny_societies import AGENTS, MIXED, TAG, epochs, population

AHEAD = ("parallel.async_learning=true", "parallel.max_lag=2")


def fail(made: Training, agent: int, iterations: tuple[int, ...]) -> None:
    """Let an agent's updates in these iterations (counted from 1) raise, when it looks at its batch."""
    learner = population(made).learners[agent]
    assert isinstance(learner, QLearner)
    original: Callable[[Array], Tensor] = learner.encode

    def encode(seen: Array) -> Tensor:
        if made.progress.iteration + 1 in iterations:
            raise RuntimeError("no light")
        return original(seen)

    learner.encode = encode


def weights(made: Training, agent: int) -> dict[str, bytes]:
    network = population(made).learners[agent].network
    return {name: one.numpy().tobytes() for name, one in network.state_dict().items()}


@pytest.mark.parametrize("how", [(), AHEAD])
def test_update_that_fails_is_reported_counted_and_kept(tmp_path: Path, how: tuple[str, ...]) -> None:
    with training(tmp_path, epochs(6), MIXED, *how, base=TAG) as made:
        fail(made, 0, (3, 5))
        made.run()
    assert made.progress.iteration == 6, "collection and the others go on"
    assert made.progress.failed_updates == 2
    first, second = events(tmp_path, "alarm")
    assert first.startswith("the update of agent 0 in epoch 3 failed (RuntimeError('no light')); see it again with")
    assert "agent 0 in epoch 5" in second
    assert [one["run/failed_updates"] for one in records(tmp_path)] == [0, 0, 1, 1, 2, 2]
    assert len(list((tmp_path / failed_batch.FAILED / "checkpoints").iterdir())) == 2


def test_agents_beside_one_that_fails_learn_what_they_would_without_it(tmp_path: Path) -> None:
    """Of the first epochs: later ones are lived with one who knows less."""
    found = []
    for name, failing in (("one", (2,)), ("other", ())):
        with training(tmp_path / name, epochs(2), MIXED, base=TAG) as made:
            fail(made, 0, failing)
            made.run()
            found.append([weights(made, agent) for agent in range(AGENTS)])
    assert [one == other for one, other in zip(*found, strict=True)] == [False, True, True]


def test_kept_batch_is_replayed(tmp_path: Path) -> None:
    with training(tmp_path, epochs(4), MIXED, base=TAG) as made:
        fail(made, 0, (3,))
        made.run()
    (tmp_path / "config.yaml").write_text(made.parts.config, encoding="utf-8")
    found = failed_batch.newest(tmp_path)
    assert failed_batch.agent_of(found) == 0
    assert "no light" in str(found.checkpoint.facts["traceback"])
    config = load_run(tmp_path / "config.yaml")
    assert isinstance(config, GridworldRun)
    game = build.game(config)
    learner = build.run_agent_learner(config, game, 0)
    assert isinstance(learner, QLearner)
    learnt = failed_batch.replay(found, learner, game.group, config.run.total_steps)
    assert learnt["loss"] > 0, "in another process there is light"
    assert learner.adam_steps == 2 * 2 + 1, "two epochs of two updates, and the one that failed"
    learner.encode = dark
    with pytest.raises(RuntimeError, match="no light"):
        failed_batch.replay(found, learner, game.group, config.run.total_steps)
    told = keisei(tmp_path, "replay", ".")
    assert told.status == 0, told.errors
    assert "this time it did not fail: loss" in told.output


def dark(seen: Array) -> Tensor:
    raise RuntimeError("no light")


@pytest.mark.parametrize("how", [(), AHEAD])
def test_five_failures_in_a_row_stop_the_run_with_a_checkpoint(tmp_path: Path, how: tuple[str, ...]) -> None:
    collected: list[int] = []
    with training(tmp_path, epochs(20), MIXED, *how, base=TAG) as made:
        fail(made, 2, (2, 4, 5, 6, 7, 8, 9))
        watch(made, collected)
        with pytest.raises(LearningError, match=r"agent 2 have failed 5 times in a row.*stopped with checkpoint .*08$"):
            made.run()
    assert latest(tmp_path).number == 8
    assert made.progress.failed_updates == 6
    assert collected == list(range(8)), "nobody asks for experience for a learner that is gone"
    assert not [one for one in threading.enumerate() if one.name.startswith("ahead")]
    with training(tmp_path, epochs(20), MIXED, *how, base=TAG) as again:
        fail(again, 2, (10,))
        again.run()
    assert (again.progress.iteration, again.progress.failed_updates) == (20, 7), "one that succeeds is forgiven"


def watch(made: Training, collected: list[int]) -> None:
    """Note which rollouts are asked for."""
    original = made.parts.collector.collect

    def collect(iteration: int) -> Rollout:
        collected.append(iteration)
        return original(iteration)

    made.parts.collector.collect = collect  # type: ignore[method-assign]


def test_agent_that_learns_from_each_rollout_alone_fails_and_is_left_as_it_was(tmp_path: Path) -> None:
    with training(tmp_path, epochs(3), MIXED, base=TAG) as made:
        learner = population(made).learners[1]
        assert isinstance(learner, PPO)
        original = learner.policy.evaluate
        before: list[dict[str, bytes]] = []

        def evaluate(*arguments: object) -> object:
            if made.progress.iteration == 1:
                before.append(weights(made, 1))
                raise RuntimeError("no light")
            if made.progress.iteration == 2 and len(before) == 1:
                before.append(weights(made, 1))
            return original(*arguments)  # type: ignore[arg-type]

        learner.policy.evaluate = evaluate  # type: ignore[method-assign, assignment]
        made.run()
        assert before[0] == before[1]
        assert weights(made, 1) != before[1]
    assert made.progress.failed_updates == 1


@pytest.mark.parametrize("how", [(), AHEAD])
def test_last_training_is_finished_before_the_run_ends(tmp_path: Path, how: tuple[str, ...]) -> None:
    with training(tmp_path, epochs(5), MIXED, *how, base=TAG) as made:
        made.run()
        learner = population(made).learners[2]
        assert isinstance(learner, QLearner)
        assert learner.adam_steps == 5
        saved = latest(tmp_path).checkpoint
        assert np.array_equal(saved.tensors["optimizer"]["2.steps"].numpy(), learner.adam_steps.numpy())


def test_request_to_stop_lets_the_training_of_that_epoch_finish(tmp_path: Path) -> None:
    with training(tmp_path, epochs(9), MIXED, *AHEAD, base=TAG) as made:
        stop_after(made, 3)
        made.run()
        learner = population(made).learners[2]
        assert isinstance(learner, QLearner)
        assert learner.adam_steps == 3
    assert latest(tmp_path).number == 3
