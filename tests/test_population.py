"""A population learns the same looped, in chunks, stacked or over threads; no agent touches or stops another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from keisei.errors import CheckpointError, LearningError
from keisei.learning.learner import Learner
from keisei.learning.population import Failure, Population, Training
from keisei.learning.ppo import PPO
from keisei.learning.q_learner import QLearner
from keisei.rollout import Rollout
from small_learners import CASES, bits, distance, life, same, small_learner
from small_ppo import SETTINGS, linear_policy

EVERY = pytest.mark.parametrize("case", list(CASES))
WAYS: tuple[Training, ...] = (2, 3, "stacked", "threads")
AGENTS = 5
PPO_SETTINGS = replace(SETTINGS, minibatch_size=12, epochs=2)


def silent(failure: Failure) -> None:
    raise AssertionError(failure.traceback)


def alike(case: str, agents: int = AGENTS, dtype: torch.dtype = torch.float64) -> list[QLearner]:
    return [small_learner(case, agent, dtype=dtype) for agent in range(agents)]


def lives(iteration: int, agents: int = AGENTS) -> list[Rollout]:
    return [life(iteration, agent) for agent in range(agents)]


def trained(learners: Sequence[Learner], training: Training, epochs: int = 4) -> list[Mapping[str, float]]:
    population = Population(learners, training, threads=2, on_failure=silent)
    return [population.learn(lives(epoch, len(learners)), epoch, 0.1) for epoch in range(epochs)]


# --- the same, however it is computed


@EVERY
@pytest.mark.parametrize("training", WAYS)
def test_every_way_of_training_agrees_with_the_loop(case: str, training: Training) -> None:
    looped, other = alike(case), alike(case)
    reported, told = trained(looped, "looped"), trained(other, training)
    for one, two in zip(looped, other, strict=True):
        assert distance(bits(one), bits(two)) < 1e-10
    for mine, yours in zip(reported, told, strict=True):
        assert mine == pytest.approx(yours, abs=1e-10)
    fresh = alike(case)
    assert all(distance(bits(one), bits(two)) > 1e-3 for one, two in zip(looped, fresh, strict=True))


@EVERY
def test_loop_and_threads_give_the_bits_of_each_learner_alone(case: str) -> None:
    alone = alike(case, dtype=torch.float32)
    for agent, learner in enumerate(alone):
        for epoch in range(4):
            learner.learn(life(epoch, agent), epoch, 0.1)
    ways: tuple[Training, ...] = ("looped", "threads")
    for training in ways:
        together = alike(case, dtype=torch.float32)
        trained(together, training)
        assert all(same(bits(one), bits(two)) for one, two in zip(alone, together, strict=True))


def mixed() -> list[Learner]:
    ppo = [PPO(linear_policy(seed), PPO_SETTINGS, 3 + seed) for seed in range(2)]
    values = [small_learner(case, agent) for agent, case in enumerate(("dqn", "iqn", "dqn", "iqn, everything"))]
    return [values[0], ppo[0], values[1], values[2], ppo[1], values[3]]


def everything(learner: Learner) -> dict[str, Tensor]:
    return {name: one.detach().clone() for name, one in {**learner.network.state_dict(), **learner.state()[0]}.items()}


@pytest.mark.parametrize("training", WAYS)
def test_agents_of_different_kinds_learn_side_by_side(training: Training) -> None:
    one, other = mixed(), mixed()
    trained(one, "looped")
    trained(other, training)
    for mine, yours, fresh in zip(one, other, mixed(), strict=True):
        assert distance(everything(mine), everything(yours)) < 1e-10
        first = next(fresh.network.parameters())
        assert not torch.equal(next(mine.network.parameters()), first)


# --- alone where it should be


@pytest.mark.parametrize("case", ["dqn", "iqn, everything"])
@pytest.mark.parametrize("training", ["looped", 2, "stacked", "threads"])
@pytest.mark.parametrize("what", ["reward", "memory", "seed"])
def test_change_in_one_agent_changes_no_bit_of_another(case: str, training: Training, what: str) -> None:
    found = []
    for changed in (False, True):
        learners = alike(case, dtype=torch.float32)
        population = Population(learners, training, threads=2, on_failure=silent)
        population.learn(lives(0), 0, 0.1)
        if changed and what == "seed":
            learners[2].seed += 1
        if changed and what == "memory":
            learners[2].memory.reward += 1
        for epoch in (1, 2):
            rollouts = lives(epoch)
            if changed and what == "reward":
                rollouts[2].reward[:] += 1
            population.learn(rollouts, epoch, 0.1)
        found.append([bits(learner) for learner in learners])
    assert [same(*pair) for pair in zip(*found, strict=True)] == [True, True, False, True, True]


@pytest.mark.parametrize("training", ["looped", 2, "stacked", "threads"])
@pytest.mark.parametrize("agent", [1, 3])
def test_change_in_one_agent_changes_no_bit_of_one_of_another_kind(training: Training, agent: int) -> None:
    """Agents 1 and 4 learn by PPO, 3 what actions are worth."""
    found = []
    for changed in (False, True):
        learners = mixed()
        population = Population(learners, training, threads=2, on_failure=silent)
        population.learn(lives(0, 6), 0, 0.1)
        if changed:
            own = learners[agent]
            assert isinstance(own, PPO | QLearner)
            own.seed += 1
        for epoch in (1, 2):
            population.learn(lives(epoch, 6), epoch, 0.1)
        found.append([everything(learner) for learner in learners])
    assert [same(*pair) for pair in zip(*found, strict=True)] == [other != agent for other in range(6)]


@pytest.mark.parametrize("training", ["looped", "stacked", "threads"])
def test_no_two_agents_share_storage(training: Training) -> None:
    learners = mixed()
    trained(learners, training)
    owners: dict[int, int] = {}
    for agent, learner in enumerate(learners):
        tensors = [*learner.network.state_dict().values(), *learner.state()[0].values()]
        tensors += [one.grad for one in learner.network.parameters() if one.grad is not None]
        for tensor in tensors:
            if tensor.numel():
                assert owners.setdefault(tensor.untyped_storage().data_ptr(), agent) == agent
    assert len(owners) > 30


# --- saving


@pytest.mark.parametrize("training", ["looped", "stacked"])
def test_population_goes_on_from_its_state_with_the_same_bits(training: Training) -> None:
    through, fresh = mixed(), mixed()
    one = Population(through, training, on_failure=silent)
    other = Population(fresh, training, on_failure=silent)
    for epoch in range(3):
        one.learn(lives(epoch, 6), epoch, 0.1)
    tensors, facts = one.state()
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    other.network.load_state_dict(one.network.state_dict())
    other.load_state(kept, facts)
    for epoch in range(3, 5):
        assert one.learn(lives(epoch, 6), epoch, 0.1) == other.learn(lives(epoch, 6), epoch, 0.1)
    assert all(same(everything(mine), everything(yours)) for mine, yours in zip(through, fresh, strict=True))


def test_state_of_another_population_is_refused() -> None:
    population = Population(alike("dqn", 2), "looped", on_failure=silent)
    tensors, facts = Population(alike("dqn", 3), "looped", on_failure=silent).state()
    with pytest.raises(CheckpointError, match="2 agents"):
        population.load_state(tensors, facts)
    with pytest.raises(CheckpointError, match="agent 0"):
        population.load_state(tensors, {"agents": [{}, {}]})


# --- updates that fail


class Broken:
    """An encoder that fails when it is told to."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(self, seen: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
        if self.fails:
            raise RuntimeError("no light")
        return torch.from_numpy(np.ascontiguousarray(seen, np.float32))


