"""The same seed and configuration give the same weights, bit for bit: twice, in any order, stopped anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from keisei.checkpoint import Found
from keisei.train import Training
from tiny_runs import SHOGI, STEPS, TIC_TAC_TOE, Sections, final_sha256, sha256, stop_after, training

ITERATIONS = 6
TOTAL = f"run.total_steps={ITERATIONS * STEPS}"


@pytest.fixture(scope="module")
def opponents(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two checkpoints to play against, as an override."""
    folder = tmp_path_factory.mktemp("opponents")
    final_sha256(folder, TOTAL, "run.seed=5", "run.checkpoint_interval=3")
    return f"opponents.checkpoints=[{folder}/checkpoints/00000003, {folder}/checkpoints/00000006]"


def stopped_at(iterations: int, folder: Path, *overrides: str, base: Sections = TIC_TAC_TOE) -> str:
    """What a run ends with that was stopped after so many iterations and resumed."""
    run = folder / f"stopped-{iterations}"
    with training(run, *overrides, base=base) as made:
        if iterations == 0:
            made.parts.stop.ask("the test")
        stop_after(made, iterations)
        assert made.run().name == f"{iterations:08d}"
    with training(run, *overrides, base=base) as made:
        assert made.progress.iteration == iterations
        last = made.run()
        assert made.complete
        return sha256(last)


def stopped_at_each(folder: Path, *overrides: str, base: Sections = TIC_TAC_TOE) -> set[str]:
    """What runs end with that were stopped after 0, 1, 2, … iterations and resumed."""
    return {stopped_at(iterations, folder, *overrides, base=base) for iterations in range(ITERATIONS)}


@pytest.mark.parametrize("base", [TIC_TAC_TOE, SHOGI], ids=["tic-tac-toe", "shogi"])
def test_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path, base: Sections) -> None:
    first = final_sha256(tmp_path / "one", TOTAL, base=base)
    assert final_sha256(tmp_path / "two", TOTAL, base=base) == first
    assert final_sha256(tmp_path / "other", TOTAL, "run.seed=4", base=base) != first


@pytest.mark.parametrize("base", [TIC_TAC_TOE, SHOGI], ids=["tic-tac-toe", "shogi"])
def test_run_stopped_at_any_iteration_and_resumed_ends_with_the_same_weights(tmp_path: Path, base: Sections) -> None:
    through = final_sha256(tmp_path / "through", TOTAL, base=base)
    assert stopped_at_each(tmp_path, TOTAL, base=base) == {through}


@pytest.mark.parametrize("interval", [2, 4])
def test_run_stopped_between_two_publications_ends_with_the_same_weights(tmp_path: Path, interval: int) -> None:
    overrides = TOTAL, f"parallel.model_sync_interval={interval}"
    through = final_sha256(tmp_path / "through", *overrides)
    assert stopped_at_each(tmp_path, *overrides) == {through}
    assert final_sha256(tmp_path / "each", TOTAL) != through


def test_run_against_frozen_opponents_stopped_anywhere_ends_with_the_same_weights(
    tmp_path: Path, opponents: str
) -> None:
    through = final_sha256(tmp_path / "through", TOTAL, opponents)
    assert stopped_at_each(tmp_path, TOTAL, opponents) == {through}
    assert final_sha256(tmp_path / "alone", TOTAL) != through


def test_other_order_of_blocks_gives_the_same_weights(tmp_path: Path, opponents: str) -> None:
    played = []

    def reverse(made: Training) -> None:
        def order(blocks: int) -> list[int]:
            played.append(blocks)
            return list(reversed(range(blocks)))

        made.parts.collector.order = order  # type: ignore[attr-defined]

    overrides = TOTAL, opponents, "environment.copies=8", "opponents.share=0.6"
    one = final_sha256(tmp_path / "one", *overrides)
    assert final_sha256(tmp_path / "two", *overrides, change=reverse) == one
    assert played == [4] * (ITERATIONS // 2), "the run was not played in another order"


@pytest.mark.parametrize(
    "override",
    [
        "run.checkpoint_interval=1",
        "run.keep_checkpoints=1",
        "environment.threads=2",
        "evaluation={interval: 2, games: 2, final_games: 2, against: [random, past]}",
    ],
)
def test_keys_that_resume_takes_change_no_bit(tmp_path: Path, override: str) -> None:
    one = final_sha256(tmp_path / "one", TOTAL, base=SHOGI)
    assert final_sha256(tmp_path / "two", TOTAL, override, base=SHOGI) == one


# --- without what protects -------------------------------------------------------------------------------------------


def without_published(made: Training, found: Found) -> Found:
    tensors = {**found.checkpoint.tensors, "published": found.checkpoint.weights}
    return replace(found, checkpoint=replace(found.checkpoint, tensors=tensors))


def without_states(made: Training, found: Found) -> Found:
    tensors = {**found.checkpoint.tensors, "environment": made.parts.collector.state()}
    return replace(found, checkpoint=replace(found.checkpoint, tensors=tensors))


def without_optimizer(made: Training, found: Found) -> Found:
    return replace(found, checkpoint=replace(found.checkpoint, tensors={**found.checkpoint.tensors, "optimizer": {}}))


@pytest.mark.parametrize("forget", [without_published, without_states, without_optimizer])
def test_checkpoint_with_a_part_forgotten_ends_with_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: Callable[[Training, Found], Found]
) -> None:
    overrides = TOTAL, "parallel.model_sync_interval=2"
    through = final_sha256(tmp_path / "through", *overrides)
    original = Training.restore
    monkeypatch.setattr(Training, "restore", lambda made, found: original(made, forget(made, found)))
    assert stopped_at(3, tmp_path, *overrides) != through
