"""`keisei bench societies`: the planner plans, and what is measured is what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import keisei
from keisei.bench import societies
from keisei.bench.harness import Settings
from keisei.bench.planner import GreedyPlanner
from keisei.bench.societies import interval, run
from keisei.environment import Float32, UInt8
from keisei.gridworld import GridworldEnvironment
from keisei.policy import LegalChoices, choices_of_mask

NOTHING, WALL, AGENT, GEM, FOOD, BONE = range(6)
UP, RIGHT, DOWN, LEFT = range(4)


def planned(*rows: list[int]) -> int:
    """What the planner does in one window."""
    encoding = GridworldEnvironment("treasure_hunt", observation="packed", debug=True).encodings[0]
    seen: UInt8 = np.zeros((1, encoding.packed_bytes), np.uint8)
    seen[0, -25:] = np.array(rows, np.uint8).ravel()
    legal: LegalChoices = choices_of_mask(np.ones((1, 4), np.bool_))
    uniform: Float32 = np.full(1, 0.75, np.float32)
    return int(GreedyPlanner(encoding)(seen, legal, uniform)[0])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(GEM, FOOD, LEFT), (FOOD, GEM, RIGHT), (NOTHING, FOOD, RIGHT), (BONE, NOTHING, UP), (GEM, BONE, LEFT)],
)
def test_planner_goes_to_what_pays_most(left: int, right: int, expected: int) -> None:
    assert planned([0] * 5, [0] * 5, [0, left, AGENT, right, 0], [0] * 5, [0] * 5) == expected


def test_planner_prefers_what_is_near_and_goes_around_what_is_in_the_way() -> None:
    assert planned([0, 0, GEM, 0, 0], [0] * 5, [0, 0, AGENT, GEM, 0], [0] * 5, [0] * 5) == RIGHT
    assert planned([0, GEM, 0, 0, 0], [0, 0, BONE, 0, 0], [0, 0, AGENT, 0, 0], [0] * 5, [0] * 5) == LEFT


def test_planner_without_anything_in_sight_turns_before_walls() -> None:
    assert planned([0] * 5, [0] * 5, [0, 0, AGENT, 0, 0], [0] * 5, [0] * 5) == UP
    assert planned([WALL] * 5, [WALL] * 5, [0, 0, AGENT, 0, 0], [0] * 5, [0] * 5) in (LEFT, RIGHT)


def test_interval_is_that_of_student() -> None:
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (low, high) == pytest.approx((3 - 1.9634, 3 + 1.9634), abs=1e-3)
    assert interval([4.0]) == (4.0, 4.0)


def test_report_compares_agents_with_random_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(societies.WORLDS["stag_hunt"], steps=600)
    environment = {**tiny.environment, "copies": 2, "max_turns": 10, "debug": True}
    monkeypatch.setattr(societies, "WORLDS", {"stag_hunt": replace(tiny, environment=environment)})
    monkeypatch.setattr(societies, "EPISODES", 4)
    said: list[str] = []
    report = run(Settings(1, 1.0, 0, said.append), ["stag_hunt"], ["dqn", "ppo"], 2)
    assert [one.name for one in report.results] == ["stag_hunt_dqn", "stag_hunt_ppo"]
    assert [one.against for one in report.results] == ["random", "random"]
    assert said[:2] == ["stag_hunt, dqn, seed 1", "stag_hunt, dqn, seed 2"]


def test_unknown_world_is_refused(tmp_path: Path) -> None:
    found = keisei(tmp_path, "bench", "societies", "--worlds", "moon")
    assert "--worlds must be of treasure_hunt, stag_hunt, tag, with commas between, not 'moon'" in found.refusal
