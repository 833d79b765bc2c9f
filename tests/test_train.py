"""The training loop at work and in trouble: real runs of milliseconds, with faults put in."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from keisei import build, failed_batch
from keisei.checkpoint import files, folder_of, latest, numbers, read
from keisei.config import load_run
from keisei.errors import CheckpointError, ConfigError, LearningError
from keisei.learning.ppo import PPO
from keisei.policy import Evaluation
from keisei.rollout import Rollout
from keisei.stopping import Stopped
from keisei.train import GROUPS, Training
from tiny_runs import STEPS, events, final_sha256, records, sha256, stop_after, training

SAVE_EACH = "run.checkpoint_interval=1"
KEEP_ALL = "run.keep_checkpoints=100"


def total(iterations: int) -> str:
    """A run of so many iterations, as an override."""
    return f"run.total_steps={iterations * STEPS}"


def learner(made: Training) -> PPO:
    found = made.parts.learner
    assert isinstance(found, PPO)
    return found


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


# --- numbers that are not finite -------------------------------------------------------------------------------------


def poison(made: Training, updates: range) -> Callable[[], None]:
    """Let the gradients of these updates (counted from now) be infinite; gives what ends it."""
    done = 0

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        nonlocal done
        done += 1
        return gradient * math.inf if done - 1 in updates else gradient

    parameter = next(made.parts.learner.network.parameters())
    return parameter.register_hook(spoil).remove  # type: ignore[no-untyped-call, no-any-return]


def is_finite(folder: Path) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in read(folder, groups=()).weights.values())


def test_update_that_is_not_finite_is_skipped_counted_and_reported(tmp_path: Path) -> None:
    with training(tmp_path, total(4)) as made:
        poison(made, range(3, 6))
        last = made.run()
    assert is_finite(last)
    assert made.progress.skipped_updates == 3
    assert records(tmp_path)[-1]["learn/skipped_updates"] == 3
    assert events(tmp_path, "alarm") == [
        "1 updates are skipped: loss or gradient not finite (1 in the whole run)",
        "2 updates are skipped: loss or gradient not finite (3 in the whole run)",
    ]


def test_five_in_a_row_take_the_run_back_to_its_last_good_checkpoint(tmp_path: Path) -> None:
    with training(tmp_path, total(9), SAVE_EACH, KEEP_ALL) as made:
        poison(made, range(10, 15))  # two to an iteration: the fifth is in the eighth one
        good = []
        original = made.parts.keeper.save

        def save(number: int, checkpoint: object) -> None:
            good.append(number)
            original(number, checkpoint)  # type: ignore[arg-type]

        made.parts.keeper.save = save  # type: ignore[method-assign]
        with pytest.raises(LearningError, match="5 updates in a row") as raised:
            made.run()
    found = latest(tmp_path, GROUPS)
    assert found.number == max(good)
    assert f"back at checkpoint {found.folder}, which costs {7 - found.number} iterations" in str(raised.value)
    assert is_finite(found.folder)
    assert made.progress.iteration == found.number
    for name, tensor in made.parts.learner.network.state_dict().items():
        assert torch.equal(tensor, found.checkpoint.weights[name])


def test_collector_never_gets_weights_that_are_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here without the learner's own protection: what it does to the weights is seen, and goes no further."""
    monkeypatch.setattr(PPO, "_step_if_finite", lambda self, *numbers: self.optimizer.step())
    with training(tmp_path, total(9), SAVE_EACH) as made:
        poison(made, range(10, 11))
        with pytest.raises(LearningError, match="the weights are not finite after iteration 6"):
            made.run()
        acting = made.parts.collector.policy.network  # type: ignore[attr-defined]
        assert all(bool(tensor.isfinite().all()) for tensor in acting.state_dict().values())
    assert is_finite(latest(tmp_path).folder)


# --- updates that fail -----------------------------------------------------------------------------------------------


class Poison(Exception):
    pass


def fail(made: Training, iterations: tuple[int, ...]) -> None:
    """Let the second minibatch of these iterations (counted from 1) raise."""
    policy, seen = learner(made).policy, dict.fromkeys(iterations, 0)
    original = policy.evaluate

    def evaluate(*arguments: Any) -> Evaluation:  # noqa: ANN401
        iteration = made.progress.iteration + 1
        if iteration in seen:
            seen[iteration] += 1
            if seen[iteration] == 2:
                raise Poison(f"iteration {iteration}")
        return original(*arguments)

    policy.evaluate = evaluate  # type: ignore[method-assign, assignment]


def test_update_that_fails_is_skipped_once(tmp_path: Path) -> None:
    with training(tmp_path, total(5)) as made:
        fail(made, (3,))
        made.run()
    assert (made.progress.iteration, made.progress.failed_updates) == (5, 1)
    (alarm,) = events(tmp_path, "alarm")
    assert alarm.startswith(
        "the update of iteration 3 failed (Poison('iteration 3')); see it again with `keisei replay"
    )
    assert records(tmp_path)[2]["run/failed_updates"] == 1


