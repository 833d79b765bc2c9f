"""Environments by name, alone or in the clothes of Gymnasium and PettingZoo."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from keisei.config import ShogiEnvironmentConfig
from keisei.config_worlds import WORLDS, GridworldEnvironmentConfig
from keisei.environment import Environment
from keisei.errors import ConfigError
from keisei.sections import check

if TYPE_CHECKING:
    from keisei.adapters import GymnasiumVectorEnvironment, PettingZooAECEnvironment, PettingZooParallelEnvironment
    from keisei.opponents import Opponent


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


def _gridworld(name: str, **options: object) -> Environment:
    """A world by name; options that no section has are the world's own numbers."""
    from keisei.build.gridworlds import gridworld

    known = GridworldEnvironmentConfig.model_fields
    own = {key: value for key, value in options.items() if key not in known}
    values = {key: value for key, value in options.items() if key in known}
    numbers = values.get("numbers") or {}
    if own and isinstance(numbers, dict):
        values["numbers"] = {**numbers, **own}
    section = check(GridworldEnvironmentConfig, {"name": name, **values}, f"in keisei.make('{name}')")
    return gridworld(section, copies=section.copies, seed=section.seed, first_lane=section.first_lane)


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
) -> PettingZooAECEnvironment | PettingZooParallelEnvironment:
    """One game of the environment called `name` as PettingZoo has it: AEC for Shogi, Parallel for gridworlds."""
    if name in WORLDS:
        return _parallel(name, render_mode, seed, options)
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


def _parallel(
    name: str, render_mode: str | None, seed: int, options: Mapping[str, object]
) -> PettingZooParallelEnvironment:
    from keisei.adapters import PettingZooParallelEnvironment
    from keisei.gridworld import GridworldEnvironment, load_world
    from keisei.gridworld.onlooker import Onlooker
    from keisei.gridworld.world import all_allowed

    if options.get("turns", "simultaneous") != "simultaneous":
        raise ConfigError("'turns' must be simultaneous for PettingZoo's Parallel interface: there all decide at once")

    def look_at(built: Environment) -> Onlooker:
        assert isinstance(built, GridworldEnvironment)
        return Onlooker(built)

    file = load_world(str(options.get("world") or name))
    return PettingZooParallelEnvironment(
        lambda seed: environment(name, copies=1, seed=seed, **options),
        name=f"{file.name}_v0",
        look_at=look_at,
        masked=file.world.allowed is not all_allowed,
        render_mode=render_mode,
        seed=seed,
    )


_ENVIRONMENTS: dict[str, Callable[..., Environment]] = {
    "shogi": _shogi,
    **{name: partial(_gridworld, name) for name in WORLDS},
}
