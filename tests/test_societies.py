"""Societies from configuration: who is made of what, and agents of every kind that live and learn in one world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from echo_world import NUMBERS, EchoWorld
from keisei.acting import Actions
from keisei.build.games import Game
from keisei.build.societies import population, society
from keisei.collect.loop import action_noise, play
from keisei.config_agents import AgentsConfig, agents, seats
from keisei.config_learner import DQNConfig, IQNConfig, LearnerConfig, PPOConfig
from keisei.config_network import NetworkConfig
from keisei.environment import Float64
from keisei.errors import ConfigError
from keisei.learning.population import Population, Training
from keisei.policy import number_encoder
from keisei.rollout import Rollout, RolloutLayout

MLP = NetworkConfig(kind="mlp", depth=1, width=16, policy="dense")
SLOW = pytest.mark.slow
COPIES, SEATS, TURNS = 4, 3, 20


# --- who is made of what


def test_seats_are_read() -> None:
    assert list(seats("0-3,7,9-9")) == [0, 1, 2, 3, 7, 9]
    with pytest.raises(ConfigError, match="expected seats such as 0-3, got '3-1'"):
        list(seats("3-1"))


def test_what_agents_leave_out_comes_from_the_top_level() -> None:
    top: LearnerConfig = IQNConfig(kind="iqn", learning_rate=0.5, quantiles=5)
    listed = [
        AgentsConfig(seats="1", learner={"learning_rate": 0.1}, network={"width": 9}),
        AgentsConfig(seats="2,4", learner={"kind": "dqn", "n_step": 3}),
        AgentsConfig(seats="3", learner={"kind": "ppo"}),
        AgentsConfig(seats="0,5"),
    ]
    made = agents(6, listed, MLP, top)
    assert [agent.learner.kind for agent in made] == ["iqn", "iqn", "dqn", "ppo", "dqn", "iqn"]
    assert made[0].learner == made[5].learner == top
    assert made[1].learner == IQNConfig(kind="iqn", learning_rate=0.1, quantiles=5)
    assert made[2].learner == DQNConfig(kind="dqn", n_step=3)  # another kind begins with its own defaults
    assert made[3].learner == PPOConfig()
    assert [agent.network.width for agent in made] == [16, 9, 16, 16, 16, 16]
    assert made[1].network.kind == "mlp"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([{"seats": "4"}], "'agents.0.seats' names seat 4, but there are 4 agents"),
        ([{"seats": "0-2"}, {"seats": "2"}], "'agents.1.seats' names seat 2, which is listed before"),
        ([{"seats": "1"}, {"seats": "0"}], "'agents' leaves out seats 2, 3, but there are 4 agents"),
        ([{"seats": "0-2"}], "'agents' leaves out seat 3, but there are 4 agents"),
        ([{"seats": "1", "learner": {"learing_rate": 1}}], "unknown key 'learner.learing_rate' in agents.0 .did you"),
        ([{"seats": "1", "network": {"width": 0}}], "'network.width' in agents.0 must be a whole number"),
        ([{"seats": "1", "learner": {"kind": "x"}}], "'learner.kind' in agents.0 must be one of ppo, dqn, iqn"),
    ],
)
def test_agents_that_cannot_be_are_refused(listed: list[dict[str, object]], expected: str) -> None:
    sections = [AgentsConfig.model_validate(one) for one in listed]
    with pytest.raises(ConfigError, match=expected):
        agents(4, sections, MLP, PPOConfig())


# --- living and learning


def echo_game(copies: int = COPIES, numbers: int = SEATS) -> Game:
    build: Callable[[int], EchoWorld] = partial(_world, copies, numbers)
    group = build(0).groups[0]
    return Game(build, group, number_encoder, (NUMBERS,), None, None, None, build(0).seats, build(0).reasons, numbers)


def _world(copies: int, numbers: int, first_lane: int) -> EchoWorld:
    return EchoWorld(copies, numbers, 5, first_lane)


def q(kind: str, **more: object) -> dict[str, object]:
    return {
        "kind": kind, "layer": 16, "batch_size": 32, "memory": 400, "learning_rate": 0.01, "updates_per_epoch": 4,
        "gamma": 0.3, "exploration": 1.0, "exploration_decay": 0.05, "target_rate": 0.05, **more,
    }  # fmt: skip


IQN: dict[str, object] = {"quantiles": 4, "cosines": 8}
KINDS: dict[str, dict[str, object]] = {
    "dqn": q("dqn"),
    "iqn": q("iqn", **IQN),
    "everything": q(
        "iqn", **IQN, n_step=2, prioritised=True, dueling=True, noisy=True, exploration_decay=0.2, updates_per_epoch=8
    ),
    "ppo": {"kind": "ppo", "learning_rate": 0.02, "minibatch_size": 40, "epochs": 4, "gamma": 0.3},
}


class Life:
    """Agents in a few worlds: they live an epoch, learn from it, and what they learnt is published."""

    def __init__(self, kinds: list[str], *, actions: Actions = "stacked", training: Training = "looped") -> None:
        listed = [AgentsConfig(seats=str(seat), learner=KINDS[kind]) for seat, kind in enumerate(kinds)]
        made_of = agents(len(kinds), listed, MLP, PPOConfig())
        self.seats = len(kinds)
        self.game = echo_game(numbers=len(kinds))
        self.world = self.game.build_environment(0)
        self.society = society(made_of, self.game, 1, actions)
        self.population: Population = population(
            made_of, self.game, seed=1, worlds=COPIES, training=training, threads=2, on_failure=_never
        )
        layout = RolloutLayout(self.game.group, TURNS, finals=True)
        self.rollout = layout.rollout(layout.allocate(1))
        self.epoch = 0

    def live(self) -> list[Rollout]:
        self.society.network.load_state_dict(self.population.network.state_dict())
        noise = action_noise(1, np.arange(self.world.lanes), self.epoch, TURNS)
        play(self.world, self.society, (), self.rollout, noise)
        return [self.rollout.of_lanes(slice(seat, None, self.seats)) for seat in range(self.seats)]

    def learn(self, epochs: int) -> None:
        for _ in range(epochs):
            self.population.learn(self.live(), self.epoch, 0.1)
            self.epoch += 1

    def right(self) -> Float64:
        """How often each agent now says what it is shown, without exploring."""
        seen = np.eye(NUMBERS, dtype=np.uint8)
        lanes = self.world.lanes
        found = np.zeros(self.seats)
        for number in range(NUMBERS):
            shown = np.repeat(seen[number][None], lanes, axis=0)
            chosen = self.society.act_greedily(shown, self.rollout.choices_at(0)).action
            found += (chosen == number).reshape(-1, self.seats).mean(0) / NUMBERS
        return found


def _never(failure: object) -> None:
    raise AssertionError(failure)


@pytest.mark.parametrize(
    "training", [pytest.param("looped", marks=SLOW), "stacked", pytest.param("threads", marks=SLOW)]
)
def test_agents_of_all_kinds_learn_in_one_world(training: Training) -> None:
    life = Life(["dqn", "ppo", "iqn", "everything", "dqn"], training=training)
    assert life.right().mean() < 0.8
    life.learn(40)
    life.live()
    assert life.right().tolist() == [1] * 5


def test_stacked_and_looped_actions_live_the_same_life() -> None:
    one, other = (Life(["dqn", "iqn", "ppo", "iqn"], actions=actions) for actions in ("stacked", "looped"))
    for life in (one, other):
        life.learn(3)
    assert np.array_equal(one.rollout.choice, other.rollout.choice)
    np.testing.assert_allclose(one.rollout.value, other.rollout.value, rtol=0, atol=1e-4)


def test_agents_begin_different_and_the_same_again() -> None:
    one, same = (Life(["dqn", "dqn"]).population.network.state_dict() for _ in range(2))
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["0.hidden.weight"], one["1.hidden.weight"])
