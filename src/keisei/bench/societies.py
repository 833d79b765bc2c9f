"""Whether societies learn: what agents gain after a short training, beside random actions and a greedy planner.

In tag all agents together are paid the same whatever they do, so there one agent learns among others who act at random.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from keisei import build
from keisei.arena.living import Choose, LivingEvaluator, at_random
from keisei.bench.harness import Report, Result, Settings, round_off
from keisei.bench.machine import describe
from keisei.bench.planner import GreedyPlanner
from keisei.build.gridworlds import sights
from keisei.config import Config, check_run
from keisei.metrics import Metrics
from keisei.stopping import StopRequest

EPISODES = 64
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""What 95 % of Student's distribution lie within, by the number of seeds."""

Values = Mapping[str, object]

_FROM_MEMORY: Values = {
    "batch_size": 64, "memory": 20_000, "updates_per_epoch": 16, "learning_rate": 1e-3, "target_rate": 0.01,
    "gamma": 0.95, "exploration": 1.0, "exploration_decay": 0.01, "final_exploration": 0.02, "layer": 250,
}  # fmt: skip
KINDS: Mapping[str, Values] = {
    "iqn": {"kind": "iqn", "quantiles": 12, "cosines": 64, **_FROM_MEMORY},
    "dqn": {"kind": "dqn", **_FROM_MEMORY},
    "ppo": {
        "kind": "ppo", "learning_rate": 2e-3, "final_learning_rate": 5e-4, "entropy": 0.03, "final_entropy": 0.005,
        "gamma": 0.9, "epochs": 4, "minibatch_size": 128, "value_weight": 0.01,
    },
}  # fmt: skip
_AT_RANDOM: Values = {
    "kind": "dqn", "exploration": 1.0, "exploration_decay": 0, "final_exploration": 1.0, "updates_per_epoch": 0,
    "memory": 64, "layer": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Society:
    """Who lives where, and for how long."""

    environment: Values
    steps: int  # of lanes
    reach: float  # of values
    agents: Sequence[Values] = ()
    figure: str = "world/return"  # that counts
    play: str = "greedy"
    seeds: bool = True  # whether chance counts: the low end of an interval over seeds, not a mean


WORLDS: Mapping[str, Society] = {
    "treasure_hunt": Society({"name": "treasure_hunt", "copies": 8}, 240_000, 200.0, seeds=False),
    "stag_hunt": Society({"name": "stag_hunt", "copies": 8}, 160_000, 50.0),
    "tag": Society(
        {"name": "tag", "copies": 16},
        160_000,
        200.0,
        agents=({"seats": "0"}, {"seats": "1-4", "learner": _AT_RANDOM}),
        figure="agents/0/return",
        play="sample",
    ),
}


def run(settings: Settings, worlds: Sequence[str], kinds: Sequence[str], seeds: int) -> Report:
    """Train, evaluate and compare."""
    machine = describe(os.sched_getaffinity(0))
    results: list[Result] = []
    notes: list[str] = []
    for world in worlds:
        for kind in kinds:
            found, note = _measured(world, kind, range(1, (seeds if WORLDS[world].seeds else 1) + 1), settings)
            results.append(found)
            notes.append(note)
    return Report("societies", machine, tuple(results), tuple(notes))


def _measured(world: str, kind: str, seeds: Sequence[int], settings: Settings) -> tuple[Result, str]:
    society = WORLDS[world]
    returns, seconds, reference = [], 0.0, 0.0
    for seed in seeds:
        settings.say(f"{world}, {kind}, seed {seed}")
        began = time.perf_counter()
        evaluator = trained(society, kind, seed)
        seconds += time.perf_counter() - began
        returns.append(_lived(evaluator, society, None))
        if seed == seeds[0]:
            reference = _lived(evaluator, society, _reference(world, evaluator))
    low, high = interval(returns)
    value, against = (low, "random") if society.seeds else (mean(returns), "planner")
    note = (
        f"{world} {kind}: {mean(returns):.4g} ({low:.4g} to {high:.4g} with {len(returns)} seeds), "
        f"{against} {reference:.4g}; {seconds / len(returns):.0f} s each"
    )
    ratio = round_off(value / reference) if reference > 0 else None
    return Result(f"{world}_{kind}", round_off(value), "return", against, ratio, None, round_off(reference)), note


def trained(society: Society, kind: str, seed: int) -> LivingEvaluator:
    """Train a society to the end; gives who lets its agents live."""
    with tempfile.TemporaryDirectory() as folder:
        config = configured(society, kind, seed)
        made = build.training(config, Path(folder), Metrics([]), StopRequest())
        made.prepare()
        made.run()
        assert isinstance(made.parts.evaluator, LivingEvaluator)
        return made.parts.evaluator


def configured(society: Society, kind: str, seed: int) -> Config:
    """The run of a society."""
    copies = society.environment["copies"]
    width = 128 if kind == "ppo" else 250
    values = {
        "run": {"seed": seed, "total_steps": society.steps, "checkpoint_interval": 10**6},
        "environment": society.environment,
        "network": {"kind": "mlp", "depth": 1, "width": width, "policy": "dense", "value_reach": society.reach},
        "learner": KINDS[kind],
        "agents": list(society.agents),
        "parallel": {"enabled": False, "block_size": copies},
        "evaluation": {"interval": 0, "final_games": 0, "play": society.play},
    }
    return check_run(values, "in keisei bench societies")


def _lived(evaluator: LivingEvaluator, society: Society, choose: Choose | None) -> float:
    numbers = evaluator.lived(EPISODES, choose or evaluator.chooser(EPISODES), "")
    return numbers[society.figure]


def _reference(world: str, evaluator: LivingEvaluator) -> Choose:
    """Who the agents are compared with."""
    if world != "treasure_hunt":
        return at_random
    environment = evaluator.build_environment(1, 0)
    encoding = sights(environment)[0].encoding
    environment.close()
    return GreedyPlanner(encoding)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean; of one value, nothing is known."""
    if len(values) < 2:
        return (values[0], values[0])
    away = _T.get(len(values), 1.96) * stdev(values) / math.sqrt(len(values))
    return mean(values) - away, mean(values) + away
