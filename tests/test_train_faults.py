"""The training loop in trouble: real runs of milliseconds, with faults put in."""

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
from keisei.errors import CheckpointError, LearningError
from keisei.learning import ppo
from keisei.learning.population import Failure
from keisei.learning.ppo import PPO
from keisei.learning.updating import OneLearner
from keisei.policy import Evaluation
from keisei.rollout import Rollout
from keisei.train import GROUPS, Training
from tiny_runs import KEEP_ALL, SAVE_EACH, events, final_sha256, records, sha256, total, training


def learner(made: Training) -> PPO:
    found = made.parts.learner
    assert isinstance(found, PPO)
    return found


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


def test_without_that_rule_a_run_that_learns_nothing_any_more_goes_on_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ppo, "MOST_SKIPPED_IN_A_ROW", 10**9)
    with training(tmp_path, total(9), SAVE_EACH, KEEP_ALL) as made:
        poison(made, range(10, 10**9))
        last = made.run()
    assert last == folder_of(tmp_path, 9)
    assert made.progress.skipped_updates == 2 * 4, "two to an iteration, from the sixth one on"


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
            monkeypatch.setattr(OneLearner, "_undo", lambda *_: None)
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


def test_without_giving_up_a_run_whose_updates_fail_again_and_again_goes_on_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Training._keep

    def keep_on(made: Training, failure: Failure) -> None:
        keep(made, failure)
        made._given_up = ""

    monkeypatch.setattr(Training, "_keep", keep_on)
    with training(tmp_path, total(9)) as made:
        fail(made, (3, 5, 6, 7, 8))
        assert made.run() == folder_of(tmp_path, 9)
    assert made.progress.failed_updates == 5


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
