"""Several agents in one world: each with a network, a learner and a memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from keisei.build.games import Game, agents_of_run
from keisei.build.learners import ppo_settings, q_settings
from keisei.build.players import policy, values
from keisei.config import SocietyRun
from keisei.config_agents import Agent
from keisei.config_learner import IQNConfig, PPOConfig

if TYPE_CHECKING:
    from keisei.acting import Actions, Society, ValuePolicy
    from keisei.collect.blocks import BlockRules
    from keisei.learning.learner import Learner
    from keisei.learning.population import Failure, Population, Training
    from keisei.learning.ppo import PPO
    from keisei.learning.q_learner import QLearner
    from keisei.learning.society import SocietyLearner
    from keisei.learning.trust import Trust
    from keisei.policy import Policy

S = TypeVar("S", bound=SocietyRun)

MEASURED = ("parallel_actions", "parallel_training")
"""Keys of `parallel` that may be `auto`, and change bits: what was measured is written into the resolved config."""


# --- those of a run --------------------------------------------------------------------------------------------------


def society_actor(config: SocietyRun, of: Game) -> Society:
    """The policies of a run's agents, for the lanes of the game as they are."""
    actions = config.parallel.parallel_actions
    assert actions != "auto", "it is resolved before anything is built"
    return society(agents_of_run(config, len(of.seats)), of, config.run.seed, actions)


def society_rules(rules: BlockRules, config: SocietyRun, of: Game) -> BlockRules:
    """What playing a run's blocks needs, where a rollout is as many epochs as are learnt from at once."""
    epochs = config.parallel.train_interval
    return replace(
        rules,
        build_policy=partial(society_actor, config, acting_game(config, of)),
        steps=epochs * rules.steps,
        games=None if rules.games is None else epochs * rules.games,
        finals=any(not isinstance(agent.learner, PPOConfig) for agent in agents_of_run(config, len(of.seats))),
    )


def society_learner(config: SocietyRun, of: Game) -> SocietyLearner:
    """The learners of a run's agents as one."""
    from keisei.learning.society import SocietyLearner

    training = config.parallel.parallel_training
    assert training != "auto", "it is resolved before anything is built"
    learners = [run_agent_learner(config, of, seat) for seat in range(len(of.seats))]
    return SocietyLearner(learners, training, threads=config.parallel.learner_threads)


def run_agent_learner(config: SocietyRun, of: Game, seat: int) -> PPO | QLearner:
    """The learner of one agent of a run."""
    from keisei.learning.trust import full_trust, v_trace

    return agent_learner(
        agents_of_run(config, len(of.seats))[seat],
        of,
        config.run.seed,
        seat,
        config.environment.copies,
        epochs=config.parallel.train_interval,
        trust=v_trace if config.parallel.v_trace else full_trust,
    )


def resolved(config: S, of: Game, tell: Callable[[str, str], None]) -> S:
    """The same run without `auto` where it would change bits: what is the fastest here is measured, and told."""
    chosen: dict[str, object] = {}
    if config.parallel.parallel_actions == "auto":
        chosen["parallel_actions"] = _fastest_actions(config, of, tell)
    if config.parallel.parallel_training == "auto":
        chosen["parallel_training"] = _fastest_training(config, of, tell)
    _tell_who_is_alone(config, of, tell)
    measured = tuple(name for name in MEASURED if name in chosen or name in config.parallel.measured)
    parallel = config.parallel.model_copy(update={**chosen, "measured": measured})
    return config.model_copy(update={"parallel": parallel})


def _tell_who_is_alone(config: SocietyRun, of: Game, tell: Callable[[str, str], None]) -> None:
    """Stacks are of networks of action values; who learns by PPO is computed one by one, whatever is asked for."""
    asked = [getattr(config.parallel, name) for name in ("parallel_actions", "parallel_training")]
    agents = agents_of_run(config, len(of.seats))
    alone = [str(seat) for seat, agent in enumerate(agents) if isinstance(agent.learner, PPOConfig)]
    if alone and any(way not in ("auto", "looped", "threads") for way in asked):
        tell("mode", f"agents that learn by PPO ({', '.join(alone)}) act and learn one by one: only others are stacked")


