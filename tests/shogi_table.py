"""A Shogi environment together with the arrays it fills, as its tests use it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import numpy as np

from keisei import make
from keisei.environment import Array, UInt8, new_observation, new_state, new_step
from keisei.shogi import ShogiEnvironment
from keisei.shogi.actions import usi_to_action

ACTIONS = 13_527


class Table:
    """An environment that was reset, its arrays, and players that choose at random but the same every time."""

    def __init__(self, copies: int, **options: object) -> None:
        environment = make("shogi", copies=copies, **options)
        assert isinstance(environment, ShogiEnvironment)
        self.environment = environment
        self.first_lane = int(str(options.get("first_lane", 0)))
        self.observation = new_observation(environment)
        self.outcome = new_step(environment)
        self.time = 0
        environment.reset(self.observation)

    @property
    def copies(self) -> int:
        return self.environment.copies

    @property
    def values(self) -> Array:
        return self.observation[0].values

    def legal(self, lane: int) -> list[int]:
        """The legal actions of a lane, sorted, read from whichever form they are written in."""
        legal = self.observation[0].legal
        form = self.environment.groups[0].legal
        if form == "list":
            return sorted(legal.actions[legal.offsets[lane] : legal.offsets[lane + 1]].tolist())
        row = legal.actions[lane]
        if form == "bits":
            row = np.unpackbits(row.astype(np.uint8), bitorder="little")
        return np.flatnonzero(row).tolist()

    def turn(self, lane: int) -> Literal["black", "white"]:
        return "white" if self.observation[0].seat[lane] else "black"

    def play(self, actions: Sequence[int]) -> None:
        self.environment.step((np.array(actions, np.int64),), self.outcome, self.observation)
        self.time += 1

    def play_usi(self, *moves: str) -> None:
        """One move for each lane."""
        self.play([usi_to_action(usi, self.turn(lane)) for lane, usi in enumerate(moves)])

    def play_at_random(self) -> list[int]:
        """One legal action for each lane, drawn by its number and the time alone; gives the actions."""
        actions = []
        for lane in range(self.copies):
            legal = self.legal(lane)
            actions.append(legal[random.Random(f"{self.first_lane + lane} {self.time}").randrange(len(legal))])
        self.play(actions)
        return actions

    def saved(self) -> UInt8:
        state = new_state(self.environment)
        self.environment.save_state(state)
        return state

    def told(self, lanes: slice = slice(None)) -> tuple[object, ...]:
        """All that the arrays say of these lanes: two tables that tell the same have done the same."""
        chosen = range(self.copies)[lanes]
        seen, outcome = self.observation[0], self.outcome
        offsets = seen.legal.offsets
        legal = (
            [seen.legal.actions[offsets[lane] : offsets[lane + 1]].tolist() for lane in chosen]
            if len(offsets)
            else seen.legal.actions[lanes].tobytes()
        )
        ended = [lane for lane in chosen if outcome.ended[lane]]
        columns = (outcome.reward, outcome.discount, outcome.ended, outcome.cut_off, outcome.reason, outcome.length)
        return (
            seen.values[lanes].tobytes(),
            legal,
            seen.seat[lanes].tolist(),
            [column[lanes].tolist() for column in columns],
            [outcome.final[0][lane].tobytes() for lane in ended],
            self.environment.sfens()[lanes],
        )
