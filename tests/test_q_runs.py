"""Whole runs of DQN and IQN from a configuration: the same bits again, in workers and when resumed; and they learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from keisei import build
from keisei.config import Config, load_run
from keisei.errors import ConfigError
from keisei.learning.q_learner import QLearner
from keisei.sections import check
from tiny_runs import STEPS, TIC_TAC_TOE, Sections, final_sha256, records, sha256, stop_after, training, write_config

ITERATIONS = 6
TOTAL = f"run.total_steps={ITERATIONS * STEPS}"
LEARNERS: dict[str, dict[str, object]] = {
    "dqn": {"kind": "dqn", "batch_size": 8, "memory": 40, "layer": 8, "learning_rate": 0.01},
    "iqn": {
        "kind": "iqn", "batch_size": 8, "memory": 40, "layer": 8, "learning_rate": 0.01, "quantiles": 3, "cosines": 4,
        "n_step": 2, "prioritised": True, "dueling": True, "noisy": True, "updates_per_epoch": 2,
    },
}  # fmt: skip
EVERY = pytest.mark.parametrize("kind", list(LEARNERS))
PLANES = ("network.kind=convolutional", "network.width=4")
WORKERS = ("parallel.enabled=true", "parallel.num_workers=2")


def base(kind: str) -> Sections:
    environment = {**TIC_TAC_TOE["environment"], "options": {"random_plies": 2, "move_limit": 6}}
    return {**TIC_TAC_TOE, "learner": LEARNERS[kind], "environment": environment}


@EVERY
def test_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path, kind: str) -> None:
    first = final_sha256(tmp_path / "one", TOTAL, base=base(kind))
    assert final_sha256(tmp_path / "two", TOTAL, base=base(kind)) == first
    assert final_sha256(tmp_path / "other", TOTAL, "run.seed=4", base=base(kind)) != first
    assert final_sha256(tmp_path / "planes", TOTAL, *PLANES, base=base(kind)) != first


@EVERY
@pytest.mark.parametrize("iterations", [1, 3, 5])
def test_run_stopped_and_resumed_ends_with_the_same_weights(tmp_path: Path, kind: str, iterations: int) -> None:
    through = final_sha256(tmp_path / "through", TOTAL, base=base(kind))
    with training(tmp_path / "stopped", TOTAL, base=base(kind)) as made:
        stop_after(made, iterations)
        made.run()
    with training(tmp_path / "stopped", TOTAL, base=base(kind)) as made:
        assert sha256(made.run()) == through


@EVERY
def test_workers_end_with_the_same_weights(tmp_path: Path, kind: str) -> None:
    one = final_sha256(tmp_path / "one", TOTAL, *PLANES, base=base(kind))
    assert final_sha256(tmp_path / "two", TOTAL, *PLANES, *WORKERS, base=base(kind)) == one


@EVERY
def test_run_says_how_it_learns(tmp_path: Path, kind: str) -> None:
    with training(tmp_path, TOTAL, base=base(kind)) as made:
        assert isinstance(made.parts.learner, QLearner)
        made.run()
    last = records(tmp_path)[-1]
    assert {"learn/loss", "learn/exploration", "learn/memory", "learn/gradient_norm"} <= last.keys()
    assert last["learn/exploration"] == pytest.approx(0.6 * (1 - 5e-4) ** ITERATIONS)


@EVERY
def test_every_option_of_the_learner_reaches_it(tmp_path: Path, kind: str) -> None:
    config = load_run(write_config(tmp_path, base=base(kind)))
    built = build.learner(config, build.game(config))
    assert isinstance(built, QLearner)
    section = config.learner
    assert section.kind != "ppo"
    architecture = built.network.architecture
    assert (architecture.layer, architecture.dueling, architecture.noisy) == (8, section.dueling, section.noisy)
    assert (architecture.quantiles, architecture.cosines) == ((3, 4) if kind == "iqn" else (0, 0))
    assert built.memory.action.shape == (4, 10)
    assert (built.memory.priorities is not None) == section.prioritised
    assert built.settings.steps == section.n_step


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"network": {"kind": "residual"}}, "'network.kind' must be mlp or convolutional for learner 'dqn'"),
        ({"parallel": {"v_trace": True, "async_learning": True}}, "v_trace is for learner ppo"),
        ({"learner": {"kind": "dqn", "quantiles": 3}}, "unknown key 'learner.quantiles'"),
        ({"learner": {"kind": "q"}}, "'learner.kind' in the test must be one of ppo, dqn, iqn, not 'q'"),
        ({"learner": {"kind": "iqn", "n_step": 0}}, "'learner.n_step' in the test must be a whole number from 1"),
    ],
)
def test_configuration_that_cannot_be_is_refused(values: Sections, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        built(values)


def built(values: Sections) -> object:
    config = check(Config, {**base("dqn"), **values}, "in the test")
    return build.learner(config, build.game(config))


@pytest.mark.slow
@EVERY
def test_it_learns_to_beat_random_moves(tmp_path: Path, kind: str) -> None:
    learner = {**LEARNERS[kind], "batch_size": 64, "memory": 20_000, "layer": 64, "learning_rate": 1e-3, "gamma": 1.0,
               "updates_per_epoch": 4, "exploration": 1.0, "exploration_decay": 4e-3, "final_exploration": 0.1,
               "target_rate": 0.01}  # fmt: skip
    run = {**base(kind), "learner": learner}
    overrides = [
        "run.total_steps=60000",
        "network.width=64",
        "environment.copies=16",
        "environment.options={}",
        "parallel.block_size=16",
        "evaluation={interval: 0, final_games: 400, against: [random], play: greedy, opening_plies: 1}",
    ]
    with training(tmp_path, *overrides, base=run) as made:
        made.run()
    score = records(tmp_path)[-1]["evaluate/random/score"]
    assert isinstance(score, float)
    assert score > 0.85