@pytest.mark.parametrize("case", ["dqn", "iqn, everything"])
@pytest.mark.parametrize("training", ["looped", 2, "stacked", "threads"])
def test_agent_whose_update_fails_is_reported_and_the_others_go_on(case: str, training: Training) -> None:
    learners, undisturbed, told = alike(case), alike(case), list[Failure]()
    broken = Broken()
    learners[1].encode = broken
    population = Population(learners, training, threads=2, on_failure=told.append)
    other = Population(undisturbed, training, threads=2, on_failure=silent)
    for epoch in range(5):
        broken.fails = epoch in (1, 2)
        before = bits(learners[1])
        numbers = population.learn(lives(epoch), epoch, 0.1)
        other.learn(lives(epoch), epoch, 0.1)
        assert numbers["failed_updates"] == min(epoch, 2)
        if broken.fails:
            failure = told[-1]
            assert failure.text == f"the update of agent 1 in epoch {epoch + 1} failed (RuntimeError('no light'))"
            assert "no light" in failure.traceback
            assert np.array_equal(failure.rollout.reward, life(epoch, 1).reward)
            assert torch.equal(bits(learners[1])["target"], before["target"])
            assert torch.equal(failure.weights["hidden.weight"], before["hidden.weight"])
    assert len(told) == 2
    assert population.failed == [0, 2, 0, 0, 0]
    for agent in (0, 2, 3, 4):
        assert distance(bits(learners[agent]), bits(undisturbed[agent])) < 1e-10
    assert not same(bits(learners[1]), bits(undisturbed[1]))


