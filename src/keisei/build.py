"""From configuration to parts: the one place where a name becomes an implementation."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from keisei.config import (
    Config,
    GymnasiumGameConfig,
    NetworkConfig,
    PythonGameConfig,
    ShogiConfig,
    ShogiEnvironmentConfig,
    as_yaml,
    load_run,
)
from keisei.environment import Environment, Group, Int64
from keisei.errors import ConfigError
from keisei.sections import check

if TYPE_CHECKING:
    from torch import nn

    from keisei.adapters import GymnasiumVectorEnvironment, PettingZooAECEnvironment
    from keisei.arena.evaluation import BuildOpponent, MatchEvaluator
    from keisei.collect.collector import BuildEnvironment, Collector
    from keisei.collect.frozen import FrozenPool
    from keisei.learning.ppo import PPO
    from keisei.metrics import Metrics
    from keisei.networks import Network
    from keisei.opponents import ActionValues, Opponent
    from keisei.policy import Encoder, Policy
    from keisei.stopping import StopRequest
    from keisei.train import Training


def environment(name: str, **options: object) -> Environment:
    """The environment called `name`, built with the options of its configuration section."""
    if name not in _ENVIRONMENTS:
        close = difflib.get_close_matches(name, _ENVIRONMENTS, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else f": expected one of {', '.join(_ENVIRONMENTS)}"
        raise ConfigError(f"unknown environment '{name}'{hint}")
    return _ENVIRONMENTS[name](**options)


def _shogi(**options: object) -> Environment:
    from keisei.shogi import ShogiEnvironment

    section = check(ShogiEnvironmentConfig, options, "in keisei.make('shogi')")
    return ShogiEnvironment(**section.model_dump(exclude={"name"}))


def gymnasium(
    name: str,
    *,
    opponent: str | Opponent = "random",
    agent_seat: str = "alternate",
    seed: int = 0,
    **options: object,
) -> GymnasiumVectorEnvironment:
    """One seat of the game called `name` as a Gymnasium vector environment; `opponent` answers for the other.

    `opponent` is `random`, `greedy` or a callable; `agent_seat` a seat's name, `alternate` or `random`.
    """
    from keisei.adapters import GymnasiumVectorEnvironment

    return GymnasiumVectorEnvironment(
        lambda seed: environment(name, seed=seed, **options),
        _replies(name, opponent),
        agent_seat=agent_seat,
        seed=seed,
    )


def _replies(name: str, opponent: str | Opponent) -> Callable[[int], Opponent]:
    from keisei.opponents import GreedyOpponent, RandomOpponent
    from keisei.shogi.captures import capture_values

    if callable(opponent):
        return lambda seed: opponent
    if opponent == "random":
        return RandomOpponent
    if opponent == "greedy":
        return lambda seed: GreedyOpponent(seed, capture_values)
    raise ConfigError(f"opponent: expected 'random', 'greedy' or a callable, found {opponent!r}")


def pettingzoo(
    name: str, *, render_mode: str | None = None, seed: int = 0, **options: object
) -> PettingZooAECEnvironment:
    """One game of the environment called `name` as a PettingZoo AEC environment."""
    from keisei.adapters import PettingZooAECEnvironment
    from keisei.shogi import Board, views

    return PettingZooAECEnvironment(
        lambda seed: environment(name, copies=1, seed=seed, **options),
        name=f"{name}_v0",
        other_view=views.other_view,
        draw=lambda view, moves: str(Board(views.sfen(view, moves + 1))),
        render_mode=render_mode,
        seed=seed,
    )


_MATCH_COPIES = 100
_MATCH_LIMIT = 512
_ENVIRONMENTS: dict[str, Callable[..., Environment]] = {"shogi": _shogi}


@dataclass(frozen=True)
class PolicyCells:
    """How the cells of a convolution make up the logits of actions."""

    planes: int
    cells: int
    parts: Callable[[], Int64]  # [A, P]


@dataclass(frozen=True)
class Game:
    """What a run must know of its game."""

    build_environment: BuildEnvironment
    group: Group
    encoder: Callable[[], Encoder]
    input_shape: tuple[int, ...]  # of one observation as a network gets it
    policy_cells: PolicyCells | None
    action_values: ActionValues | None  # what greed goes by
    seats: tuple[str, ...]
    reasons: tuple[str, ...]


def game(config: Config) -> Game:
    """The game of a run, in blocks."""
    section, size, seed = config.environment, config.parallel.block_size, config.run.seed
    if isinstance(section, ShogiConfig):
        return _shogi_game(section, size, seed)
    if isinstance(section, PythonGameConfig):
        return _plain_game(partial(python_block, section, size, seed))
    return _plain_game(partial(gymnasium_block, section, size, seed))


def _shogi_game(section: ShogiConfig, size: int, seed: int) -> Game:
    from keisei.policy import PlanesEncoder, encode_numbers
    from keisei.shogi import actions, captures

    build_environment = partial(shogi_block, section, size, seed)
    first = build_environment(0)
    write = partial(actions.write_planes, move_limit=section.move_limit)
    packed = section.observation == "packed"
    return Game(
        build_environment=build_environment,
        group=first.groups[0],
        encoder=partial(PlanesEncoder, write, (9, 9, actions.PLANES)) if packed else lambda: encode_numbers,
        input_shape=(actions.PLANES, 9, 9),
        policy_cells=PolicyCells(actions.POLICY_PLANES, 81, actions.policy_parts),
        action_values=captures.capture_values,
        seats=first.seats,
        reasons=first.reasons,
    )


def _plain_game(build_environment: BuildEnvironment) -> Game:
    from keisei.policy import encode_numbers

    first = build_environment(0)
    if len(first.groups) != 1:
        raise ConfigError(f"expected a game whose lanes are all alike, found {len(first.groups)} groups of lanes")
    group = first.groups[0]
    built = Game(
        build_environment, group, lambda: encode_numbers, group.shape, None, None, tuple(first.seats), first.reasons
    )
    first.close()
    return built


def shogi_block(section: ShogiConfig, size: int, seed: int, first_lane: int) -> Environment:
    """The games of one block."""
    from keisei.shogi import ShogiEnvironment

    options = section.model_dump(exclude={"name", "copies"})
    return ShogiEnvironment(**options, copies=size, seed=seed, first_lane=first_lane)


def python_block(section: PythonGameConfig, size: int, seed: int, first_lane: int) -> Environment:
    """The games of one block of a game of one's own."""
    path = Path(section.path)
    specification = importlib.util.spec_from_file_location(f"keisei_game_{path.stem}", path)
    if specification is None or specification.loader is None or not path.is_file():
        raise ConfigError(f"'environment.path' must be a Python file, not '{path}'")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    found = getattr(module, section.cls, None)
    if found is None:
        raise ConfigError(f"there is no '{section.cls}' in {path}")
    return cast(Environment, found(copies=size, seed=seed, first_lane=first_lane, **section.options))


