"""Scripted opponents: policies that need no network, from what a group sees to one action per lane.

What an action is worth is told by the game, as a function; nothing here knows a game by name, and nothing needs torch.
An opponent's chance belongs to (seed, lane, how often it has chosen in that lane) and to nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from keisei.environment import (
    NO_SEAT,
    PASS,
    Array,
    Bool,
    Float64,
    Group,
    Int32,
    Int64,
    Legal,
    Observation,
    legal_list,
    pick_legal,
)

UInt64 = npt.NDArray[np.uint64]

ActionValues = Callable[[Array, Int64, Int64], Array]
"""What actions are worth: (observation values `[G, …]`, rows `[n]`, actions `[n]`) → worth `[n]`, to who decides."""

_STREAM = 0x6F70706F
"""Fourth word of the counter: keeps these numbers apart from those an environment draws from the same seed."""

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_FIRST_STEP, _SECOND_STEP = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


class Opponent(Protocol):
    """Whoever answers for a seat."""

    def __call__(self, group: Group, observation: Observation) -> Array:
        """One action per lane `[G]`; `PASS` where nobody decides."""


class RandomOpponent:
    """Plays one of the legal actions, each with the same probability."""

    def __init__(self, seed: int, *, first_lane: int = 0) -> None:
        self.draws = Draws(seed, first_lane)

    def __call__(self, group: Group, observation: Observation) -> Int32:
        """One action per lane `[G]`; `PASS` where nobody decides."""
        decides = observation.seat != NO_SEAT
        chosen = pick_legal(legal_list(group, observation.legal), self.draws.next(group, decides))
        return np.where(decides, chosen, PASS)


class GreedyOpponent:
    """Plays the legal action that is worth most at once; among equals, each with the same probability."""

    def __init__(self, seed: int, values: ActionValues, *, first_lane: int = 0) -> None:
        self.draws = Draws(seed, first_lane)
        self.values = values

    def __call__(self, group: Group, observation: Observation) -> Int32:
        """One action per lane `[G]`; `PASS` where nobody decides."""
        decides = observation.seat != NO_SEAT
        best = _best(legal_list(group, observation.legal), decides, self.values, observation.values)
        return pick_legal(best, self.draws.next(group, decides))


class Draws:
    """Uniform random numbers per lane. `drawn` `[lanes]`, how many each lane has had, is all the state there is."""

    def __init__(self, seed: int, first_lane: int = 0) -> None:
        self.seed = seed
        self.first_lane = first_lane
        self.drawn: UInt64 = np.zeros(0, np.uint64)

    def next(self, group: Group, decides: Bool) -> Float64:
        """A number in [0, 1) for each lane of the group `[G]`; only lanes that decide use theirs up."""
        self._make_room(int(group.lanes[-1]) + 1)
        numbers = uniform(
            self.seed, group.lanes.astype(np.uint64) + np.uint64(self.first_lane), self.drawn[group.lanes]
        )
        self.drawn[group.lanes] += decides
        return numbers

    def _make_room(self, lanes: int) -> None:
        if lanes > len(self.drawn):
            self.drawn = np.concatenate([self.drawn, np.zeros(lanes - len(self.drawn), np.uint64)])


def random_actions(group: Group, observation: Observation, generator: np.random.Generator) -> Int32:
    """A legal action for each lane `[G]`, uniformly from one generator for all; `PASS` where nobody decides."""
    return pick_legal(legal_list(group, observation.legal), generator.random(len(group.lanes)))


def uniform(seed: int, lanes: UInt64, steps: UInt64) -> Float64:
    """Numbers in [0, 1), 53 bits each, that depend on seed, lane and step alone `[n]`."""
    counter = (steps & _WORD, steps >> _HALF, lanes & _WORD, np.full_like(lanes, _STREAM))
    low, high, _, _ = philox(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))
    return ((high << _HALF | low) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform_words(seed: int, lanes: Int64, steps: Int64, iteration: int, stream: int) -> UInt64:
    """32-bit random words `[n]` that depend on seed, lane, step, iteration and stream alone."""
    lane = lanes.astype(np.uint64)
    counter = (steps.astype(np.uint64), np.full_like(lane, iteration), lane, np.full_like(lane, stream))
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))[0]


def philox(
    counter: tuple[UInt64, UInt64, UInt64, UInt64], key: tuple[int, int]
) -> tuple[UInt64, UInt64, UInt64, UInt64]:
    """Philox 4x32-10 of many counters at once; each word is a 32-bit number held in 64 bits."""
    a, b, c, d = counter
    left, right = np.uint64(key[0]), np.uint64(key[1])
    for _ in range(10):
        first, second = a * _FIRST_FACTOR, c * _SECOND_FACTOR
        a, b, c, d = second >> _HALF ^ b ^ left, second & _WORD, first >> _HALF ^ d ^ right, first & _WORD
        left, right = left + _FIRST_STEP & _WORD, right + _SECOND_STEP & _WORD
    return a, b, c, d


def _best(legal: Legal, decides: Bool, values: ActionValues, seen: Array) -> Legal:
    rows = np.repeat(np.arange(len(decides)), np.diff(legal.offsets))
    kept = decides[rows]
    rows, actions = rows[kept], legal.actions[kept].astype(np.int64)
    worth = values(seen, rows, actions)
    counts = np.bincount(rows, minlength=len(decides))
    starts = np.cumsum(counts) - counts
    most = np.zeros(len(decides), worth.dtype)
    if len(rows):
        most[counts > 0] = np.maximum.reduceat(worth, starts[counts > 0])
    kept = worth == most[rows]
    offsets = np.zeros(len(decides) + 1, np.int32)
    np.cumsum(np.bincount(rows[kept], minlength=len(decides)), out=offsets[1:])
    return Legal(actions[kept], offsets)
