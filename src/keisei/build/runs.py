"""The parts of a run, put together from its configuration."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.build.collectors import collector
from keisei.build.games import Game, game, match_environment
from keisei.build.learners import learner
from keisei.build.players import opponent
from keisei.config import Config, as_yaml

if TYPE_CHECKING:
    from keisei.arena.evaluation import BuildOpponent, MatchEvaluator
    from keisei.metrics import Metrics
    from keisei.policy import Actor
    from keisei.stopping import StopRequest
    from keisei.train import Training


def evaluator(config: Config, of: Game, learnt: Actor, run: Path, stop: StopRequest) -> MatchEvaluator:
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


def training(config: Config, run: Path, metrics: Metrics, stop: StopRequest, of: Game | None = None) -> Training:
    """A whole run, ready to begin or to be brought to where it stood; `of` is its game, unless it is built here."""
    from keisei.checkpoint import CheckpointKeeper
    from keisei.train import Parts, Plan, Training

    of = of or game(config)
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