def gymnasium_block(section: GymnasiumGameConfig, size: int, seed: int, first_lane: int) -> Environment:
    """The copies of one block of a Gymnasium environment."""
    from keisei.adapters import GymnasiumEnvironment, gymnasium_builder

    build = gymnasium_builder(section.id, section.options)
    return GymnasiumEnvironment(build, copies=size, seed=seed, first_lane=first_lane)


def network(section: NetworkConfig, of: Game, seed: int) -> Network:
    """A network with fresh weights; the same seed gives the same."""
    import torch

    from keisei.networks import Network

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body = _body(section, of)
        policy, value = _heads(section, of, body)
        built = Network(body, policy, value)
    return built.to(memory_format=torch.channels_last) if section.kind != "mlp" else built  # type: ignore[call-overload]


def _body(section: NetworkConfig, of: Game) -> nn.Module:
    from keisei.networks import MLP, ConvolutionalTower, ResidualTower

    if section.kind == "mlp":
        return MLP(of.input_shape, [section.width] * section.depth)
    if len(of.input_shape) != 3:
        raise ConfigError(f"'network.kind' must be mlp for observations of shape {list(of.input_shape)}")
    if section.kind == "convolutional":
        return ConvolutionalTower(of.input_shape[0], section.depth, section.width)
    return ResidualTower(of.input_shape[0], section.depth, section.width, section.normalization)


