"""Worlds as PettingZoo has them, all deciding at once: its own tests pass, and what comes out is what was lived."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test, render_test
from pettingzoo.utils import parallel_to_aec

import keisei
from keisei import build
from keisei.adapters import PettingZooParallelEnvironment, pettingzoo_games
from keisei.adapters.pettingzoo_worlds import TogetherWorld
from keisei.environment import new_observation, new_step
from keisei.errors import ActionError, ConfigError
from keisei.testing import check_environment

VAULT = str(Path(__file__).parent / "guarded_vault.py")
WORLDS: dict[str, dict[str, object]] = {
    "treasure_hunt": {"max_turns": 20},
    "cleanup": {"max_turns": 12},
    "tag": {},
    "stag_hunt": {"max_turns": 20},
    "iowa": {"max_turns": 20},
    "empty": {"agents": 3, "max_turns": 20},
    "gridworld": {"world": VAULT, "max_turns": 25},
}


def handed_out(name: str, render_mode: str | None = None, **options: object) -> PettingZooParallelEnvironment:
    given: dict[str, Any] = {**WORLDS[name], **options}
    built = build.pettingzoo(name, render_mode=render_mode, debug=True, **given)
    assert isinstance(built, PettingZooParallelEnvironment)
    return built


@pytest.mark.parametrize("name", WORLDS)
def test_pettingzoo_finds_nothing_wrong(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(handed_out(name), num_cycles=60)
        parallel_seed_test(lambda: handed_out(name), num_cycles=10)


@pytest.mark.parametrize("name", ["treasure_hunt", "gridworld"])
def test_pettingzoos_render_test_passes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    render_test(lambda render_mode=None: parallel_to_aec(handed_out(name, render_mode)))
    assert "####" in capsys.readouterr().out


def test_pictures_follow_what_happens_to_the_end() -> None:
    environment = handed_out("treasure_hunt", "rgb_array")
    environment.reset(seed=3)
    pictures = [environment.render()]
    while environment.agents:
        environment.step(dict.fromkeys(environment.agents, 1))
        pictures.append(environment.render())
    assert len(pictures) == 21
    shapes = {picture.shape for picture in pictures if isinstance(picture, np.ndarray)}
    assert len(shapes) == 1
    assert all((np.asarray(a) != np.asarray(b)).any() for a, b in pairwise(pictures))


def test_what_agents_live_is_what_the_engine_says() -> None:
    """Turn by turn the same views and rewards as in the environment itself, up to the last view."""
    outside, inside = handed_out("cleanup"), keisei.make("cleanup", seed=11, max_turns=12, debug=True)
    (seen,), step = new_observation(inside), new_step(inside)
    inside.reset([seen])
    views, _ = outside.reset(seed=11)
    generator = np.random.default_rng(0)
    for turn in range(12):
        assert all(np.array_equal(views[f"agent_{lane}"], seen.values[lane]) for lane in range(10))
        actions = generator.integers(0, 6, 10)
        views, rewards, terminated, truncated, infos = outside.step(
            {f"agent_{lane}": int(action) for lane, action in enumerate(actions)}
        )
        inside.step([actions], step, [seen])
        assert list(rewards.values()) == step.reward.tolist()
        assert set(truncated.values()) == {turn == 11}
        assert set(terminated.values()) == {False}
    assert all(np.array_equal(views[f"agent_{lane}"], step.final[0][lane]) for lane in range(10))
    assert infos["agent_0"]["reason"] == "turn limit"
    assert outside.agents == []


def walked(environment: PettingZooParallelEnvironment, seed: int, turns: int) -> list[dict[str, Any]]:
    """What random agents that keep to their masks live."""
    views, infos = environment.reset(seed=seed)
    told = []
    for _ in range(turns):
        if not environment.agents:
            break
        masks = {agent: views[agent]["action_mask"] for agent in environment.agents}
        actions = {agent: int(environment.action_space(agent).sample(mask)) for agent, mask in masks.items()}
        before = list(environment.agents)
        frozen = [agent for agent in environment.agents if not infos[agent]["decides"]]
        views, rewards, terminated, truncated, infos = environment.step(actions)
        told.append({"frozen": frozen, "actions": actions, "before": before, "rewards": rewards, "dead": terminated})
        assert set(views) == set(rewards) == set(truncated) == set(before)
    return told


def test_agents_that_finish_leave_and_those_that_are_frozen_are_named() -> None:
    environment = handed_out("gridworld", max_turns=60)
    for agent in environment.possible_agents:
        environment.action_space(agent).seed(hash(agent) % 1000)
    left = frozen = 0
    for seed in range(12):
        gone: set[str] = set()
        for turn in walked(environment, seed, 60):
            assert not gone & set(turn["before"])
            for agent in turn["before"]:
                frozen += agent in turn["frozen"]
                if turn["dead"][agent]:
                    gone.add(agent)
                    assert turn["rewards"][agent] == 1.0
        left += len(gone)
    assert left > 3
    assert frozen > 10


def test_masks_are_where_a_world_forbids_something_and_always_in_infos() -> None:
    views, infos = handed_out("gridworld").reset(seed=1)
    assert views["agent_0"]["action_mask"].tolist() == infos["agent_0"]["action_mask"].tolist() == [1, 1, 1, 1]
    views, infos = handed_out("tag").reset(seed=1)
    assert isinstance(views["agent_0"], np.ndarray)
    assert infos["agent_0"]["action_mask"].tolist() == [1, 1, 1, 1]


def test_reset_without_a_seed_is_another_world_and_with_one_the_same() -> None:
    environment = handed_out("treasure_hunt", "rgb_array")

    def start(seed: int | None) -> bytes:
        environment.reset(seed=seed)
        return np.asarray(environment.render()).tobytes()

    first, second, third = start(5), start(None), start(None)
    assert len({first, second, third}) == 3
    assert [start(5), start(None), start(None)] == [first, second, third]


def test_views_may_differ_from_seat_to_seat() -> None:
    environment = handed_out("treasure_hunt", views=[{"seats": "1", "radius": 4, "frames": 1}])
    views, _ = environment.reset(seed=0)
    assert views["agent_0"].shape[1:] == (5, 5)
    assert views["agent_1"].shape[1:] == (9, 9)
    assert all(environment.observation_space(agent).contains(view) for agent, view in views.items())


def test_what_cannot_be_is_refused_in_one_line() -> None:
    environment = handed_out("tag")
    environment.reset(seed=0)
    with pytest.raises(ActionError, match=r"action None of agent_4 is not in 0..3"):
        environment.step({f"agent_{i}": 0 for i in range(4)})
    with pytest.raises(ActionError, match=r"action 7 of agent_0 is not in 0..3"):
        environment.step({f"agent_{i}": 7 for i in range(5)})
    with pytest.raises(ConfigError, match="render_mode: expected human, ansi or rgb_array to render, found None"):
        environment.render()
    with pytest.raises(ConfigError, match="render_mode: expected human, ansi, rgb_array or None, found 'x'"):
        handed_out("tag", "x")
    with pytest.raises(ConfigError, match="'turns' must be simultaneous"):
        handed_out("tag", turns="sequential")
    while environment.agents:
        environment.step(dict.fromkeys(environment.agents, 0))
    with pytest.raises(ActionError, match="the episode is over"):
        environment.step({})


@pytest.mark.parametrize("name", ["tag", "gridworld"])
def test_what_is_handed_out_can_be_brought_in_again(name: str) -> None:
    """Through both adapters, a world still keeps the contract, dead and frozen agents included."""
    check_environment(pettingzoo_games(lambda: TogetherWorld(handed_out(name)), copies=2), steps=120)
