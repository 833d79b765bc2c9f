"""Rollouts of so many games per copy: each is whole, copies that are done are idle, and the bits are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keisei.collect.blocks import BlockRules
from keisei.collect.collector import Collector
from keisei.collect.loop import Endless, Quota, action_noise, play
from keisei.collect.serial import SerialCollector
from keisei.environment import NO_SEAT, PASS, Array, Environment, Observation, Step
from keisei.errors import ContractError
from keisei.learning.advantage import advantages
from keisei.rollout import ARRAYS, Rollout, RolloutLayout
from small_ppo import SETTINGS, learner
from tiny_runs import SHOGI, TIC_TAC_TOE, Sections, final_sha256, records, sha256, stop_after, training
from workers import BLOCKS, COPIES, SEED, digest, environment, managed, network, policy, rules

GAMES = 2
RUN = ("run.total_steps=400", f"parallel.episodes_per_worker={GAMES}")


def of_games(games: int = GAMES) -> BlockRules:
    return replace(rules(), games=games)


def lived(collector: Collector, iterations: int) -> list[Rollout]:
    """Rollouts in memory of their own, without what is left of others in steps that a block did not play."""
    found = []
    for iteration in range(iterations):
        collector.publish(network("tic-tac-toe", iteration).state_dict(), iteration)
        rollout = collector.collect(iteration)
        own = Rollout(rollout.group, **{name: getattr(rollout, name).copy() for name in ARRAYS})
        for n, played in enumerate(own.valid.any(2).sum(1)):
            own.observation[n, played + 1 :] = 0
        found.append(own)
    return found


def serially(iterations: int = 4, games: int = GAMES) -> list[Rollout]:
    return lived(SerialCollector(of_games(games), blocks=BLOCKS), iterations)


@pytest.mark.parametrize("games", [1, 2, 5])
def test_every_copy_plays_exactly_so_many_games(games: int) -> None:
    for rollout in serially(games=games):
        assert (rollout.ended.sum(axis=1) == games).all()
        last = np.argmax(rollout.ended.cumsum(axis=1), axis=1)  # [N, B] the step that ended the last game
        steps = np.arange(rollout.reward.shape[1])[None, :, None]
        assert np.array_equal(rollout.valid, steps <= last[:, None])
        assert np.array_equal(rollout.acted, rollout.valid)  # nobody waits in this game
        assert rollout.steps == rollout.valid.sum() < rollout.valid.size
        assert rollout.valid[:, -1].any(), "steps are shown that nobody played"


def test_idle_rows_say_nothing_and_next_games_begin_where_these_ended() -> None:
    first, second = serially(2)
    idle = ~first.valid
    assert idle.any()
    for name in ("choice", "log_probability", "value", "reward", "ended", "cut_off", "final_value", "reason", "length"):
        assert not getattr(first, name)[idle].any(), name
    for n in range(BLOCKS):
        end = int(first.valid[n].any(1).sum())
        assert np.array_equal(first.observation[n, end], second.observation[n, 0])


def test_valid_rows_are_those_that_a_copy_lives_by_itself() -> None:
    """A rollout of steps has the same rows for as long as nobody is idle: the batch keeps its shape."""
    plain = lived(SerialCollector(rules(), blocks=BLOCKS), 1)[0]
    games = serially(1)[0]
    steps = min(plain.reward.shape[1], games.reward.shape[1])
    valid = games.valid[:, :steps]
    for name in ("choice", "log_probability", "value", "reward", "discount", "ended", "cut_off"):
        mine, theirs = getattr(games, name)[:, :steps], getattr(plain, name)[:, :steps]
        assert np.array_equal(mine[valid], theirs[valid]), name
    assert valid.sum() > BLOCKS * COPIES


class SeenPasses:
    """What lanes were told to do."""

    def __init__(self, inside: Environment) -> None:
        self.inside = inside
        self.told: list[Array] = []
        self.copies, self.lanes, self.seats, self.groups = inside.copies, inside.lanes, inside.seats, inside.groups
        self.reasons, self.state_bytes, self.reset = inside.reasons, inside.state_bytes, inside.reset
        self.observe, self.save_state, self.load_state = inside.observe, inside.save_state, inside.load_state
        self.close = inside.close

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        self.told.append(actions[0].copy())
        self.inside.step(actions, step, observation)


def test_idle_copies_pass() -> None:
    seen = SeenPasses(environment("tic-tac-toe", 0))
    layout = RolloutLayout(seen.groups[0], 100)
    rollout = layout.rollout(layout.allocate(1))
    noise = action_noise(SEED, np.arange(COPIES), 0, 100)
    played = play(seen, policy("tic-tac-toe"), (), rollout, noise, until=Quota(seen, 1))
    assert played == len(seen.told) < 100
    told = np.stack(seen.told)
    assert np.array_equal(told == PASS, ~rollout.valid[0, :played])
    assert not rollout.valid[0, played:].any()
    assert (rollout.seat[0, played + 1 :].view(np.int8) == NO_SEAT).all()


def test_games_that_are_too_long_for_their_room_are_an_error() -> None:
    one = environment("tic-tac-toe", 0)
    layout = RolloutLayout(one.groups[0], 7)
    rollout = layout.rollout(layout.allocate(1))
    quota = Quota(one, 3)
    play(one, policy("tic-tac-toe"), (), rollout, action_noise(SEED, np.arange(COPIES), 0, 7), until=quota)
    with pytest.raises(ContractError, match=r"expected 3 games of every copy within 7 steps, copy \d has ended [01]"):
        quota.check(7)
    Endless(one).check(7)


def test_advantages_end_with_the_games_and_learning_leaves_idle_rows_alone() -> None:
    rollout = serially(1)[0]
    rollout.bootstrap[:] = 1e6  # whoever looked at it would show it
    rollout.final_value[:] = np.where(rollout.cut_off, rollout.final_value, 1e6)
    found = advantages(rollout, 0.99, 0.95, np.ones(rollout.reward.shape, np.float32))
    assert (found[~rollout.valid] == 0).all()
    assert np.abs(found).max() < 10


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_live_the_same(workers: int, shared: bool) -> None:
    with managed(of_games(), workers, use_shared_memory=shared) as manager:
        found = [digest(rollout) for rollout in lived(manager, 4)]
    assert found == [digest(rollout) for rollout in serially()]


@pytest.mark.parametrize("base", [TIC_TAC_TOE, SHOGI], ids=["tic-tac-toe", "shogi"])
def test_run_of_games_ends_with_the_same_weights_whoever_collects(tmp_path: Path, base: Sections) -> None:
    here = final_sha256(tmp_path / "here", *RUN, base=base)
    workers = "parallel.enabled=true", "parallel.num_workers=2"
    assert final_sha256(tmp_path / "workers", *RUN, *workers, base=base) == here
    with training(tmp_path / "stopped", *RUN, base=base) as made:
        stop_after(made, 3)
        made.run()
    with training(tmp_path / "stopped", *RUN, base=base) as made:
        assert sha256(made.run()) == here
    games = [record["games"] for record in records(tmp_path / "here")]
    assert games == [4 * GAMES * (i + 1) for i in range(len(games))]


def test_learner_learns_from_games_of_any_length() -> None:
    rollout = serially(1)[0]
    ppo = learner(SETTINGS, policy=policy("tic-tac-toe"))
    assert ppo.learn(rollout, 0, 0.0)["updates"] == 1
