"""Gridworlds from their section of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from keisei.config_agents import seats
from keisei.config_worlds import GridworldConfig, ViewConfig
from keisei.environment import Array, Environment, Float32
from keisei.gridworld import Encoding, GridworldEnvironment, View, load_world
from keisei.gridworld.together import TogetherEnvironment

if TYPE_CHECKING:
    from keisei.policy import Encoder

Windows = Sequence[ViewConfig]
"""What each seat sees otherwise than the environment's section says; empty: nothing."""


def gridworld(
    section: GridworldConfig, *, copies: int, seed: int, first_lane: int, windows: Windows = ()
) -> GridworldEnvironment:
    """So many copies of the world that a section describes."""
    file = load_world(section.world or section.name)
    view = _view(section, file.world.view)
    views = {seat: _view(one, view) for one in section.views for seat in seats(one.seats)}
    views |= {seat: _view(one, views.get(seat, view)) for seat, one in enumerate(windows)}
    return GridworldEnvironment(
        file,
        copies=copies,
        seed=seed,
        threads=section.threads,
        observation=section.observation,
        turns=section.turns,
        view=view,
        views=[((seat,), own) for seat, own in views.items()],
        numbers=_numbers(section),
        debug=section.debug,
        first_lane=first_lane,
    )


def gridworld_block(section: GridworldConfig, size: int, seed: int, windows: Windows, first_lane: int) -> Environment:
    """The worlds of one block, all their agents in one group."""
    built = gridworld(section, copies=size, seed=seed, first_lane=first_lane, windows=windows)
    return built if len(built.groups) == 1 else TogetherEnvironment(built)


def agents_of(section: GridworldConfig) -> int:
    """How many agents live in each world."""
    known = load_world(section.world or section.name).numbers["agents"].default
    return int(_numbers(section).get("agents", known))


def _numbers(section: GridworldConfig) -> Mapping[str, float]:
    given = {"agents": section.agents, "max_turns": section.max_turns}
    return {**section.numbers, **{name: value for name, value in given.items() if value is not None}}


# --- what networks get -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sight:
    """How what a seat sees is handed to a network, as planes or (each extra once) as one row of numbers."""

    encoding: Encoding

    def planes(self) -> tuple[Callable[[], Encoder], tuple[int, ...]]:
        """The encoder, and the shape of what it gives."""
        from keisei.policy import PlanesEncoder

        how = self.encoding
        return partial(PlanesEncoder, self.write_last, (how.size, how.size, how.planes)), how.shape

    def row(self) -> tuple[Callable[[], Encoder], tuple[int, ...]]:
        """The encoder, and the shape of what it gives."""
        from keisei.policy import RowsEncoder

        return partial(RowsEncoder, self.write_flat, self.encoding.flat), (self.encoding.flat,)

    def write_last(self, packed: Array, out: Float32) -> None:
        """Write planes, channels last, of packed rows that may be longer than this seat's own."""
        self.encoding.write_last(self._own(packed), out)

    def write_flat(self, packed: Array, out: Float32) -> None:
        """Write rows of numbers of packed rows that may be longer than this seat's own."""
        self.encoding.write_flat(self._own(packed), out)

    def _own(self, packed: Array) -> Array:
        return np.ascontiguousarray(packed[:, : self.encoding.packed_bytes])


def sights(environment: Environment) -> tuple[Sight, ...]:
    """How each seat of packed worlds sees."""
    world = environment.world if isinstance(environment, TogetherEnvironment) else environment
    assert isinstance(world, GridworldEnvironment)
    agents = len(world.seats)
    found = {
        seat: Sight(how)
        for group, how in zip(world.groups, world.encodings, strict=True)
        for seat in (group.lanes[group.lanes < agents]).tolist()
    }
    return tuple(found[seat] for seat in range(agents))


# --- views -----------------------------------------------------------------------------------------------------------


def _view(section: ViewConfig, otherwise: View) -> View:
    """What a section says that is seen, and for the rest what is seen otherwise."""
    view = otherwise
    if section.radius is not None:
        view = replace(view, radius=section.radius)
    if section.frames is not None:
        view = replace(view, frames=section.frames)
    if section.position is not None:
        view = replace(view, position=section.position)
    if section.inventory is not None:
        view = replace(view, inventory=section.inventory)
    if section.cells is not None:
        view = replace(view, cells=section.cells)
    return view