def _heads(section: NetworkConfig, of: Game, body: nn.Module) -> tuple[nn.Module, nn.Module]:
    import torch

    from keisei.networks.network import ConvolutionalPolicy, DensePolicy, FlatValueHead, ValueHead

    if section.kind == "mlp":
        return DensePolicy(section.width, of.group.actions), FlatValueHead(section.width)
    cells = of.input_shape[1] * of.input_shape[2]
    value = ValueHead(section.width, cells)
    if section.policy == "dense":
        return DensePolicy(section.width * cells, of.group.actions), value
    if of.policy_cells is None:
        raise ConfigError("'network.policy' must be dense: this game does not say which cells its actions belong to")
    parts = torch.from_numpy(np.asarray(of.policy_cells.parts()))
    return ConvolutionalPolicy(section.width, of.policy_cells.planes, of.policy_cells.cells, parts), value


def policy(section: NetworkConfig, of: Game, seed: int) -> Policy:
    """A policy with a network of its own."""
    from keisei.policy import Policy

    return Policy(network(section, of, seed), of.encoder())


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
        choose_frozen=_frozen(config, of),
    )


def _frozen(config: Config, of: Game) -> FrozenPool:
    from keisei.collect.frozen import FrozenPool

    section = config.opponents
    policies = [checkpoint_policy(Path(folder)) for folder in section.checkpoints]
    if policies and len(of.seats) != 2:
        raise ConfigError("'opponents.checkpoints' needs a game of two seats")
    return FrozenPool(policies, section.share, config.run.seed, config.parallel.block_size)


def checkpoint_policy(folder: Path) -> Policy:
    """The policy of a checkpoint, built as its own configuration says."""
    from keisei.checkpoint import read, restore

    found = read(folder, groups=())
    config = load_run(folder / "config.yaml")
    built = policy(config.network, game(config), config.run.seed)
    restore(built.network, found.weights)
    return built


def evaluator(config: Config, of: Game, learnt: Policy, run: Path) -> MatchEvaluator:
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
    )


def match_environment(config: Config) -> Environment:
    """Where matches of a run's game are played: the rules of matches, and all games begin in one position."""
    section = config.environment
    if isinstance(section, ShogiConfig):
        rules = section.model_copy(update={"random_plies": 0, "openings": ("startpos",), "move_limit": _MATCH_LIMIT})
        return shogi_block(rules, _MATCH_COPIES, 0, 0)
    one_block = config.parallel.model_copy(update={"block_size": _MATCH_COPIES})
    return game(config.model_copy(update={"parallel": one_block})).build_environment(0)


def opponent(name: str, of: Game, run: Path | None = None) -> BuildOpponent:
    """An opponent by name: `random`, `greedy`, `past` (the run's oldest checkpoint), or a checkpoint's folder."""
    from keisei.opponents import GreedyOpponent, RandomOpponent

    if name == "random":
        return RandomOpponent
    if name == "greedy":
        if of.action_values is None:
            raise ConfigError("there is no greedy opponent: this game does not say what its actions are worth")
        return partial(GreedyOpponent, values=of.action_values)
    if name == "past" and run is not None:
        return partial(_oldest, run)
    return partial(_of_folder, Path(name))


def _oldest(run: Path, seed: int) -> Opponent | None:
    from keisei.checkpoint import folder_of, numbers

    there = numbers(run)
    return _of_folder(folder_of(run, there[0]), seed) if there else None


def _of_folder(folder: Path, seed: int) -> Opponent:
    from keisei.arena.player import NetworkOpponent

    return NetworkOpponent(checkpoint_policy(folder), seed + 2, "sample")


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
        evaluator=evaluator(config, of, learns.policy, run),
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
