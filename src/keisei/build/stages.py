"""Worlds to be looked at: with agents that act at random, or with those that a run has brought up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.config_worlds import WORLDS, GridworldEnvironmentConfig
from keisei.errors import ConfigError
from keisei.sections import check, read_values

if TYPE_CHECKING:
    from keisei.gridworld.playing import Stage


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


def _file(world: str) -> str:
    if not Path(world).is_file():
        raise ConfigError(
            f"expected a run, one of the worlds {', '.join(WORLDS[:-1])}, or a world's file, not '{world}'"
        )
    return world
