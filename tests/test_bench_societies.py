"""`keisei bench societies`: the planner plans, and what is measured is what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import keisei
from keisei.bench import society_runs
from keisei.bench.harness import Settings
from keisei.bench.planner import GreedyPlanner
from keisei.bench.societies import Lives, compared, first_plans, interval, run, trained
from keisei.bench.society_runs import WORLDS, configured
from keisei.config import load_run
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


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """All societies, for a few steps of few worlds."""
    for name, society in list(WORLDS.items()):
        environment = {**society.environment, "copies": 2, "debug": True}
        steps = dict.fromkeys(society.steps, 400)
        monkeypatch.setitem(
            society_runs.WORLDS, name, replace(society, environment=environment, steps=steps, episodes=4)
        )


@pytest.mark.usefixtures("tiny")
def test_report_compares_agents_with_random_ones() -> None:
    said: list[str] = []
    report = run(Settings(1, 1.0, 0, said.append), ["stag_hunt"], ["dqn", "ppo"], 2)
    assert [one.name for one in report.results] == ["stag_hunt_dqn", "stag_hunt_ppo"]
    assert [one.against for one in report.results] == ["random", "random"]
    assert said[:2] == ["stag_hunt, dqn, seed 1", "stag_hunt, dqn, seed 2"]


@pytest.mark.usefixtures("tiny")
def test_report_of_tag_says_how_seldom_it_is_what_it_earns_and_how_much_of_a_planner_it_has() -> None:
    report = run(Settings(1, 1.0, 0, lambda text: None), ["tag"], ["dqn"], 2)
    assert [one.name for one in report.results] == ["tag_dqn", "tag_dqn_return", "tag_dqn_gained"]
    (note,) = report.notes
    assert "planner" in note
    assert "2 seeds" in note


def test_results_of_tag_are_those_of_the_intervals() -> None:
    def told(*both: tuple[float, float]) -> list[dict[str, float]]:
        return [{"agents/0/turns_it": turns, "agents/0/return": paid} for turns, paid in both]

    found = Lives(told((2, 180), (2, 180)), told((4, 160), (4, 160)), told((0, 200), (0, 200)), 1.0)
    seldom, paid, gained = compared("tag", "tag_dqn", found)
    assert (seldom.value, seldom.ratio, seldom.against_value) == (2, 2, 4)
    assert (paid.value, paid.ratio) == (180, 1.125)
    assert gained.value == 0.5


@pytest.mark.usefixtures("tiny")
def test_in_tag_the_first_agent_plans_and_the_others_act_at_random() -> None:
    evaluator = trained("tag", "dqn", 1)
    found = evaluator.lived(32, first_plans(evaluator), "")
    assert found["agents/0/return"] > 180
    assert 130 < np.mean([found[f"agents/{agent}/return"] for agent in range(1, 5)]) < 160


@pytest.mark.parametrize("world", list(WORLDS))
def test_what_is_measured_is_what_the_configuration_has(world: str) -> None:
    root = Path(__file__).parent.parent
    written, measured = load_run(root / f"configs/{world.replace('_', '-')}.yaml"), configured(world, "iqn", 1)
    assert written.learner == measured.learner
    assert written.evaluation.play == measured.evaluation.play
    assert (written.network.kind, written.network.depth) == (measured.network.kind, measured.network.depth)
    assert (written.network.width, written.environment.copies) == (measured.network.width, measured.environment.copies)


def test_unknown_world_is_refused(tmp_path: Path) -> None:
    found = keisei(tmp_path, "bench", "societies", "--worlds", "moon")
    assert "--worlds must be of treasure_hunt, stag_hunt, tag, with commas between, not 'moon'" in found.refusal