@pytest.mark.parametrize("protected", [True, False])
def test_nothing_of_an_update_that_fails_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """The run ends as one in which iteration 3 learns nothing; unless the learner is left as the error left it."""

    def skip(rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        return original(rollout, iteration, progress) if iteration != 2 else {}

    with training(tmp_path / "skipping", total(5)) as made:
        original, learner(made).learn = learner(made).learn, skip  # type: ignore[method-assign]
        skipping = sha256(made.run())
    with training(tmp_path / "failing", total(5)) as made:
        fail(made, (3,))
        if not protected:
            monkeypatch.setattr(Training, "_restore_learner", lambda self, before: None)
        assert (sha256(made.run()) == skipping) == protected


def test_second_update_that_fails_stops_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    with training(tmp_path, total(9)) as made:
        fail(made, (3, 5))
        with pytest.raises(LearningError, match=r"iteration 5.*not the first one.*stopped with checkpoint .*/00000005"):
            made.run()
    assert latest(tmp_path).number == 5
    with training(tmp_path, total(9)) as made:
        assert made.progress.failed_updates == 2
        assert made.run() == folder_of(tmp_path, 9), "the run goes on behind the batch that failed"


def test_kept_batch_is_replayed_with_its_error(tmp_path: Path) -> None:
    with training(tmp_path, total(5)) as made:
        fail(made, (3,))
        batch: list[float] = []
        original = made.parts.learner.learn

        def learn(rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
            batch[:] = rollout.value.ravel().tolist() if iteration == 2 else batch
            return original(rollout, iteration, progress)

        made.parts.learner.learn = learn  # type: ignore[method-assign]
        made.run()
    found = failed_batch.newest(tmp_path)
    assert found.number == 3
    assert "Poison: iteration 3" in str(found.checkpoint.facts["traceback"])
    assert found.checkpoint.tensors[failed_batch.BATCH]["value"].ravel().tolist() == batch
    config = load_run(tmp_path / "config.yaml")
    game = build.game(config)
    again = build.learner(config, game)
    learnt = failed_batch.replay(found, again, game.group, config.run.total_steps)
    assert learnt["updates"] == 2
    assert learnt["learning_rate"] == pytest.approx(0.01 + 2 / 5 * (1e-4 - 0.01))


def test_batch_that_cannot_be_kept_is_said_to_be_lost(tmp_path: Path) -> None:
    (tmp_path / failed_batch.FAILED).write_text("in the way")
    with training(tmp_path, total(3)) as made:
        fail(made, (2,))
        made.run()
    (alarm,) = events(tmp_path, "alarm")
    assert "its batch is lost: cannot make" in alarm


def test_game_that_fails_ends_the_run_and_closes_it(tmp_path: Path) -> None:
    closed = []
    with training(tmp_path, total(5)) as made:

        def collect(iteration: int) -> Rollout:
            raise Poison("in the game")

        made.parts.collector.collect = collect  # type: ignore[method-assign]
        made.parts.collector.close = lambda: closed.append(True)  # type: ignore[method-assign]
        with pytest.raises(Poison):
            made.run()
    assert closed


# --- disks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A disk that refuses so many files of checkpoints, for lack of space."""
    refuses = {"files": 0}
    original = files.write_file

    def write_file(path: Path, parts: Iterator[memoryview]) -> str:
        if refuses["files"]:
            refuses["files"] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(path, parts)

    monkeypatch.setattr(files, "write_file", write_file)
    return refuses


def test_disk_without_room_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda path: 5000)
    with pytest.raises(CheckpointError, match="no space for a checkpoint"), training(tmp_path):
        pass
    assert numbers(tmp_path) == []


def test_disk_that_is_full_for_a_while_is_an_alarm_and_changes_no_bit(tmp_path: Path, disk: dict[str, int]) -> None:
    through = final_sha256(tmp_path / "through", total(8))
    run = tmp_path / "run"
    with training(run, total(8), SAVE_EACH) as made:
        disk["files"] = 2
        assert sha256(made.run()) == through
    assert made.parts.keeper.statistics.failed >= 1
    assert any("No space left on device" in text and "tried again in" in text for text in events(run, "alarm"))


def test_last_checkpoint_is_tried_again(tmp_path: Path, disk: dict[str, int]) -> None:
    with training(tmp_path, total(2)) as made:
        made.pauses_seconds = (0.0, 0.0, 0.0)
        disk["files"] = 3
        assert made.run() == folder_of(tmp_path, 2)
    assert len(events(tmp_path, "alarm")) == 3


def test_disk_that_stays_full_ends_the_run_with_the_reason(tmp_path: Path, disk: dict[str, int]) -> None:
    with training(tmp_path, total(2)) as made:
        made.pauses_seconds = (0.0,)
        disk["files"] = 99
        with pytest.raises(CheckpointError, match="No space left on device"):
            made.run()
    assert numbers(tmp_path) == [0]
