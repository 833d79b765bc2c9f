"""What ended episodes tell a researcher, as numbers for each agent: returns, items by kind, what the world reports.

A name that begins with `world/` is of the whole world, and is told to each of its agents. What makes no sense in an
episode is not a number (NaN): the Gini coefficient where somebody lost in all, sustainability where nobody gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from keisei.environment import WORLD_FIGURE, Array, Bool, Float32, Float64, Int32
from keisei.errors import WorldError
from keisei.gridworld.place import Place
from keisei.gridworld.running import Structured
from keisei.gridworld.world import WorldFile


class Figures:
    """The figures of one world's episodes."""

    def __init__(self, file: WorldFile, places: Structured) -> None:
        """`places` are worlds that have begun: what they report names the figures."""
        self._file = file
        self._items = [number for number, kind in enumerate(file.world.kinds) if kind.item]
        items = tuple(_key(file.world.kinds[number].name) for number in self._items)
        self._agents = int(places["row"].shape[1])
        shared = (f"{WORLD_FIGURE}sustainability", *((f"{WORLD_FIGURE}gini",) if self._agents > 1 else ()))
        self.names = ("return", *items, *shared, *(name for name, _ in self._reported(places, 0)))

    def write(self, places: Structured, ended: Bool, out: Float32) -> None:
        """Write the figures of the worlds that have ended to `out [worlds, agents, figures]`."""
        worlds = np.flatnonzero(ended)
        some = places[worlds]
        returns, gains = some["returns"], some["gains"]
        columns: list[Float64] = [returns, *(some["taken"][:, :, item] for item in self._items)]
        columns.append(_each_agent(sustainability(gains, some["gain_turns"]), self._agents))
        if self._agents > 1:
            columns.append(_each_agent(gini(returns), self._agents))
        told = len(columns)
        out[worlds, :, :told] = np.stack(columns, -1)
        for row, world in enumerate(worlds):
            for number, (_, value) in enumerate(self._reported(some, row)):
                out[world, :, told + number] = value

    def _reported(self, places: Structured, number: int) -> Sequence[tuple[str, float | Array]]:
        """What a world's own function says of a place, with the names of the figures."""
        report = self._file.world.report
        if report is None:
            return ()
        place = cast(Place, places.view(np.recarray)[number])
        try:
            return [self._figure(name, value) for name, value in report(place).items()]
        except (ArithmeticError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise WorldError(f"{self._file.path}: report() failed: {type(error).__name__}: {error}") from error

    def _figure(self, name: str, value: float | Array) -> tuple[str, float | Array]:
        shape = np.shape(value)
        if shape == (self._agents,):
            return _key(name), value
        if shape == ():
            return f"{WORLD_FIGURE}{_key(name)}", value
        raise WorldError(
            f"{self._file.path}: report() must give one number, or one for each of {self._agents} agents, "
            f"found {list(shape)} as '{name}'"
        )


def gini(returns: Float64) -> Float64:
    """The Gini coefficient of each world `[worlds]`, from `returns [worlds, agents]`.

    0 is equal, and 1 - 1 / agents is all for one.
    """
    total = returns.sum(1)
    apart = np.abs(returns[:, :, None] - returns[:, None]).sum((1, 2))
    known = (total > 0) & (returns >= 0).all(1)
    found: Float64 = np.full(len(total), np.nan)
    np.divide(apart, 2 * returns.shape[1] * total, out=found, where=known)
    return found


def sustainability(gains: Int32, gain_turns: Float64) -> Float64:
    """The mean turn in which something was gained, over the agents who gained `[worlds]`; both `[worlds, agents]`."""
    gained = gains > 0
    turn = np.divide(gain_turns, gains, out=np.zeros(gains.shape), where=gained)
    count = gained.sum(1)
    found: Float64 = np.full(len(count), np.nan)
    np.divide(turn.sum(1), count, out=found, where=count > 0)
    return found


def _each_agent(of_worlds: Float64, agents: int) -> Float64:
    return np.repeat(of_worlds[:, None], agents, axis=1)


def _key(name: str) -> str:
    return name.replace(" ", "_")
