"""Gridworlds from their section of the configuration."""

from __future__ import annotations

from dataclasses import replace

from keisei.config import GridworldConfig, ViewConfig
from keisei.gridworld import GridworldEnvironment, View, load_world


def gridworld(section: GridworldConfig, *, copies: int, seed: int, first_lane: int) -> GridworldEnvironment:
    """So many copies of the world that a section describes."""
    file = load_world(section.world or section.name)
    numbers = dict(section.numbers)
    given = {"agents": section.agents, "max_turns": section.max_turns}
    numbers |= {name: value for name, value in given.items() if value is not None}
    view = _view(section, file.world.view)
    return GridworldEnvironment(
        file,
        copies=copies,
        seed=seed,
        threads=section.threads,
        observation=section.observation,
        turns=section.turns,
        view=view,
        views=[(_seats(one.seats), _view(one, view)) for one in section.views],
        numbers=numbers,
        debug=section.debug,
        first_lane=first_lane,
    )


def gridworld_block(section: GridworldConfig, size: int, seed: int, first_lane: int) -> GridworldEnvironment:
    """The worlds of one block."""
    return gridworld(section, copies=size, seed=seed, first_lane=first_lane)


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


def _seats(text: str) -> list[int]:
    """The seats that a text such as `0-3,5` names."""
    seats: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seats += range(int(first), int(last or first) + 1)
    return seats
