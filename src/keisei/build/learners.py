"""Who learns in a run, from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keisei.build.devices import Tell
from keisei.build.games import Game
from keisei.build.players import device_policy, policy, values
from keisei.config import Config
from keisei.config_learner import DQNConfig, IQNConfig, PPOConfig

if TYPE_CHECKING:
    from keisei.device.ppo import DevicePPO
    from keisei.learning.ppo import PPO, PPOSettings
    from keisei.learning.q_learner import QLearner, QSettings


def learner(config: Config, of: Game, tell: Tell = lambda kind, text: None) -> PPO | QLearner:
    """The learner of a run, with the run's first weights."""
    section = config.learner
    if config.device.pipelined is True and isinstance(section, PPOConfig):
        return device_ppo(config, section, of, tell)
    return ppo(config, section, of) if isinstance(section, PPOConfig) else q_learner(config, section, of)


def ppo(config: Config, section: PPOConfig, of: Game) -> PPO:
    """A learner by proximal policy optimisation."""
    from keisei.learning.ppo import PPO
    from keisei.learning.trust import full_trust, v_trace

    learnt = policy(config.network, of, config.run.seed)
    settings = ppo_settings(section, config.parallel.learner_threads)
    return PPO(learnt, settings, config.run.seed, v_trace if config.parallel.v_trace else full_trust)


def device_ppo(config: Config, section: PPOConfig, of: Game, tell: Tell) -> DevicePPO:
    """A learner by proximal policy optimisation on the run's device."""
    from keisei.device.ppo import DevicePPO
    from keisei.learning.trust import full_trust, v_trace

    parallel, micro_batch = config.parallel, config.device.micro_batch
    return DevicePPO(
        device_policy(config, of),
        ppo_settings(section, parallel.learner_threads),
        config.run.seed,
        trust=v_trace if parallel.v_trace else full_trust,
        micro_batch=None if micro_batch == "auto" else micro_batch,
        same_weights=parallel.model_sync_interval == 1 and not parallel.async_learning,
        tell=tell,
    )


def ppo_settings(section: PPOConfig, threads: int) -> PPOSettings:
    """What can be chosen about PPO."""
    from keisei.learning.ppo import PPOSettings, Schedule

    return PPOSettings(
        learning_rate=Schedule(section.learning_rate, section.final_learning_rate),
        entropy=Schedule(section.entropy, section.final_entropy),
        gamma=section.gamma,
        lam=section.lam,
        epochs=section.epochs,
        minibatch_size=section.minibatch_size,
        clip=section.clip,
        value_clip=section.value_clip,
        value_weight=section.value_weight,
        gradient_norm=section.gradient_norm,
        target_kl=section.target_kl,
        normalize_advantages=section.normalize_advantages,
        threads=threads,
    )


def q_learner(config: Config, section: DQNConfig, of: Game) -> QLearner:
    """A learner of what actions are worth, whose memory has a ring for each lane of the run."""
    from keisei.learning.dqn import DQN
    from keisei.learning.iqn import IQN

    return (IQN if isinstance(section, IQNConfig) else DQN)(
        values(config.network, section, of, config.run.seed),
        of.group,
        q_settings(section, config.parallel.learner_threads),
        seed=config.run.seed,
        lanes=len(of.group.lanes) * (config.environment.copies // config.parallel.block_size),
    )


def q_settings(section: DQNConfig, threads: int) -> QSettings:
    """What can be chosen about learning what actions are worth."""
    from keisei.learning.q_learner import QSettings

    return QSettings(
        learning_rate=section.learning_rate,
        gamma=section.gamma,
        steps=section.n_step,
        double=section.double,
        batch_size=section.batch_size,
        memory=section.memory,
        updates=section.updates_per_epoch,
        target_rate=section.target_rate,
        exploration=section.exploration,
        exploration_decay=section.exploration_decay,
        final_exploration=section.final_exploration,
        gradient_norm=section.gradient_norm,
        threshold=section.threshold,
        priority=section.priority_exponent if section.prioritised else 0.0,
        priority_weight=section.priority_weight,
        threads=threads,
    )
