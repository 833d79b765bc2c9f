"""Random self-play through the environment's contract, as a contender.

Moves are drawn uniformly from the legal ones; ended games start again. Before anything is measured the copies are
brought to different plies, so that a round holds openings and endings as they occur on the average.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import keisei
from keisei.bench.harness import Sample
from keisei.environment import Array, Legal, new_observation, new_state, new_step

SEED = 7
MOVE_LIMIT = 512
PHASES = 32
REPLAYED_STEPS = 64

Actions = npt.NDArray[np.int32]  # [G]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Form:
    """How positions are written: options of `keisei.make`."""

    observation: str
    legal: str


def draw(legal: Legal, random: np.random.Generator) -> Actions:
    """One legal action per lane, uniformly."""
    if len(legal.offsets) == 0:
        legal = _listed(legal.actions)
    first = legal.offsets[:-1]
    count = legal.offsets[1:] - first
    return legal.actions[first + (random.random(len(first)) * count).astype(np.int32)].astype(np.int32)


def _listed(mask: Array) -> Legal:
    """A byte mask `[G, A]` as lists with offsets."""
    lanes, actions = mask.shape
    legal = np.flatnonzero(mask.reshape(-1).view(np.bool_))
    ends = np.arange(lanes + 1) * actions
    return Legal((legal % actions).astype(np.uint16), np.searchsorted(legal, ends).astype(np.int32))


class SelfPlay:
    """Random games in one environment; drawing the moves is part of what is measured."""

    def __init__(self, name: str, form: Form, copies: int, *, threads: int = 1, clock: Clock = time.process_time):
        self.name = name
        self.copies = copies
        self._clock = clock
        self._random = np.random.default_rng(SEED)
        self._environment = keisei.make(
            "shogi", copies=copies, seed=SEED, threads=threads, observation=form.observation, legal=form.legal
        )
        self._observation = new_observation(self._environment)
        self._step = new_step(self._environment)
        self._environment.reset(self._observation)
        self._spread()

    def measure(self, seconds: float) -> Sample:
        """Play for so long, by the clock given."""
        steps = 0
        start = self._clock()
        while (spent := self._clock() - start) < seconds:
            self._play(self._draw())
            steps += 1
        return Sample(steps * self.copies, spent)

    def close(self) -> None:
        """Give back the environment's threads and memory."""
        self._environment.close()

    def _draw(self) -> Actions:
        return draw(self._observation[0].legal, self._random)

    def _play(self, actions: Actions) -> None:
        self._environment.step((actions,), self._step, self._observation)

    def _spread(self) -> None:
        """Bring the copies to different plies: each keeps what it was at one of several moments of a game's length."""
        spread, now = new_state(self._environment), new_state(self._environment)
        for phase in range(PHASES):
            for _ in range(MOVE_LIMIT // PHASES):
                self._play(self._draw())
            self._environment.save_state(now)
            spread[phase::PHASES] = now[phase::PHASES]
        self._environment.load_state(spread)
        self._environment.observe(self._observation)


class ReplayedSelfPlay(SelfPlay):
    """The same games, stepped alone: a stretch is played once to draw its moves, then again against the clock.

    For legal moves as a mask: finding them in 13,527 bytes with NumPy takes longer than the step itself, and whoever
    asks for masks does no such thing, but masks a network's output. Loading and saving states counts nowhere.
    """

    def measure(self, seconds: float) -> Sample:
        """Play for so long, by the clock given."""
        before = new_state(self._environment)
        plies, spent = 0, 0.0
        while spent < seconds:
            self._environment.save_state(before)
            drawn = []
            for _ in range(REPLAYED_STEPS):
                drawn.append(self._draw())
                self._play(drawn[-1])
            self._environment.load_state(before)
            start = self._clock()
            for actions in drawn:
                self._play(actions)
            spent += self._clock() - start
            plies += REPLAYED_STEPS * self.copies
        return Sample(plies, spent)
