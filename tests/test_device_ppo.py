"""Learning on a device: the same updates as the plain learner's, however few rows fit in at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from keisei.build import Game
from keisei.collect.frozen import FrozenPool
from keisei.device.place import Place
from keisei.device.ppo import DevicePPO
from keisei.device.rows import DeviceRows, Minibatch
from keisei.errors import LearningError
from keisei.learning.ppo import PPO, PPOSettings, Schedule
from keisei.rollout import Rollout
from small_device import CPU, PLACES, device_policy
from small_ppo import SETTINGS
from small_shogi import MOST_MOVES, small_collector, small_game, small_policy

LANES = 8
PPO_SETTINGS = replace(SETTINGS, minibatch_size=64, gradient_norm=1.0, learning_rate=Schedule(1e-3, 1e-3))


def game(**options: object) -> Game:
    return small_game(block_size=LANES, **{"random_plies": 5, "move_limit": 9, **options})


def lived(of: Game, *, frozen: bool = False) -> Rollout:
    """A rollout of two blocks, in which frozen opponents may play a part."""
    policy = small_policy(game=of)
    pool = FrozenPool([small_policy(seed=4, game=of)], 1.0 if frozen else 0.0, 3, LANES)
    return small_collector(of, policy, blocks=2, steps=16, choose_frozen=pool).collect(0)


def learners(
    of: Game, settings: PPOSettings, place: Place = CPU, *, micro_batch: int | None = None
) -> tuple[PPO, DevicePPO]:
    there = device_policy(game=of, place=place, rows=LANES)
    return PPO(small_policy(game=of), settings, 5), DevicePPO(there, settings, 5, micro_batch=micro_batch)


def compare(plain: PPO, there: DevicePPO, tolerance: float = 2e-5) -> None:
    mine = plain.network.state_dict()
    for name, tensor in there.network.state_dict().items():
        assert torch.allclose(tensor.cpu(), mine[name], atol=tolerance, rtol=0), name


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("options", [{}, {"legal": "mask"}, {"openings": (MOST_MOVES, "startpos"), "random_plies": 0}])
@pytest.mark.parametrize("frozen", [False, True])
def test_learner_on_a_device_moves_the_weights_as_the_plain_one(
    place: Place, options: dict[str, object], frozen: bool
) -> None:
    of = game(**options)
    rollout = lived(of, frozen=frozen)
    settings = replace(PPO_SETTINGS, minibatch_size=-(-int(rollout.acted.sum()) // 2))
    plain, there = learners(of, settings, place)
    before = {name: tensor.clone() for name, tensor in plain.network.state_dict().items()}
    expected, found = plain.learn(rollout, 0, 0.5), there.learn(rollout, 0, 0.5)
    compare(plain, there, 2e-5 if place.name == "cpu" else 2e-3)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in plain.network.state_dict().items())
    for name in ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "explained_variance"):
        assert found[name] == pytest.approx(expected[name], abs=1e-4 if place.name == "cpu" else 1e-2), name
    assert found["updates"] == expected["updates"]


def test_clipped_values_and_several_epochs_are_learnt_alike() -> None:
    of = game()
    rollout = lived(of)
    settings = replace(PPO_SETTINGS, epochs=3, value_clip=0.02, minibatch_size=128, learning_rate=Schedule(3e-3, 0))
    plain, there = learners(of, settings)
    plain.learn(rollout, 2, 0.0)
    there.learn(rollout, 2, 0.0)
    compare(plain, there, 1e-4)


@pytest.mark.parametrize("size", [1, 10, 32, 63])
def test_minibatch_in_parts_is_the_same_minibatch(size: int) -> None:
    of = game()
    rollout = lived(of)
    whole, parts = learners(of, PPO_SETTINGS)[1], learners(of, PPO_SETTINGS, micro_batch=size)[1]
    told = [learner.learn(rollout, 0, 0.0) for learner in (whole, parts)]
    for name, tensor in whole.network.state_dict().items():
        assert torch.allclose(tensor, parts.network.state_dict()[name], atol=2e-5, rtol=0), name
    assert told[0]["updates"] == told[1]["updates"]


def test_rows_that_fill_a_minibatch_up_count_for_nothing() -> None:
    of = game()
    rollout = lived(of)
    settings = replace(PPO_SETTINGS, minibatch_size=200)  # 256 rows: two minibatches of 128
    plain, there = learners(of, replace(settings, minibatch_size=128))[0], learners(of, settings)[1]
    plain.learn(rollout, 0, 0.0)
    there.learn(rollout, 0, 0.0)
    compare(plain, there)


# --- what lies on the device -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"openings": (MOST_MOVES, "startpos"), "random_plies": 0}])
def test_rollout_lies_on_the_device_as_it_was_lived(options: dict[str, object]) -> None:
    of = game(**options)
    rollout = lived(of)
    rows = np.array([0, 3, 17, 200, 255])
    on_device = DeviceRows(rollout, np.zeros((4, 256), np.float32), torch.device("cpu"))
    minibatch, expected = on_device.minibatch(rows, 8), rollout.choices_of(rows)
    assert np.array_equal(minibatch.seen[:5].numpy(), rollout.observations_of(rows))
    assert minibatch.choice[:5].tolist() == rollout.choice.ravel()[rows].tolist()
    assert minibatch.weight.tolist() == [1.0] * 5 + [0.0] * 3
    assert minibatch.actions is not None
    assert expected.actions is not None
    width = expected.mask.shape[1]
    assert torch.equal(minibatch.mask[:5, :width], expected.mask)
    assert not minibatch.mask[:5, width:].any()
    assert torch.equal(minibatch.actions[:5, :width][expected.mask], expected.actions[expected.mask])


# --- the first ratio -------------------------------------------------------------------------------------------------


def test_first_ratio_is_one_and_where_it_is_not_old_log_probabilities_are_made_anew() -> None:
    of = game()
    rollout = lived(of)
    near, far = learners(of, PPO_SETTINGS)[1], learners(of, PPO_SETTINGS)[1]
    found = near.learn(rollout, 0, 0.0)
    assert found["first_ratio_error"] < 1e-4
    assert found["recomputed_rollouts"] == 0
    rollout.log_probability[:] += 0.2
    shifted = far.learn(rollout, 0, 0.0)
    assert shifted["first_ratio_error"] == pytest.approx(1 - np.exp(-0.2), abs=1e-3)
    assert shifted["recomputed_rollouts"] == 1
    for name, tensor in near.network.state_dict().items():
        assert torch.allclose(tensor, far.network.state_dict()[name], atol=1e-5), name


def test_ratio_of_older_weights_is_left_as_it_is() -> None:
    of = game()
    rollout = lived(of)
    learner = DevicePPO(device_policy(game=of), PPO_SETTINGS, 5, same_weights=False)
    rollout.log_probability[:] += 0.2
    assert learner.learn(rollout, 0, 0.0)["recomputed_rollouts"] == 0


@pytest.mark.parametrize("place", [*PLACES, pytest.param(Place("cpu", bf16=True), id="cpu, bf16")])
def test_body_in_bf16_acts_and_learns_with_ratios_near_one(place: Place) -> None:
    of = game()
    place = replace(place, bf16=True)
    acting, learning = (device_policy(game=of, place=place, rows=LANES) for _ in range(2))
    rollout = small_collector(of, acting, blocks=2, steps=16).collect(0)
    told = DevicePPO(learning, PPO_SETTINGS, 5).learn(rollout, 0, 0.0)
    assert told["first_ratio_error"] <= 0.01


# --- memory ----------------------------------------------------------------------------------------------------------


class Tight(DevicePPO):
    """A learner whose device holds so many rows."""

    room = 0

    def _plain_loss(self, minibatch: Minibatch, entropy_weight: Tensor) -> tuple[Tensor, Tensor]:
        if len(minibatch.weight) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB")
        return super()._plain_loss(minibatch, entropy_weight)


def tight(of: Game, room: int, tell: Callable[[str, str], None] = lambda kind, text: None) -> Tight:
    learner = Tight(device_policy(game=of), PPO_SETTINGS, 5, tell=tell)
    learner.room = room
    return learner


def test_out_of_memory_is_answered_once_with_smaller_parts_and_said() -> None:
    of, said = game(), list[str]()
    rollout = lived(of)
    learner = tight(of, 32, lambda kind, text: said.append(f"{kind}: {text}"))
    learner.learn(rollout, 0, 0.0)
    plain = learners(of, PPO_SETTINGS)[1]
    plain.learn(rollout, 0, 0.0)
    for name, tensor in plain.network.state_dict().items():
        assert torch.allclose(tensor, learner.network.state_dict()[name], atol=2e-5), name
    assert said == ["alarm: out of memory: from here on at most 32 steps are computed at a time"]


def test_second_time_out_of_memory_ends_learning() -> None:
    of = game()
    learner = tight(of, 31)
    with pytest.raises(LearningError, match="no memory for 32 steps"):
        learner.learn(lived(of), 0, 0.0)


@pytest.mark.slow
def test_compiled_learner_agrees_with_the_plain_one() -> None:
    of = game()
    rollout = lived(of)
    settings = replace(PPO_SETTINGS, minibatch_size=128)
    plain, there = learners(of, settings, Place("cpu", compiled=True))
    plain.learn(rollout, 0, 0.0)
    told = there.learn(rollout, 0, 0.0)
    compare(plain, there, 1e-4)
    assert told["compile_seconds"] > 0


def test_state_of_either_learner_goes_on_in_the_other() -> None:
    of = game()
    rollout = lived(of)
    plain = learners(of, PPO_SETTINGS)[0]
    there = DevicePPO(device_policy(game=of), PPO_SETTINGS, 5, same_weights=False)
    plain.learn(rollout, 0, 0.0)
    there.network.load_state_dict(plain.network.state_dict())
    there.load_state(*plain.state())
    plain.learn(rollout, 1, 0.5)
    there.learn(rollout, 1, 0.5)
    compare(plain, there, 5e-4)
