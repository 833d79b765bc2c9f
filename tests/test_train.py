"""The training loop at work: real runs of milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from keisei import build
from keisei.arena.player import PastSelf
from keisei.checkpoint import folder_of, numbers, read
from keisei.config import load_run
from keisei.errors import CheckpointError, ConfigError
from keisei.stopping import Stopped
from keisei.train import GROUPS, Training
from tiny_runs import KEEP_ALL, SAVE_EACH, STEPS, events, records, stop_after, total, training

# --- what a run does -------------------------------------------------------------------------------------------------


def test_run_ends_with_the_iteration_that_reaches_the_budget(tmp_path: Path) -> None:
    with training(tmp_path, "run.total_steps=50") as made:
        last = made.run()
    assert made.progress.iteration == 4
    assert made.progress.steps == 4 * STEPS
    assert last == folder_of(tmp_path, 4)
    assert [record["iteration"] for record in records(tmp_path)] == [1, 2, 3, 4]


def test_checkpoints_are_written_first_in_intervals_and_last(tmp_path: Path) -> None:
    with training(tmp_path, total(7), "run.checkpoint_interval=3", KEEP_ALL) as made:
        assert numbers(tmp_path) == [0], "before anything is played there is something to go back to"
        made.run()
    assert {0, 7} <= set(numbers(tmp_path)) <= {0, 3, 6, 7}  # one may be skipped where the disk is slow


def test_records_say_what_the_views_show(tmp_path: Path) -> None:
    with training(tmp_path, total(3)) as made:
        made.run()
    last = records(tmp_path)[-1]
    for name in (
        "collect/plies_per_second",
        "collect/reason/three",
        "collect/wins/cross",
        "learn/policy_loss",
        "learn/explained_variance",
        "memory/learner",
        "time/collect",
        "time/learn",
        "run/failed_updates",
        "run/failed_saves",
    ):
        assert name in last, name
    assert (last["steps"], last["total_steps"]) == (3 * STEPS, 3 * STEPS)


def test_weights_are_published_at_the_interval_only(tmp_path: Path) -> None:
    with training(tmp_path, total(5), "parallel.model_sync_interval=2", SAVE_EACH, KEEP_ALL) as made:
        stop_after(made, 3)
        third = read(made.run(), GROUPS)
    assert made.progress.version == 2
    assert made.parts.collector.version == 2  # type: ignore[attr-defined]
    name = next(iter(third.weights))
    assert not torch.equal(third.weights[name], third.tensors["published"][name])
    with training(tmp_path, total(5), "parallel.model_sync_interval=2") as made:
        made.run()
    assert made.progress.version == 4


def test_game_without_saved_states_is_resumed_with_a_word_about_it(tmp_path: Path) -> None:
    environment = "environment={name: gymnasium, id: CartPole-v1, copies: 4}"
    with training(tmp_path, total(4), environment) as made:
        stop_after(made, 2)
        made.run()
    with training(tmp_path, total(4), environment) as made:
        assert made.run() == folder_of(tmp_path, 4)
    assert all("cannot save its state" in text for text in events(tmp_path, "mode"))
    assert len(events(tmp_path, "mode")) == 2


# --- matches ---------------------------------------------------------------------------------------------------------


class Matches:
    """An evaluator that notes when it is asked; `fault` may raise."""

    def __init__(self, fault: Callable[[int], None] = lambda iteration: None) -> None:
        self.asked: list[tuple[int, int]] = []
        self.fault = fault

    def evaluate(self, iteration: int, games: int) -> Mapping[str, float]:
        self.asked.append((iteration, games))
        self.fault(iteration)
        return {"evaluate/nobody/score": 0.5}


EVALUATION = "evaluation={interval: 2, games: 4, final_games: 10, against: [random]}"


def evaluated(folder: Path, matches: Matches, *overrides: str) -> Training:
    """A run with these matches, as it stands at its end."""
    with training(folder, total(5), EVALUATION, *overrides) as made:
        object.__setattr__(made.parts, "evaluator", matches)
        made.run()
    return made


def test_matches_are_played_in_intervals_and_at_the_end(tmp_path: Path) -> None:
    matches = Matches()
    assert evaluated(tmp_path, matches).complete
    assert matches.asked == [(2, 4), (4, 4), (5, 10)]
    scored = [record["iteration"] for record in records(tmp_path) if "evaluate/nobody/score" in record]
    assert scored == [2, 4, 5]


def test_the_past_is_the_oldest_checkpoint_that_is_kept(tmp_path: Path) -> None:
    kept_two = ("run.keep_checkpoints=2", "environment.options={}")
    with training(tmp_path, total(2), *kept_two) as made:
        made.run()
    matches = "evaluation={interval: 0, final_games: 2, against: [past], opening_plies: 2}"
    with training(tmp_path, total(4), *kept_two, matches) as made:
        made.run()
    assert numbers(tmp_path) == [2, 4]
    assert [record.get("evaluate/past/iteration") for record in records(tmp_path)] == [None] * 4 + [2]
    past = build.opponent("past", build.game(load_run(tmp_path / "config.yaml")), tmp_path)(0)
    assert isinstance(past, PastSelf)
    weights = past.policy.network.state_dict()
    oldest, newest = (read(folder_of(tmp_path, number)).weights for number in numbers(tmp_path))
    assert all(torch.equal(tensor, oldest[name]) for name, tensor in weights.items())
    assert any(not torch.equal(tensor, newest[name]) for name, tensor in weights.items())


def test_matches_left_undone_are_played_when_the_run_goes_on(tmp_path: Path) -> None:
    def stopped(iteration: int) -> None:
        made_stop.ask("the test")
        raise Stopped

    first = Matches(stopped)
    with training(tmp_path, total(5), EVALUATION) as made:
        made_stop = made.parts.stop
        object.__setattr__(made.parts, "evaluator", first)
        assert made.run() == folder_of(tmp_path, 2)
    second = Matches()
    evaluated(tmp_path, second)
    assert first.asked + second.asked == [(2, 4), (2, 4), (4, 4), (5, 10)]


def test_run_stopped_in_its_last_matches_is_not_complete(tmp_path: Path) -> None:
    def stopped(iteration: int) -> None:
        if iteration == 5:
            raise Stopped

    assert not evaluated(tmp_path, Matches(stopped)).complete
    again = Matches()
    assert evaluated(tmp_path, again).complete
    assert again.asked == [(5, 10)]
    assert evaluated(tmp_path, Matches()).parts.evaluator.asked == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [CheckpointError, ConfigError])
def test_matches_that_cannot_be_played_are_an_alarm(tmp_path: Path, error: type[Exception]) -> None:
    def refuse(iteration: int) -> None:
        raise error("the reason")

    assert evaluated(tmp_path, Matches(refuse)).complete
    assert events(tmp_path, "alarm") == ["the evaluation is left out: the reason"] * 3
