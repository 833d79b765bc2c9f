"""The parts of a run, put together from its configuration."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.build.collectors import collector
from keisei.build.games import Game, game, match_environment
from keisei.build.players import opponent, policy
from keisei.config import Config, as_yaml

if TYPE_CHECKING:
    from keisei.arena.evaluation import BuildOpponent, MatchEvaluator
    from keisei.learning.ppo import PPO
    from keisei.metrics import Metrics
    from keisei.policy import Policy
    from keisei.stopping import StopRequest
    from keisei.train import Training


def learner(config: Config, of: Game) -> PPO:
    """The learner of a run, with the run's first weights."""
    from keisei.learning.ppo import PPO, PPOSettings, Schedule
    from keisei.learning.trust import full_trust, v_trace

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
    trust = v_trace if config.parallel.v_trace else full_trust
    return PPO(policy(config.network, of, config.run.seed), settings, config.run.seed, trust)


def evaluator(config: Config, of: Game, learnt: Policy, run: Path, stop: StopRequest) -> MatchEvaluator:
    """Who plays matches with a run's network."""
    from keisei.arena.evaluation import MatchEvaluator

    section = config.evaluation
    names = section.against if of.duel else ()
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
    training: Training | None = None

    def tell(kind: str, text: str) -> None:
        metrics.event(training.progress.iteration if training else 0, kind, text)

    alarm = partial(tell, "alarm")

    parts = Parts(
        run=run,
        config=as_yaml(config),
        learner=learns,
        collector=collector(config, of, tell),
        evaluator=evaluator(config, of, learns.policy, run, stop),
        keeper=CheckpointKeeper(
            run, every=config.run.checkpoint_interval, keep=config.run.keep_checkpoints, alarm=alarm
        ),
        metrics=metrics,
        stop=stop,
        seats=of.seats if of.duel else (),
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
