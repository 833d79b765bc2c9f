"""What a run must know of its game, from its configuration."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from keisei.config import (
    Config,
    GridworldRun,
    GymnasiumGameConfig,
    PettingZooGameConfig,
    PythonGameConfig,
    ShogiConfig,
    SocietyRun,
)
from keisei.config_agents import Agent, agents
from keisei.config_network import NetworkConfig
from keisei.config_worlds import GridworldConfig
from keisei.environment import Environment, Group, Int64
from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.build.gridworlds import Sight
    from keisei.collect.collector import BuildEnvironment
    from keisei.device.planes import PlaneTable
    from keisei.opponents import ActionValues
    from keisei.policy import Draw, Encoder

_MATCH_COPIES = 100
_MATCH_RULES = {"random_plies": 0, "remembered_share": 0.0, "openings": ("startpos",), "move_limit": 512}


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
    draw: Draw | None  # natively from such cells, where there is a way
    action_values: ActionValues | None  # what greed goes by
    seats: tuple[str, ...]
    reasons: tuple[str, ...]
    lanes_per_copy: int
    sights: tuple[Sight, ...] = ()  # what each seat's network gets, where it is said seat by seat
    plane_table: Callable[[], PlaneTable] | None = None  # how a device writes packed observations out as planes

    @property
    def duel(self) -> bool:
        """Whether two seats take turns in each lane: then matches can be played, and frozen opponents play along."""
        return len(self.seats) == 2 and self.lanes_per_copy == 1

    def seat(self, number: int, network: NetworkConfig) -> Game:
        """The game as one seat's network sees it."""
        if not self.sights:
            return self
        sight = self.sights[number]
        encoder, shape = sight.row() if network.kind == "mlp" else sight.planes()
        return replace(self, encoder=encoder, input_shape=shape)

    def in_blocks(self, blocks: int) -> Game:
        """The game in sets of so many blocks."""
        from keisei.collect.block_set import set_group

        return replace(self, group=set_group(self.group, blocks))


def game(config: Config) -> Game:
    """The game of a run, in blocks."""
    section, size, seed = config.environment, config.parallel.block_size, config.run.seed
    if isinstance(section, ShogiConfig):
        return _shogi_game(section, size, seed)
    if isinstance(section, PythonGameConfig):
        return _plain_game(partial(python_block, section, size, seed))
    if isinstance(section, PettingZooGameConfig):
        return _plain_game(partial(pettingzoo_block, section, size, seed))
    if isinstance(section, GridworldConfig):
        assert isinstance(config, GridworldRun), "configurations of gridworlds are read by load_run"
        return _gridworld_game(config)
    return _plain_game(partial(gymnasium_block, section, size, seed))


def _shogi_game(section: ShogiConfig, size: int, seed: int) -> Game:
    from keisei.policy import PlanesEncoder, number_encoder
    from keisei.shogi import actions, captures

    build_environment = partial(shogi_block, section, size, seed)
    first = build_environment(0)
    write = partial(actions.write_planes, move_limit=section.move_limit)
    packed = section.observation == "packed"
    return Game(
        build_environment=build_environment,
        group=first.groups[0],
        encoder=partial(PlanesEncoder, write, (9, 9, actions.PLANES)) if packed else number_encoder,
        input_shape=(actions.PLANES, 9, 9),
        policy_cells=PolicyCells(actions.POLICY_PLANES, 81, actions.policy_parts),
        draw=actions.draw_actions if section.legal == "list" else None,
        action_values=captures.capture_values,
        seats=first.seats,
        reasons=first.reasons,
        lanes_per_copy=1,
        plane_table=partial(_shogi_planes, section.move_limit) if packed else None,
    )


def _shogi_planes(move_limit: int) -> PlaneTable:
    from keisei.device.planes import PlaneTable
    from keisei.shogi import actions

    full = actions.full_planes(move_limit)
    return PlaneTable(9, 9, actions.PIECE_PLANES, **asdict(full), scale=actions.SCALE[actions.PIECE_PLANES :])


def _gridworld_game(config: GridworldRun) -> Game:
    from keisei.build.gridworlds import sights

    section = config.environment
    built = _plain_game(world_block(config, config.parallel.block_size))
    if section.observation != "packed":
        return built
    first = built.build_environment(0)
    try:
        return replace(built, sights=sights(first))
    finally:
        first.close()


def world_block(config: GridworldRun, size: int) -> BuildEnvironment:
    """What builds so many worlds of a run."""
    from keisei.build.gridworlds import agents_of, gridworld_block

    count = agents_of(config.environment)
    windows = tuple(agent.window for agent in agents_of_run(config, count)) if config.agents else ()
    return partial(gridworld_block, config.environment, size, config.run.seed, windows)


def agents_of_run(config: SocietyRun, count: int) -> tuple[Agent, ...]:
    """What each of the agents of a run is made of, of whom there are so many."""
    device = "cpu" if config.device.kind == "auto" else config.device.kind
    made = agents(count, config.agents, config.network, config.learner)
    return tuple(replace(agent, device=device) for agent in made)


def _plain_game(build_environment: BuildEnvironment) -> Game:
    from keisei.policy import number_encoder

    first = build_environment(0)
    if len(first.groups) != 1:
        raise ConfigError(f"expected a game whose lanes are all alike, found {len(first.groups)} groups of lanes")
    group = first.groups[0]
    built = Game(
        build_environment=build_environment,
        group=group,
        encoder=number_encoder,
        input_shape=group.shape,
        policy_cells=None,
        draw=None,
        action_values=None,
        seats=tuple(first.seats),
        reasons=first.reasons,
        lanes_per_copy=first.lanes // first.copies,
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


def pettingzoo_block(section: PettingZooGameConfig, size: int, seed: int, first_lane: int) -> Environment:
    """The copies of one block of a PettingZoo environment."""
    from keisei.adapters import pettingzoo_builder, pettingzoo_games
    from keisei.adapters.pettingzoo_lanes import Lanes

    build = pettingzoo_builder(section.id, section.api, section.options)
    lanes: Lanes = "seat" if section.learners == "each" else section.lanes
    return pettingzoo_games(build, lanes=lanes, copies=size, seed=seed, first_lane=first_lane)


def match_environment(config: Config) -> Environment:
    """Where matches of a run's game are played: the rules of matches, and all games begin in one position."""
    section = config.environment
    if isinstance(section, ShogiConfig):
        rules = section.model_copy(update=_MATCH_RULES)
        return shogi_block(rules, _MATCH_COPIES, 0, 0)
    one_block = config.parallel.model_copy(update={"block_size": _MATCH_COPIES})
    return game(config.model_copy(update={"parallel": one_block})).build_environment(0)
