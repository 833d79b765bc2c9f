"""An agent's memory against a slow one: what it keeps across seams, ends and cut-offs; how it draws and is saved."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from keisei.environment import Array, LegalForm
from keisei.errors import CheckpointError
from keisei.replay import Priorities, ReplayMemory, Windows
from lived import Experience, random_experience
from slow_memory import Window, episodes, rows_of, window

GAMMA, ACTIONS, LANES = 0.9, 5, 6
FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")


def memory_of(experiences: list[Experience], steps: int, *, capacity: int = 600, priority: float = 0.0) -> ReplayMemory:
    memory = ReplayMemory(
        experiences[0].rollout.group,
        lanes=LANES,
        capacity=capacity,
        steps=steps,
        gamma=GAMMA,
        priorities=Priorities(priority) if priority else None,
    )
    for experience in experiences:
        memory.store(experience.rollout)
    return memory


def rollouts(count: int, seed: int = 0, legal: LegalForm = "mask") -> list[Experience]:
    return [random_experience(100 * seed + i, legal, steps=7) for i in range(count)]


def everything(memory: ReplayMemory) -> Windows:
    rows = np.array(sorted(memory._starts))
    return memory.windows(rows, np.ones(len(rows), np.float32))


def expected(experiences: list[Experience], steps: int, depth: int) -> dict[tuple[float, ...], Window]:
    """All windows that a memory of so many rows per lane should hold, by what is seen first."""
    found = {}
    for lane in episodes(experiences, GAMMA):
        for episode, number in rows_of(lane)[-depth:]:
            told = None if number is None else window(episode, number, steps, ACTIONS)
            if told is not None:
                found[told.seen] = told
    return found


def check(windows: Windows, told: dict[tuple[float, ...], Window]) -> None:
    assert len(windows.rows) == len(told)
    for i in range(len(windows.rows)):
        one = told[tuple(windows.seen[i].tolist())]
        assert windows.action[i] == one.action
        assert windows.reward[i] == pytest.approx(one.reward, abs=1e-5)
        assert windows.factor[i] == pytest.approx(one.factor, abs=1e-6)
        if one.next_seen:
            assert tuple(windows.next_seen[i].tolist()) == one.next_seen
            assert tuple(np.flatnonzero(windows.next_legal[i])) == one.next_legal


# --- what it keeps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_windows_are_those_of_the_slow_memory(seed: int, steps: int, form: LegalForm) -> None:
    experiences = rollouts(5, seed, form)
    told = expected(experiences, steps, 100)
    check(everything(memory_of(experiences, steps)), told)
    factors = np.array([one.factor for one in told.values()])
    assert (factors == 0).any()
    assert (factors > 0).any()
    assert (factors < 0).any()
    if steps == 3:
        assert len({round(abs(factor), 6) for factor in factors}) > 3  # windows cut short, and folded rows


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("depth", [6, 11])
def test_old_rows_make_room_for_new_ones(steps: int, depth: int) -> None:
    experiences = rollouts(8, 9)
    memory = memory_of(experiences[:1], steps, capacity=depth * LANES)
    for i in range(1, 8):
        memory.store(experiences[i].rollout)
        check(everything(memory), expected(experiences[: i + 1], steps, depth))


def test_rollout_longer_than_the_memory_leaves_its_end() -> None:
    experiences = [random_experience(3, "mask", steps=40)]
    check(everything(memory_of(experiences, 2, capacity=7 * LANES)), expected(experiences, 2, 7))


def test_window_goes_on_in_the_next_rollout() -> None:
    experiences = [random_experience(i, "mask", steps=3) for i in range(2)]
    for experience in experiences:
        rollout = experience.rollout
        rollout.acted[:], rollout.ended[:], rollout.cut_off[:], rollout.discount[:] = True, False, False, 1
    memory = memory_of(experiences[:1], 2)
    assert len(memory) == LANES  # of three decisions the first has two behind it
    memory.store(experiences[1].rollout)
    assert len(memory) == 4 * LANES
    check(everything(memory), expected(experiences, 2, 100))


def test_turn_of_others_at_the_seam_belongs_to_the_decision_before_it() -> None:
    experiences = [random_experience(i, "mask", steps=2) for i in range(2)]
    for experience in experiences:
        rollout = experience.rollout
        rollout.acted[:], rollout.ended[:], rollout.cut_off[:], rollout.discount[:] = True, False, False, 1
    experiences[1].rollout.acted[:, 0] = False
    memory = memory_of(experiences, 1)
    check(everything(memory), expected(experiences, 1, 100))
    first, second = (experience.rollout for experience in experiences)
    found = everything(memory)
    at = [tuple(row.tolist()) for row in found.seen].index(tuple(first.observation[0, 1, 0].tolist()))
    assert found.reward[at] == pytest.approx(first.reward[0, 1, 0] + GAMMA * second.reward[0, 0, 0])
    assert found.factor[at] == pytest.approx(GAMMA**2)


def test_what_is_kept_is_a_copy() -> None:
    experiences = rollouts(1)
    memory = memory_of(experiences, 1)
    before = everything(memory)
    experiences[0].rollout.observation[:] = 7
    experiences[0].rollout.reward[:] = 7
    after = everything(memory)
    assert np.array_equal(before.seen, after.seen)
    assert np.array_equal(before.reward, after.reward)


def test_observations_keep_their_type() -> None:
    experience = random_experience(0, "mask")
    assert memory_of([experience], 1).observation.dtype == np.float32


# --- how it draws


def test_every_window_is_drawn_as_often_as_any_other() -> None:
    memory = memory_of(rollouts(4), 2)
    drawn = memory.sample(200_000, np.random.default_rng(0)).rows
    counts = np.bincount(drawn, minlength=memory.action.size)
    assert set(np.flatnonzero(counts)) == set(memory._starts)
    share = counts[memory._starts] / len(drawn) * len(memory)
    assert 0.9 < share.min() <= share.max() < 1.1


def test_same_generator_draws_the_same_windows() -> None:
    for priority in (0.0, 0.6):
        memory = memory_of(rollouts(4), 2, priority=priority)
        one, same, other = (memory.sample(64, np.random.default_rng(seed)).rows for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)


@pytest.mark.parametrize("rows", [1, 2, 3, 50, 1024, 1030])
def test_rows_are_drawn_in_proportion_to_their_priorities(rows: int) -> None:
    generator = np.random.default_rng(rows)
    priorities = Priorities(0.5)
    priorities.make_room(rows)
    known = np.arange(rows) % 3 != 1
    priorities.welcome(known)
    errors = generator.exponential(size=rows)
    errors[::7] *= 100
    priorities.learn(np.flatnonzero(known), errors[known])
    drawn = np.concatenate([priorities.sample(500, generator) for _ in range(1000)])
    share = np.bincount(drawn, minlength=rows) / len(drawn)
    wanted = np.where(known, np.sqrt(errors + 1e-6), 0)
    np.testing.assert_allclose(share, wanted / wanted.sum(), rtol=0.15, atol=2e-4)
    assert (share[~known] == 0).all()


def test_importance_weights_make_up_for_priorities() -> None:
    priorities = Priorities(1.0)
    priorities.make_room(4)
    priorities.welcome(np.ones(4, np.bool_))
    priorities.learn(np.arange(4), np.array([1.0, 2.0, 4.0, 8.0]))
    np.testing.assert_allclose(priorities.weights(np.array([3, 0, 1]), 1.0), [1 / 8, 1, 1 / 2], rtol=1e-5)
    np.testing.assert_allclose(priorities.weights(np.array([3, 1]), 0.5), [0.5, 1], rtol=1e-5)
    np.testing.assert_allclose(priorities.weights(np.array([3, 1]), 0.0), [1, 1])


def test_new_rows_are_as_likely_as_the_likeliest_and_gone_ones_are_not_drawn() -> None:
    experiences = rollouts(6)
    memory = memory_of(experiences[:2], 1, capacity=8 * LANES, priority=1.0)
    assert memory.priorities is not None
    priority = memory.priorities.arrays()["priority"]
    rows = memory._starts
    memory.priorities.learn(rows, np.linspace(2, 9, len(rows)))
    before = priority.copy()
    memory.store(experiences[2].rollout)
    assert set(np.flatnonzero(priority)) == set(memory._starts)
    fresh = priority[memory._starts] != before[memory._starts]
    assert fresh.any()
    np.testing.assert_allclose(priority[memory._starts][fresh].astype(np.float64), 9, rtol=1e-6)
    for other in experiences[3:]:
        memory.store(other.rollout)
    np.testing.assert_allclose(priority[memory._starts].astype(np.float64).max(), 9, rtol=1e-6)


# --- saving


@pytest.mark.parametrize("priority", [0.0, 0.7])
def test_memory_goes_on_from_a_saved_state_with_the_same_bits(priority: float) -> None:
    experiences = rollouts(6)
    through = memory_of(experiences[:3], 3, capacity=9 * LANES, priority=priority)
    if through.priorities:
        through.priorities.learn(through._starts[::2], np.linspace(1, 2, len(through._starts[::2])))
    saved = {name: tensor.clone() for name, tensor in through.state().items()}
    fresh = memory_of(experiences[4:], 3, capacity=9 * LANES, priority=priority)
    fresh.load_state(saved)
    for experience in experiences[3:]:
        through.store(experience.rollout)
        fresh.store(experience.rollout)
        one, other = (memory.sample(32, np.random.default_rng(1), 0.5) for memory in (through, fresh))
        fields: list[tuple[Array, Array]] = [
            (one.rows, other.rows),
            (one.seen, other.seen),
            (one.reward, other.reward),
            (one.next_seen, other.next_seen),
            (one.weight, other.weight),
        ]
        assert all(np.array_equal(mine, yours) for mine, yours in fields)
    assert all(torch.equal(tensor, fresh.state()[name]) for name, tensor in through.state().items())


def test_state_of_another_memory_is_refused_and_changes_nothing() -> None:
    memory, other = memory_of(rollouts(2), 1), memory_of(rollouts(2, 5), 1, capacity=300)
    before = {name: tensor.clone() for name, tensor in memory.state().items()}
    for wrong in ({}, other.state(), {**memory.state(), "reward": torch.zeros(1)}):
        with pytest.raises(CheckpointError, match="of a memory"):
            memory.load_state(wrong)
    assert all(torch.equal(tensor, before[name]) for name, tensor in memory.state().items())
