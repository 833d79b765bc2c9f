"""The parts of a run, put together from its configuration."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.build.games import Game, game, match_environment
from keisei.build.players import checkpoint_policy, opponent, policy
from keisei.config import Config, as_yaml
from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.arena.evaluation import BuildOpponent, MatchEvaluator
    from keisei.collect.blocks import BlockRules
    from keisei.collect.collector import Collector
    from keisei.collect.frozen import FrozenPool
    from keisei.learning.ppo import PPO
    from keisei.metrics import Metrics
    from keisei.policy import Policy
    from keisei.stopping import StopRequest
    from keisei.train import Training


def learner(config: Config, of: Game) -> PPO:
    """The learner of a run, with the run's first weights."""
    from keisei.learning.ppo import PPO, PPOSettings, Schedule

    section = config.learner
    settings = PPOSettings(
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
        threads=config.parallel.learner_threads,
    )
    return PPO(policy(config.network, of, config.run.seed), settings, config.run.seed)


def collector(config: Config, of: Game) -> Collector:
    """Who collects a run's experience."""
    from keisei.collect.serial import SerialCollector

    return SerialCollector(
        of.build_environment,
        policy(config.network, of, config.run.seed),
        blocks=config.environment.copies // config.parallel.block_size,
        steps=config.parallel.rollout_length,
        seed=config.run.seed,
        choose_frozen=frozen_pool(config, of),
    )


def block_rules(config: Config, of: Game) -> BlockRules:
    """What playing a run's blocks needs, in whatever process."""
    from keisei.collect.blocks import BlockRules

    return BlockRules(
        build_environment=of.build_environment,
        build_policy=partial(policy, config.network, of, config.run.seed),
        build_frozen=partial(frozen_pool, config, of),
        steps=config.parallel.rollout_length,
        seed=config.run.seed,
    )


def frozen_pool(config: Config, of: Game) -> FrozenPool:
    """The frozen opponents of a run."""
    from keisei.collect.frozen import FrozenPool

    section = config.opponents
    policies = [checkpoint_policy(Path(folder)) for folder in section.checkpoints]
    if policies and len(of.seats) != 2:
        raise ConfigError("'opponents.checkpoints' needs a game of two seats")
    return FrozenPool(policies, section.share, config.run.seed, config.parallel.block_size)


def evaluator(config: Config, of: Game, learnt: Policy, run: Path, stop: StopRequest) -> MatchEvaluator:
    """Who plays matches with a run's network."""
    from keisei.arena.evaluation import MatchEvaluator

    section = config.evaluation
    names = section.against if len(of.seats) == 2 else ()
    opponents: dict[str, BuildOpponent] = {name: opponent(name, of, run) for name in names}
    return MatchEvaluator(
        policy=learnt,
        build_environment=partial(match_environment, config),
        opponents=opponents,
        play=section.play,
        opening_plies=section.opening_plies,
        seed=config.run.seed,
        stop=stop,
    )


def training(config: Config, run: Path, metrics: Metrics, stop: StopRequest) -> Training:
    """A whole run, ready to begin or to be brought to where it stood."""
    from keisei.checkpoint import CheckpointKeeper
    from keisei.train import Parts, Plan, Training

    of = game(config)
    learns = learner(config, of)
    training: Training

    def alarm(text: str) -> None:
        metrics.event(training.progress.iteration, "alarm", text)

    parts = Parts(
        run=run,
        config=as_yaml(config),
        learner=learns,
        collector=collector(config, of),
        evaluator=evaluator(config, of, learns.policy, run, stop),
        keeper=CheckpointKeeper(
            run, every=config.run.checkpoint_interval, keep=config.run.keep_checkpoints, alarm=alarm
        ),
        metrics=metrics,
        stop=stop,
        seats=of.seats,
        reasons=of.reasons,
    )
    plan = Plan(
        total_steps=config.run.total_steps,
        model_sync_interval=config.parallel.model_sync_interval,
        evaluation_interval=config.evaluation.interval,
        evaluation_games=config.evaluation.games,
        final_games=config.evaluation.final_games,
    )
    training = Training(parts, plan)
    return training
