"""Several agents in one world: each with a network, a learner and a memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keisei.build.games import Game
from keisei.build.learners import ppo_settings, q_settings
from keisei.build.players import policy, values
from keisei.config_agents import Agent
from keisei.config_learner import IQNConfig, PPOConfig

if TYPE_CHECKING:
    from keisei.acting import Actions, Society, ValuePolicy
    from keisei.learning.population import Failure, Population, Training
    from keisei.learning.ppo import PPO
    from keisei.learning.q_learner import QLearner
    from keisei.policy import Policy


def society(agents: Sequence[Agent], of: Game, seed: int, actions: Actions) -> Society:
    """The policies of all agents in the worlds of one block, whose lanes go through the agents world by world."""
    from keisei.acting import Society

    lanes = np.arange(len(of.group.lanes))
    each = [lanes[seat :: len(agents)] for seat in range(len(agents))]
    return Society([agent_policy(agent, of, seed, seat) for seat, agent in enumerate(agents)], each, actions)


def population(
    agents: Sequence[Agent],
    of: Game,
    *,
    seed: int,
    worlds: int,
    training: Training,
    threads: int,
    on_failure: Callable[[Failure], None],
) -> Population:
    """A learner for each agent, which has a lane in each of so many worlds."""
    from keisei.learning.population import Population

    learners = [agent_learner(agent, of, seed, seat, worlds) for seat, agent in enumerate(agents)]
    return Population(learners, training, threads=threads, on_failure=on_failure)


def agent_learner(agent: Agent, of: Game, seed: int, seat: int, worlds: int) -> PPO | QLearner:
    """The learner of one agent."""
    from keisei.learning.dqn import DQN
    from keisei.learning.iqn import IQN
    from keisei.learning.ppo import PPO

    section = agent.learner
    if isinstance(section, PPOConfig):
        return PPO(policy(agent.network, of, agent_seed(seed, seat)), ppo_settings(section, 1), agent_seed(seed, seat))
    return (IQN if isinstance(section, IQNConfig) else DQN)(
        values(agent.network, section, of, agent_seed(seed, seat)),
        of.group,
        q_settings(section, 1),
        seed=seed,
        agent=seat,
        lanes=worlds,
    )


def agent_policy(agent: Agent, of: Game, seed: int, seat: int) -> Policy | ValuePolicy:
    """The policy of one agent."""
    section, own = agent.learner, agent_seed(seed, seat)
    if isinstance(section, PPOConfig):
        return policy(agent.network, of, own)
    return values(agent.network, section, of, own)


def agent_seed(seed: int, seat: int) -> int:
    """What an agent's first weights are drawn from, and the order in which PPO sees its life."""
    return int(np.random.SeedSequence((seed, seat)).generate_state(1, np.uint64)[0] >> np.uint64(1))
