"""Tic-tac-toe that takes its time or breaks, for runs in processes of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keisei.environment import Array, Observation, Step
from tictactoe import TicTacToe


class SlowTicTacToe(TicTacToe):
    """Every step takes a while."""

    def __init__(self, *, pause: float, **options: Any) -> None:  # noqa: ANN401  (whatever TicTacToe takes)
        super().__init__(**options)
        self.pause = pause

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        time.sleep(self.pause)
        super().step(actions, step, observation)


class BrokenTicTacToe(TicTacToe):
    """Breaks in a certain step: raises, or ends the process in its own way."""

    def __init__(self, *, breaks_at: int, exits: bool = False, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.breaks_at = breaks_at
        self.exits = exits

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        self.breaks_at -= 1
        if self.breaks_at < 0:
            if self.exits:
                sys.exit(0)
            raise ZeroDivisionError("a bug in somebody's game")
        super().step(actions, step, observation)


class UnluckyTicTacToe(TicTacToe):
    """Raises in each step for as long as a certain file is there."""

    def __init__(self, *, file: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.file = Path(file)

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        if self.file.exists():
            raise ZeroDivisionError("a bug in somebody's game")
        time.sleep(0.001)
        super().step(actions, step, observation)
