"""Whether societies learn: what agents gain after a short training, beside random actions and planners.

In tag all agents together are paid the same whatever they do, so there one agent learns among others who act at random;
and as random actions earn four fifths of all there is to earn, what is compared there is how long an agent is It.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from keisei import build
from keisei.arena.living import Choose, LivingEvaluator, at_random
from keisei.bench.harness import Report, Result, Settings, round_off
from keisei.bench.machine import describe
from keisei.bench.planner import GreedyPlanner
from keisei.bench.society_runs import WORLDS, configured
from keisei.bench.tag_planner import TagPlanner
from keisei.build.gridworlds import sights
from keisei.environment import Array, Float32, Int64
from keisei.metrics import Metrics
from keisei.policy import LegalChoices
from keisei.stopping import StopRequest

_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""What 95 % of Student's distribution lie within, by the number of seeds."""

_MEAN, _FIRST, _TURNS = "world/return", "agents/0/return", "agents/0/turns_it"
"""What counts: of all agents, and of the first one."""

Figures = Sequence[Mapping[str, float]]
"""What was told of the agents, by seed."""


@dataclass(frozen=True)
class Lives:
    """How agents of some seeds lived after their training, and how others did in their place."""

    learnt: Figures
    random: Figures
    planned: Figures  # empty where nobody plans
    seconds: float  # of a training, on average


def run(settings: Settings, worlds: Sequence[str], kinds: Sequence[str], seeds: int) -> Report:
    """Train, evaluate and compare."""
    machine = describe(os.sched_getaffinity(0))
    results: list[Result] = []
    notes: list[str] = []
    for world in worlds:
        for kind in kinds:
            found = _lives(world, kind, range(1, (seeds if world != "treasure_hunt" else 1) + 1), settings)
            results += compared(world, f"{world}_{kind}", found)
            notes.append(f"{world} {kind}: {_told(world, found)}")
    return Report("societies", machine, tuple(results), tuple(notes))


# --- living ----------------------------------------------------------------------------------------------------------


def _lives(world: str, kind: str, seeds: Sequence[int], settings: Settings) -> Lives:
    learnt, random, planned, seconds = [], [], [], 0.0
    for seed in seeds:
        settings.say(f"{world}, {kind}, seed {seed}")
        began = time.perf_counter()
        evaluator = trained(world, kind, seed)
        seconds += time.perf_counter() - began
        episodes = WORLDS[world].episodes
        learnt.append(evaluator.lived(episodes, evaluator.chooser(episodes), ""))
        random.append(evaluator.lived(episodes, at_random, ""))
        if world in _PLANNERS:
            planned.append(evaluator.lived(episodes, _PLANNERS[world](evaluator), ""))
    return Lives(learnt, random, planned, seconds / len(seeds))


def trained(world: str, kind: str, seed: int) -> LivingEvaluator:
    """Train a society to the end; gives who lets its agents live."""
    with tempfile.TemporaryDirectory() as folder:
        made = build.training(configured(world, kind, seed), Path(folder), Metrics([]), StopRequest())
        made.prepare()
        made.run()
        assert isinstance(made.parts.evaluator, LivingEvaluator)
        return made.parts.evaluator


def _all_plan(evaluator: LivingEvaluator) -> Choose:
    environment = evaluator.build_environment(1, 0)
    encoding = sights(environment)[0].encoding
    environment.close()
    return GreedyPlanner(encoding)


def first_plans(evaluator: LivingEvaluator) -> Choose:
    """The first agent of each world plans in tag, and the others act at random."""
    environment = evaluator.build_environment(1, 0)
    agents, encoding = len(environment.seats), sights(environment)[0].encoding
    environment.close()
    planner = TagPlanner(encoding)

    def choose(seen: Array, legal: LegalChoices, uniform: Float32) -> Int64:
        action = at_random(seen, legal, uniform)
        own = np.arange(0, len(seen), agents)
        action[own] = planner(seen[own], legal.of(own), uniform[own])
        return action

    return choose


_PLANNERS: Mapping[str, Callable[[LivingEvaluator], Choose]] = {"treasure_hunt": _all_plan, "tag": first_plans}


# --- comparing -------------------------------------------------------------------------------------------------------


def compared(world: str, name: str, found: Lives) -> Sequence[Result]:
    """The results of one kind of learner in a world."""
    return _COMPARED[world](name, found)


def _against_planner(name: str, found: Lives) -> Sequence[Result]:
    """The mean return beside that of planners."""
    return [_result(name, mean(_each(found.learnt)), "return", "planner", mean(_each(found.planned)))]


def _against_random(name: str, found: Lives) -> Sequence[Result]:
    """The low end of the return's interval beside random actions."""
    return [_result(name, interval(_each(found.learnt))[0], "return", "random", mean(_each(found.random)))]


def _in_tag(name: str, found: Lives) -> Sequence[Result]:
    """How seldom the first agent is It, its return, and how much of what a planner earns beyond random actions."""
    turns, least = interval(_each(found.learnt, _TURNS))[1], mean(_each(found.random, _TURNS))
    low, random = interval(_each(found.learnt, _FIRST))[0], mean(_each(found.random, _FIRST))
    gained = (mean(_each(found.learnt, _FIRST)) - random) / (mean(_each(found.planned, _FIRST)) - random)
    return [
        Result(name, round_off(turns), "turns as It", "random", round_off(least / turns), None, round_off(least)),
        _result(f"{name}_return", low, "return", "random", random),
        Result(f"{name}_gained", round_off(gained), "of the planner's gain"),
    ]


_COMPARED: Mapping[str, Callable[[str, Lives], Sequence[Result]]] = {
    "treasure_hunt": _against_planner,
    "stag_hunt": _against_random,
    "tag": _in_tag,
}


def _result(name: str, value: float, unit: str, against: str, theirs: float) -> Result:
    ratio = round_off(value / theirs) if theirs > 0 else None
    return Result(name, round_off(value), unit, against, ratio, None, round_off(theirs))


def _each(figures: Figures, figure: str = _MEAN) -> list[float]:
    return [one[figure] for one in figures]


def _told(world: str, found: Lives) -> str:
    """All intervals in one line."""
    shown = {"return": _FIRST, "turns as It": _TURNS} if world == "tag" else {"return": _MEAN}
    parts = []
    for name, figure in shown.items():
        others = {"random": found.random, "planner": found.planned}
        beside = (f"{who} {mean(_each(told, figure)):.4g}" for who, told in others.items() if told)
        parts.append(f"{name} {_with_interval(_each(found.learnt, figure))}, {', '.join(beside)}")
    return f"{'; '.join(parts)}; {found.seconds:.0f} s for each seed"


def _with_interval(values: Sequence[float]) -> str:
    low, high = interval(values)
    return (
        f"{mean(values):.4g}"
        if len(values) < 2
        else f"{mean(values):.4g} ({low:.4g} to {high:.4g}, {len(values)} seeds)"
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean; of one value, nothing is known."""
    if len(values) < 2:
        return (values[0], values[0])
    away = _T.get(len(values), 1.96) * stdev(values) / math.sqrt(len(values))
    return mean(values) - away, mean(values) + away