def _fastest_actions(config: SocietyRun, of: Game, tell: Callable[[str, str], None]) -> Actions:
    from keisei.learning.choosing import fastest_actions

    of = acting_game(config, of)
    agents, lanes = agents_of_run(config, len(of.seats)), np.arange(len(of.group.lanes))
    policies = [agent_policy(agent, of, config.run.seed, seat) for seat, agent in enumerate(agents)]
    each = [lanes[seat :: len(agents)] for seat in range(len(agents))]
    way, seconds = fastest_actions(policies, each, of.group)
    tell("mode", f"parallel_actions: {_told(way, seconds)}")
    return way


def _fastest_training(config: SocietyRun, of: Game, tell: Callable[[str, str], None]) -> Training:
    from keisei.learning.choosing import fastest_training

    learners = [run_agent_learner(config, of, seat) for seat in range(len(of.seats))]
    group = replace(of.group, lanes=np.arange(config.environment.copies, dtype=np.int32), legal="mask")
    way, seconds = fastest_training(learners, config.parallel.learner_threads, group)
    tell("mode", f"parallel_training: {_told(way, seconds)}")
    return way


def _told(way: object, seconds: Mapping[Actions, float] | Mapping[Training, float]) -> str:
    found = ", ".join(f"{one} {1e3 * took:.3g} ms" for one, took in seconds.items())
    return f"{way}" + (f", measured: {found}" if found else ", nothing else is possible")


def evaluated_society(config: SocietyRun, learner: SocietyLearner, copies: int) -> Society:
    """The policies of the agents that learn, themselves, in so many worlds."""
    from keisei.acting import Society
    from keisei.learning.ppo import PPO
    from keisei.learning.q_learner import QLearner

    actions = config.parallel.parallel_actions
    assert actions != "auto", "it is resolved before anything is built"
    policies = [one.policy for one in learner.population.learners if isinstance(one, (PPO, QLearner))]
    lanes = np.arange(copies * len(policies))
    return Society(policies, [lanes[seat :: len(policies)] for seat in range(len(policies))], actions)


def acting_game(config: SocietyRun, of: Game) -> Game:
    """The game in the batches in which its policies act: blocks, or all of them where this process acts for all."""
    section = config.parallel
    return of.in_blocks(config.environment.copies // section.block_size) if section.inference == "learner" else of


# --- agents ----------------------------------------------------------------------------------------------------------


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

    learners: list[Learner] = [agent_learner(agent, of, seed, seat, worlds) for seat, agent in enumerate(agents)]
    return Population(learners, training, threads=threads, on_failure=on_failure)


def agent_learner(
    agent: Agent, of: Game, seed: int, seat: int, worlds: int, *, epochs: int = 1, trust: Trust | None = None
) -> PPO | QLearner:
    """The learner of one agent, whose rollouts are of so many epochs."""
    from keisei.learning.dqn import DQN
    from keisei.learning.iqn import IQN
    from keisei.learning.ppo import PPO
    from keisei.learning.trust import full_trust

    section, own, of = agent.learner, agent_seed(seed, seat), of.seat(seat, agent.network)
    if isinstance(section, PPOConfig):
        return PPO(policy(agent.network, of, own), ppo_settings(section, 1), own, trust or full_trust)
    settings = q_settings(section, 1)
    return (IQN if isinstance(section, IQNConfig) else DQN)(
        values(agent.network, section, of, own, agent.device),
        of.group,
        replace(settings, exploration_decay=1 - (1 - settings.exploration_decay) ** epochs),
        seed=seed,
        agent=seat,
        lanes=worlds,
    )


def agent_policy(agent: Agent, of: Game, seed: int, seat: int) -> Policy | ValuePolicy:
    """The policy of one agent."""
    section, own, of = agent.learner, agent_seed(seed, seat), of.seat(seat, agent.network)
    if isinstance(section, PPOConfig):
        return policy(agent.network, of, own)
    return values(agent.network, section, of, own, agent.device)


def agent_seed(seed: int, seat: int) -> int:
    """What an agent's first weights are drawn from, and the order in which PPO sees its life."""
    return int(np.random.SeedSequence((seed, seat)).generate_state(1, np.uint64)[0] >> np.uint64(1))
