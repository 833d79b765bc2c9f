"""Whole runs of societies: the same bits by workers, when killed, resumed, or collected ahead; and what they say."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from commands import keisei
from keisei.collect.serial import SerialCollector
from keisei.config import GridworldRun, load_run
from keisei.config_learner import DQNConfig, IQNConfig, PPOConfig
from keisei.errors import ConfigError
from keisei.gridworld import load_world
from keisei.learning.ppo import PPO
from keisei.learning.q_learner import QLearner
from keisei.parallel.manager import ParallelManager
from keisei.rollout import ARRAYS, Rollout
from keisei.train import Training
from tiny_runs import events, final_sha256, records, sha256, stop_after, training, write_config
from tiny_societies import AGENTS, COPIES, EPOCH, MIXED, TAG, TURNS, epochs, population

CONFIGS = Path(__file__).parent.parent / "configs"
WORKERS = ("parallel.enabled=true", "parallel.num_workers=2")
AHEAD = "parallel.async_learning=true"
LEARNER = "parallel.inference=learner"
STACKED = ("parallel.parallel_actions=stacked", "parallel.parallel_training=stacked")
SIX = epochs(6)


def final(folder: Path, *overrides: str) -> str:
    return final_sha256(folder, SIX, MIXED, *overrides, base=TAG)


# --- the configurations that come along


@pytest.mark.parametrize("world", ["treasure-hunt", "cleanup", "tag", "stag-hunt", "iowa"])
def test_configuration_of_a_world_trains_its_society(tmp_path: Path, world: str) -> None:
    config = load_run(CONFIGS / f"{world}.yaml")
    assert isinstance(config, GridworldRun)
    numbers = {name: number.default for name, number in load_world(config.environment.name).numbers.items()}
    agents, epoch = numbers["agents"], config.environment.copies * numbers["agents"] * numbers["max_turns"]
    short = (f"run.total_steps={epoch}", "evaluation.final_games=0", "parallel.enabled=false", *STACKED)
    found = keisei(tmp_path, "train", CONFIGS / f"{world}.yaml", *short, "--run-dir", "run", "--json").json
    assert (found["state"], found["iterations"], found["steps"]) == ("finished", 1, epoch)
    (told,) = records(tmp_path / "run")
    assert told["games"] == config.environment.copies
    assert all(f"agents/{agent}/return" in told for agent in range(int(agents)))
    assert told["learn/loss"] > 0  # type: ignore[operator]


# --- the same bits


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return final(tmp_path_factory.mktemp("plain"))


def test_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path, plain: str) -> None:
    assert final(tmp_path / "again") == plain
    assert final(tmp_path / "other", "run.seed=4") != plain


def test_workers_end_with_the_same_weights(tmp_path: Path, plain: str) -> None:
    assert final(tmp_path, *WORKERS) == plain


def test_killed_workers_end_with_the_same_weights(tmp_path: Path, plain: str) -> None:
    with training(tmp_path, SIX, MIXED, *WORKERS, base=TAG) as made:
        manager = made.parts.collector
        assert isinstance(manager, ParallelManager)
        original = manager.collect

        def collect(iteration: int) -> Rollout:
            if iteration in (2, 4) and manager._crew is not None:
                os.kill(manager._crew.workers[iteration % 2].process.pid, signal.SIGKILL)
            return original(iteration)

        manager.collect = collect  # type: ignore[method-assign]
        assert sha256(made.run()) == plain
    assert records(tmp_path)[-1]["parallel/restarts"] == 2


@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize("ahead", [False, True])
def test_run_stopped_and_resumed_ends_with_the_same_weights(tmp_path: Path, iterations: int, ahead: bool) -> None:
    how = (SIX, MIXED, *([AHEAD] if ahead else []))
    through = final_sha256(tmp_path / "through", *how, base=TAG)
    with training(tmp_path / "stopped", *how, base=TAG) as made:
        stop_after(made, iterations)
        made.run()
    with training(tmp_path / "stopped", *how, base=TAG) as made:
        assert made.progress.iteration == iterations
        assert sha256(made.run()) == through


def test_collecting_ahead_has_one_result_whoever_collects(tmp_path: Path, plain: str) -> None:
    one = final(tmp_path / "thread", AHEAD)
    assert one != plain
    assert final(tmp_path / "workers", AHEAD, *WORKERS) == one


def test_one_process_that_acts_for_all_has_one_result_whoever_steps(tmp_path: Path) -> None:
    assert final(tmp_path / "serial", LEARNER) == final(tmp_path / "workers", LEARNER, *WORKERS)


def test_several_epochs_at_once_are_several_episodes_before_each_training(tmp_path: Path) -> None:
    with training(tmp_path, SIX, MIXED, "parallel.train_interval=3", base=TAG) as made:
        made.run()
        learners = population(made).learners
    assert made.progress.iteration == 2
    assert made.progress.games == 6 * COPIES
    assert isinstance(learners[2], QLearner)
    assert learners[2].adam_steps == 2
    assert learners[2].exploration == pytest.approx(0.6 * (1 - 5e-4) ** 6)


def test_exploration_falls_by_its_share_with_each_epoch(tmp_path: Path) -> None:
    with training(tmp_path, SIX, MIXED, base=TAG) as made:
        made.run()
        (of_last,) = [one for one in population(made).learners[2:] if isinstance(one, QLearner)]
    assert of_last.exploration == pytest.approx(0.6 * (1 - 5e-4) ** 6)


# --- who is made of what


def test_agents_are_made_and_see_as_the_configuration_says(tmp_path: Path) -> None:
    with training(tmp_path, MIXED, base=TAG) as made:
        first, second, third = population(made).learners
        collector = made.parts.collector
        assert isinstance(collector, SerialCollector)
        seen = collector.collect(0).observation[0, 0]  # [lanes, bytes]
    kinds = 3  # wall, agent, it
    assert isinstance(first, QLearner)
    assert isinstance(second, PPO)
    assert isinstance(third, QLearner)
    assert first.network.architecture.shape == (2 * kinds * 3 * 3 + 1,)  # two frames of 3×3, and "I am It"
    assert third.network.architecture.shape == (kinds + 2 + 1, 5, 5)
    own, longest = 2 * 9 + 1, 25 + 2 + 1
    assert seen.shape == (AGENTS * COPIES // 2, longest)
    assert not seen[0::AGENTS, own:].any()
    assert not seen[1::AGENTS, own:].any()
    assert seen[2::AGENTS].any(0).sum() > own
    planes = third.encode(np.ascontiguousarray(seen[2::AGENTS]))
    assert planes.shape == (COPIES // 2, 6, 5, 5)
    assert planes[:, 5].amax().item() == seen[2::AGENTS, -1].max()


def test_sections_of_agents_reach_their_learners(tmp_path: Path) -> None:
    config = load_run(write_config(tmp_path, MIXED, base=TAG))
    assert isinstance(config, GridworldRun)
    with training(tmp_path, MIXED, base=TAG) as made:
        first, _, third = population(made).learners
    assert isinstance(first, QLearner)
    assert isinstance(third, QLearner)
    assert (first.settings.steps, first.settings.updates, first.settings.priority) == (3, 2, 0.6)
    assert first.memory.action.shape == (COPIES, 15)
    assert (third.settings.steps, third.settings.updates, third.settings.priority) == (1, 1, 0)
    assert {type(one) for one in (IQNConfig(kind="iqn"), DQNConfig(kind="dqn"), PPOConfig())}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("agents=[{seats: 0-1}]", "'agents' leaves out seat 2, but there are 3 agents"),
        ("agents=[{seats: 0-2}, {seats: 1}]", "'agents.1.seats' names seat 1, which is listed before"),
        ("agents=[{seats: 0-3}]", "'agents.0.seats' names seat 3, but there are 3 agents"),
        ("agents=[{seats: x}]", "'agents.0.seats' on the command line: expected seats such as 0-3"),
        ("agents=[{seats: 0-2, window: {radius: 200}}]", "'agents.0.window.radius' .* from 0 to 127, not 200"),
        ("parallel.train_interval=0", "'parallel.train_interval' .* must be a whole number from 1"),
        ("parallel.parallel_actions=both", "must be one of auto, looped, stacked, not 'both'"),
        ("parallel.parallel_training=0", "must be auto, looped, stacked, threads or a whole number from 1 to 128"),
        ("environment.observation=uint8", "'environment.observation' must be packed where agents have different"),
    ],
)
def test_society_that_cannot_be_is_refused(tmp_path: Path, override: str, expected: str) -> None:
    agents = () if override.startswith("agents") else (MIXED,)
    with pytest.raises(ConfigError, match=expected), training(tmp_path, *agents, override, base=TAG):
        pass


@pytest.mark.parametrize("override", ["parallel.train_interval=2", "parallel.parallel_actions=looped", "agents=[]"])
def test_keys_of_societies_say_so_where_there_is_one_learner(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="is for societies: in this game one learner plays all seats"):
        write_config(tmp_path, override)


# --- what is measured is written down


def test_what_auto_chose_is_marked_in_the_summary(tmp_path: Path) -> None:
    auto = ("parallel.parallel_training=auto", MIXED)
    write_config(tmp_path, epochs(2), *auto, base=TAG)
    found = keisei(tmp_path, "train", "config.yaml", "--run-dir", "run", "--json").json
    assert found["measured"] == ["parallel_training"]
    resolved = load_run(tmp_path / "run" / "config.yaml")
    assert isinstance(resolved, GridworldRun)
    assert resolved.parallel.parallel_training != "auto"
    again = keisei(tmp_path, "resume", "run", epochs(3), "--json").json
    assert again["measured"] == ["parallel_training"]
    assert again["iterations"] == 3
    said = [text for text in events(tmp_path / "run", "mode") if text.startswith("parallel_")]
    assert len(said) == 1, "it is not measured again"


def test_what_auto_chose_is_written_down(tmp_path: Path) -> None:
    auto = ("parallel.parallel_actions=auto", "parallel.parallel_training=auto")
    with training(tmp_path, SIX, MIXED, *auto, base=TAG) as made:
        resolved = made.parts.config
        assert "auto" not in [line.split(": ")[-1] for line in resolved.splitlines() if "parallel_" in line]
        made.run()
    said = [text for text in events(tmp_path, "mode") if text.startswith("parallel_")]
    assert [text.partition(":")[0] for text in said] == ["parallel_actions", "parallel_training"]
    (tmp_path / "config.yaml").write_text(resolved, encoding="utf-8")
    again = load_run(tmp_path / "config.yaml")
    assert isinstance(again, GridworldRun)
    assert again.parallel.parallel_actions in ("looped", "stacked")


# --- what a run tells


def test_records_tell_returns_of_agents_and_what_the_world_reports(tmp_path: Path) -> None:
    lived: list[Rollout] = []
    with training(tmp_path, SIX, MIXED, base=TAG) as made, keeping(made, lived):
        made.run()
    for told, rollout in zip(records(tmp_path), lived, strict=True):
        returns = rollout.reward.sum(1).reshape(COPIES, AGENTS)
        for agent in range(AGENTS):
            assert told[f"agents/{agent}/return"] == pytest.approx(returns[:, agent].mean())
            assert told[f"agents/{agent}/return_spread"] == pytest.approx(returns[:, agent].std())
            assert (f"learn/agents/{agent}/loss" in told) == (agent != 1)
        assert told["world/return"] == pytest.approx(returns.mean())
        # whoever is not It is paid: returns say who was
        it = [told[f"agents/{agent}/turns_it"] for agent in range(AGENTS)]
        assert it == pytest.approx([TURNS - one / 10 for one in returns.mean(0)])
        assert 0 <= told["world/gini"] < 1  # type: ignore[operator]
        assert told["games"] == COPIES * told["iteration"]  # type: ignore[operator]


@contextmanager
def keeping(made: Training, lived: list[Rollout]) -> Iterator[None]:
    """Keep copies of all rollouts of a run."""
    original = made.parts.collector.collect

    def collect(iteration: int) -> Rollout:
        rollout = original(iteration)
        lived.append(Rollout(rollout.group, **{name: getattr(rollout, name).copy() for name in ARRAYS}))
        return rollout

    made.parts.collector.collect = collect  # type: ignore[method-assign]
    yield


def test_figures_are_the_same_whoever_plays(tmp_path: Path) -> None:
    found = []
    for name, how in (("serial", ()), ("workers", WORKERS), ("stepped", (*WORKERS, LEARNER)), ("set", (LEARNER,))):
        with training(tmp_path / name, epochs(2), MIXED, *how, base=TAG) as made:
            made.run()
        told = records(tmp_path / name)
        found.append([{key: one[key] for key in one if key.startswith(("agents/", "world/"))} for one in told])
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert all("world/return" in one for one in found[2])


def test_evaluation_lives_in_fresh_worlds_and_changes_nothing(tmp_path: Path, plain: str) -> None:
    often = "evaluation={interval: 2, games: 5, final_games: 40, play: greedy, against: [random]}"
    with training(tmp_path, SIX, MIXED, often, base=TAG) as made:
        assert sha256(made.run()) == plain
    told = [one for one in records(tmp_path) if "evaluate/world/return" in one]
    assert [one["iteration"] for one in told] == [2, 4, 6]
    assert all(f"evaluate/random/agents/{agent}/return" in told[-1] for agent in range(AGENTS))
    json.dumps(told)


def test_epoch_is_so_many_steps_where_there_are_no_episodes(tmp_path: Path) -> None:
    steps = ("parallel.episodes_per_worker=null", "parallel.rollout_length=3", epochs(6))
    one = final_sha256(tmp_path / "one", MIXED, *steps, base=TAG)
    assert final_sha256(tmp_path / "two", MIXED, *steps, *WORKERS, base=TAG) == one
    told = records(tmp_path / "one")
    assert len(told) == 6 * EPOCH // (3 * AGENTS * COPIES)
    assert ["world/return" in one for one in told][:4] == [False, True, True, True]  # episodes of 4 turns


def test_agents_who_take_turns_live_and_learn(tmp_path: Path) -> None:
    turns = ("environment.turns=sequential", MIXED)
    with training(tmp_path / "one", epochs(4), *turns, base=TAG) as made:
        through = sha256(made.run())
        first = population(made).learners[0]
        assert isinstance(first, QLearner)
        assert first.adam_steps > 0
    assert final_sha256(tmp_path / "two", epochs(4), *turns, *WORKERS, base=TAG) == through


def test_rewards_of_one_agent_change_no_bit_of_the_others_who_live_the_same(tmp_path: Path) -> None:
    lived: list[Rollout] = []
    with training(tmp_path / "lived", epochs(4), MIXED, base=TAG) as made, keeping(made, lived):
        made.run()
    found = []
    for richer in (False, True):
        with training(tmp_path / f"richer-{richer}", MIXED, base=TAG) as made:
            for iteration, rollout in enumerate(lived):
                rollout.reward[:, :, 1::AGENTS] += richer
                made.parts.learner.learn(rollout, iteration, 0.0)
            networks = [one.network.state_dict() for one in population(made).learners]
            found.append([{name: one.numpy().tobytes() for name, one in own.items()} for own in networks])
    assert [one == other for one, other in zip(*found, strict=True)] == [True, False, True]
