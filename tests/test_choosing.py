"""Which way is the fastest is measured, and the measuring changes nothing of what it chooses for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
import torch

from keisei.acting import Actions, ValuePolicy
from keisei.environment import Group
from keisei.learning.choosing import _fastest, fastest_actions, fastest_training
from keisei.learning.learner import Learner
from keisei.learning.ppo import PPO
from keisei.policy import encode_numbers
from small_learners import CASES, bits, same, small_learner
from small_ppo import ACTIONS, FEATURES, SETTINGS, linear_policy
from small_values import PLAIN, small_network

GROUP = Group(np.arange(4, dtype=np.int32), (FEATURES,), np.dtype(np.float32), ACTIONS, "mask", ACTIONS)


@pytest.mark.parametrize("case", list(CASES))
def test_measuring_changes_nothing_of_the_learners(case: str) -> None:
    learners = [small_learner(case, agent) for agent in range(6)]
    before = [bits(learner) for learner in learners]
    way, seconds = fastest_training(learners, 2, GROUP)
    assert set(seconds) == {"looped", "threads", 4, "stacked"}
    assert way in seconds
    assert all(0 < number < 5 for number in seconds.values())
    assert all(same(one, bits(learner)) for one, learner in zip(before, learners, strict=True))


def test_learners_that_cannot_be_stacked_are_looped_or_in_threads() -> None:
    learners: list[Learner] = [PPO(linear_policy(seed), SETTINGS, seed) for seed in range(3)]
    before = [{name: one.clone() for name, one in learner.network.state_dict().items()} for learner in learners]
    assert fastest_training(learners, 1, GROUP) == ("looped", {})
    way, seconds = fastest_training(learners, 2, GROUP)
    assert set(seconds) == {"looped", "threads"}
    assert way in seconds
    for one, learner in zip(before, learners, strict=True):
        assert all(torch.equal(one[name], tensor) for name, tensor in learner.network.state_dict().items())


def test_way_of_acting_is_measured() -> None:
    policies = [ValuePolicy(small_network(seed=i, dtype=torch.float32), encode_numbers) for i in range(4)]
    group = Group(np.arange(8, dtype=np.int32), PLAIN.shape, np.dtype(np.float32), PLAIN.actions, "mask", 3)
    way, seconds = fastest_actions(policies, [np.arange(i, 8, 4) for i in range(4)], group)
    assert set(seconds) == set(get_args(Actions))
    assert way in seconds


@pytest.mark.parametrize(("first", "second", "best"), [(0.01, 0.03, "a"), (0.03, 0.01, "b"), (0.02, 0.02, "a")])
def test_another_way_is_chosen_where_it_takes_clearly_less_time(first: float, second: float, best: str) -> None:
    def takes(seconds: float) -> Callable[[], None]:
        return lambda: time.sleep(seconds)

    way, measured = _fastest({"a": takes(first), "b": takes(second)})
    assert way == best
    assert first <= measured["a"] < first + 0.02
