"""Worlds to be looked at: with agents that act at random, with those of a run, or a run's as it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.config import Config, GridworldRun, load_run
from keisei.config_worlds import WORLDS, GridworldEnvironmentConfig
from keisei.environment import Environment
from keisei.errors import ConfigError
from keisei.sections import check, read_values

if TYPE_CHECKING:
    from keisei.arena.player import Play
    from keisei.gridworld import GridworldEnvironment
    from keisei.gridworld.playing import Stage
    from keisei.spectator import Spectator


def random_stage(
    world: str, overrides: Sequence[str], *, first_world: int, copies: int, seed: int, debug: bool
) -> Stage:
    """A world by name, or one's own by its file, in which all act at random; overrides are such as `agents=4`."""
    from keisei.build.gridworlds import gridworld
    from keisei.gridworld.playing import Stage, random_choice

    given = read_values(None, overrides)
    own = {key: value for key, value in given.items() if key not in GridworldEnvironmentConfig.model_fields}
    for key, value in own.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"'{key}' on the command line must be a number, not {value!r}")
    named = {"name": world} if world in WORLDS else {"name": "gridworld", "world": _file(world)}
    values = {**{key: value for key, value in given.items() if key not in own}, **named, "numbers": own, "debug": debug}
    section = check(GridworldEnvironmentConfig, values, "on the command line")
    once = gridworld(section, copies=1, seed=seed, first_lane=0)
    agents = len(once.seats)
    built = once if (copies, first_world) == (1, 0) else None
    if built is None:
        once.close()
        built = gridworld(section, copies=copies, seed=seed, first_lane=first_world * agents)
    return Stage(built, built, random_choice(built, seed))


def learnt_stage(folder: Path, *, first_world: int, copies: int, play: Play, seed: int | None, debug: bool) -> Stage:
    """Worlds of a run, in which the agents act that a checkpoint of it holds."""
    from keisei.arena.player import NetworkOpponent
    from keisei.build.games import game
    from keisei.build.players import actor
    from keisei.checkpoint import read, restore
    from keisei.gridworld.playing import Stage

    config = load_run(folder / "config.yaml")
    if not isinstance(config, GridworldRun):
        raise ConfigError(f"expected a run of a gridworld, and {folder} is one of '{config.environment.name}'")
    own = {"block_size": copies, "inference": "worker"}
    config = config.model_copy(
        update={
            "run": config.run if seed is None else config.run.model_copy(update={"seed": seed}),
            "environment": config.environment.model_copy(update={"copies": copies, "debug": debug}),
            "parallel": config.parallel.model_copy(update=own),
        }
    )
    of = game(config)
    acts = actor(config, of)
    restore(acts.network, read(folder, groups=()).weights)
    player, built = NetworkOpponent(acts, config.run.seed, play), of.build_environment(first_world * len(of.seats))
    return Stage(built, _inside(built), lambda seen: [player(built.groups[0], seen[0])])


def spectator(config: Config) -> Spectator:
    """Who shows a run's first world while it is played; nobody for games of other kinds."""
    from keisei.build.games import world_block
    from keisei.gridworld.follower import FollowedWorld
    from keisei.small_picture import Picture
    from keisei.spectator import Spectator, WorldSpectator

    if not isinstance(config, GridworldRun):
        return Spectator()
    built = world_block(config, 1)(0)
    return WorldSpectator(FollowedWorld(built, _inside(built), Picture))


def _inside(built: Environment) -> GridworldEnvironment:
    """The world itself, where agents see differently and so it is behind something else."""
    from keisei.gridworld import GridworldEnvironment
    from keisei.gridworld.together import TogetherEnvironment

    world = built.world if isinstance(built, TogetherEnvironment) else built
    assert isinstance(world, GridworldEnvironment)
    return world


def _file(world: str) -> str:
    if not Path(world).is_file():
        raise ConfigError(
            f"expected a run, one of the worlds {', '.join(WORLDS[:-1])}, or a world's file, not '{world}'"
        )
    return world