def test_failed_update_can_be_seen_again() -> None:
    learners, told = alike("iqn, everything", 2), list[Failure]()
    broken = Broken()
    learners[1].encode = broken
    population = Population(learners, "stacked", on_failure=told.append)
    population.learn(lives(0, 2), 0, 0.1)
    broken.fails = True
    population.learn(lives(1, 2), 1, 0.1)
    fresh = small_learner("iqn, everything", 1)
    fresh.network.load_state_dict(told[0].weights)
    fresh.load_state(told[0].tensors, told[0].facts)
    fresh.encode = broken
    with pytest.raises(RuntimeError, match="no light"):
        fresh.learn(told[0].rollout, told[0].iteration, 0.1)


@pytest.mark.parametrize("training", ["looped", "stacked", "threads"])
def test_five_failures_in_a_row_end_the_learning_when_the_others_have_learnt(training: Training) -> None:
    learners, told = alike("dqn"), list[Failure]()
    broken = Broken()
    learners[3].encode = broken
    population = Population(learners, training, threads=2, on_failure=told.append)
    for epoch in range(10):
        broken.fails = epoch != 4  # four, then one that succeeds, then five
        before = bits(learners[0])
        if epoch < 9:
            population.learn(lives(epoch), epoch, 0.1)
        else:
            with pytest.raises(LearningError, match="the updates of agent 3 have failed 5 times in a row"):
                population.learn(lives(epoch), epoch, 0.1)
        assert not same(before, bits(learners[0]))
    assert len(told) == 9


def test_ppo_agent_that_fails_is_left_as_it_was() -> None:
    learners, told = mixed(), list[Failure]()
    population = Population(learners, "looped", on_failure=told.append)
    population.learn(lives(0, 6), 0, 0.1)
    ppo, calls = learners[1], 0
    assert isinstance(ppo, PPO)
    before = everything(ppo)
    encode = ppo.policy.encode

    def fails_late(seen: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("no light")
        return encode(seen)

    ppo.policy.encode = fails_late
    population.learn(lives(1, 6), 1, 0.1)
    assert calls == 3
    assert told[0].agent == 1
    assert same(before, everything(ppo))
    ppo.policy.encode = encode
    population.learn(lives(2, 6), 2, 0.1)
    assert not same(before, everything(ppo))


@pytest.mark.parametrize("training", ["looped", "stacked", "threads"])
def test_agent_that_stays_not_finite_ends_the_learning(training: Training) -> None:
    learners = alike("dqn")
    population = Population(learners, training, threads=2, on_failure=silent)
    with np.errstate(invalid="ignore"):
        for epoch in range(5):
            rollouts = lives(epoch)
            learners[2].memory.reward[:] = math.nan
            rollouts[2].reward[:] = math.nan
            if epoch < 4:
                assert population.learn(rollouts, epoch, 0.1)["skipped_updates"] == epoch + 1
            else:
                with pytest.raises(LearningError, match="5 updates of agent 2 in a row"):
                    population.learn(rollouts, epoch, 0.1)
    assert all(learner.adam_steps == 5 for agent, learner in enumerate(learners) if agent != 2)
