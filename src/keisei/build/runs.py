"""The parts of a run, put together from its configuration."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.build.collectors import collector, pipelined
from keisei.build.devices import settled
from keisei.build.games import Game, game, match_environment
from keisei.build.learners import learner
from keisei.build.players import opponent
from keisei.build.societies import resolved, society_learner
from keisei.config import Config, SocietyRun, as_yaml

if TYPE_CHECKING:
    from keisei.arena.evaluation import BuildOpponent, MatchEvaluator
    from keisei.arena.living import LivingEvaluator
    from keisei.environment import Environment
    from keisei.learning.learner import Learner
    from keisei.learning.society import SocietyLearner
    from keisei.learning.updating import Updating
    from keisei.metrics import Metrics
    from keisei.policy import Actor
    from keisei.spectator import Spectator
    from keisei.stopping import StopRequest
    from keisei.train import Evaluator, Plan, Training


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


def living_evaluator(config: SocietyRun, learnt: SocietyLearner, stop: StopRequest) -> LivingEvaluator:
    """Who lets a run's agents live in worlds that are none of the run's."""
    from keisei.arena.living import LivingEvaluator
    from keisei.build.societies import evaluated_society

    section, seed = config.evaluation, config.run.seed + _EVALUATED

    def build_environment(copies: int, first: int) -> Environment:
        blocks = config.parallel.model_copy(update={"block_size": copies})
        run = config.run.model_copy(update={"seed": seed % 2**64})
        of = game(config.model_copy(update={"parallel": blocks, "run": run}))
        return of.build_environment(first * len(of.seats))

    return LivingEvaluator(
        build_environment=build_environment,
        build_actor=partial(evaluated_society, config, learnt),
        play=section.play,
        compared="random" in section.against,
        seed=seed % 2**64,
        stop=stop,
    )


_EVALUATED = 0x6C697665
"""Added to the seed: the worlds of an evaluation are none in which anybody learns."""


def training(
    config: Config,
    run: Path,
    metrics: Metrics,
    stop: StopRequest,
    of: Game | None = None,
    spectator: Spectator | None = None,
) -> Training:
    """A whole run, ready to begin or to be brought to where it stood; `of` is its game, unless it is built here."""
    from keisei.checkpoint import CheckpointKeeper
    from keisei.learning.updating import ManyLearners, OneLearner
    from keisei.spectator import Spectator
    from keisei.train import Parts, Training

    training: Training | None = None

    def tell(kind: str, text: str) -> None:
        metrics.event(training.progress.iteration if training else 0, kind, text)

    settled_config = settled(config, tell, lambda candidate: pipelined(candidate, game(candidate)))
    of = of if of is not None and settled_config.environment == config.environment else game(settled_config)
    config = settled_config
    learns: Learner
    updating: Updating
    evaluates: Evaluator
    if isinstance(config, SocietyRun):
        config = resolved(config, of, tell)
        learns = society = society_learner(config, of)
        updating, evaluates = ManyLearners(society), living_evaluator(config, society, stop)
    else:
        learns = alone = learner(config, of, tell)
        updating, evaluates = OneLearner(alone), evaluator(config, of, alone.policy, run, stop)
    every, keep = config.run.checkpoint_interval, config.run.keep_checkpoints
    parts = Parts(
        run=run,
        config=as_yaml(config),
        learner=learns,
        updating=updating,
        collector=collector(config, of, tell),
        evaluator=evaluates,
        keeper=CheckpointKeeper(run, every=every, keep=keep, alarm=partial(tell, "alarm")),
        metrics=metrics,
        stop=stop,
        seats=of.seats if of.duel else (),
        reasons=of.reasons,
        agents=len(of.seats) if isinstance(config, SocietyRun) else 1,
        spectator=spectator or Spectator(),
    )
    training = Training(parts, plan(config))
    return training


def plan(config: Config) -> Plan:
    """How long a run is, and what happens how often."""
    from keisei.train import Plan

    return Plan(
        total_steps=config.run.total_steps,
        model_sync_interval=config.parallel.model_sync_interval,
        evaluation_interval=config.evaluation.interval,
        evaluation_games=config.evaluation.games,
        final_games=config.evaluation.final_games,
    )
