"""The configuration of gridworlds: which world, many times over, and what is seen of it."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from keisei.sections import Section

WORLDS = ("treasure_hunt", "cleanup", "tag", "stag_hunt", "iowa", "empty", "gridworld")
"""The names of a gridworld's section."""


def _as_text(value: object) -> object:
    """A number as its text: YAML reads 3 as a number, and seats are a list."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_seats(text: str) -> str:
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        raise ValueError(f"expected seats such as 0-3 or 0,2,5, got '{text}'")
    return text


Seats = Annotated[str, BeforeValidator(_as_text), AfterValidator(_as_seats)]


class ViewConfig(Section):
    """What agents see of a world; what is left out is as the world's own file says."""

    radius: int | None = Field(default=None, ge=0, le=127)
    """Of the window around the agent: it is 2·radius + 1 cells high and wide."""
    frames: int | None = Field(default=None, ge=1, le=1000)
    """This window and those of the decisions before it, so many in all."""
    position: bool | None = None
    """Where the agent stands."""
    inventory: bool | None = None
    """How many items of each kind the agent took in this episode."""
    cells: Literal["kinds", "colours"] | None = None
    """A plane for each kind of thing, or three for red, green and blue."""


class SeatsViewConfig(ViewConfig):
    """What some seats see; what is left out is as for all."""

    seats: Seats
    """Which seats, such as `0-3` or `0,2,5`."""


class GridworldConfig(ViewConfig):
    """A world in which several agents live, many times over."""

    name: Literal["treasure_hunt", "cleanup", "tag", "stag_hunt", "iowa", "empty", "gridworld"]
    """Which world; `gridworld` for one's own."""
    world: str | None = None
    """The file of one's own world, from the folder in which the command runs."""
    agents: int | None = Field(default=None, ge=1, le=128)
    """How many agents live in each world; the world's own number by default."""
    max_turns: int | None = Field(default=None, ge=1)
    """Turns of an episode, which then is cut off; the world's own number by default."""
    numbers: dict[str, int | float] = Field(default_factory=dict)
    """Other numbers of the world, by name; `keisei worlds NAME` says which it has."""
    turns: Literal["simultaneous", "sequential"] = "simultaneous"
    """All agents decide on the world as it stands, or each sees what the ones before it did."""
    views: Annotated[tuple[SeatsViewConfig, ...], Strict(False)] = ()
    """What some seats see instead."""
    observation: Literal["packed", "uint8", "float32"] = "packed"
    """How a window is written: a byte for each cell, layer and frame, or planes in that type."""
    debug: bool = False
    """Run the world as plain Python, slowly, so that a breakpoint works; changes no bit of what it does."""
    copies: int = Field(default=64, ge=1, le=2**24)
    """How many worlds are played at once."""
    threads: int = Field(default=1, ge=1, le=1024)
    """How many native threads step the worlds; changes no bit of what they do."""

    @model_validator(mode="after")
    def _names_one_world(self) -> Self:
        if (self.name == "gridworld") != (self.world is not None):
            raise ValueError("'world' names the file of one's own world, and needs the name 'gridworld'")
        return self


class GridworldEnvironmentConfig(GridworldConfig):
    """The keyword arguments of `keisei.make("treasure_hunt", …)`: an environment that stands alone."""

    observation: Literal["packed", "uint8", "float32"] = "uint8"
    """How a window is written: a byte for each cell, layer and frame, or planes in that type."""
    copies: int = Field(default=1, ge=1, le=2**24)
    """How many worlds are played at once."""
    seed: int = Field(default=0, ge=0, le=2**64 - 1)
    """What all random choices of the environment are drawn from."""
    first_lane: int = Field(default=0, ge=0, le=2**63)
    """The number of the first lane among all lanes of the run; the worlds' random streams depend on it."""
