"""Who looks at a run's game while it is played: nobody, or somebody with a world that goes as the run's first one does.

What is shown never touches the run: the spectator has a world of its own, in which the actions of each rollout are
played again. The terminal's live screen asks for its picture.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch import Tensor

from keisei.environment import Array, UInt8
from keisei.errors import KeiseiError
from keisei.rollout import Rollout
from keisei.small_picture import Picture

STATES = "states"
"""The tensor of a checkpoint's environments that holds what each copy goes on from."""

TURNS_PER_SECOND = 4.0


class Spectator:
    """Nobody."""

    def begin(self, environments: Mapping[str, Tensor]) -> None:
        """The run goes on from a checkpoint, with these states."""

    def saw(self, rollout: Rollout) -> None:
        """A rollout was collected."""

    def picture(self) -> Picture | None:
        """What is to be seen now."""
        return None


class Followed(Protocol):
    """A world of one's own."""

    lanes: int

    def load(self, state: UInt8) -> None:
        """Go on from a saved state."""

    def play(self, actions: Array) -> Picture:
        """Play an action per lane; gives how it looks before."""


class WorldSpectator(Spectator):
    """Shows the first world of a run, one rollout after the other; those in between are played unseen."""

    def __init__(self, world: Followed, clock: Callable[[], float] = time.monotonic) -> None:
        self._world = world
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: Sequence[Picture] = ()
        self._began = 0.0
        self._newest: Sequence[Picture] = ()
        self._lost = False

    def begin(self, environments: Mapping[str, Tensor]) -> None:
        self._world.load(environments[STATES][0, 0].numpy())

    def saw(self, rollout: Rollout) -> None:
        if self._lost:
            return
        own = slice(0, self._world.lanes)
        try:
            played = rollout.valid[0, :, own].any(1)
            pictures = [self._world.play(actions) for actions in rollout.choice[0, played, own]]
        except KeiseiError:  # somebody else's world, which does not do the same again: there is nothing to show
            self._lost, pictures = True, []
        with self._lock:
            self._newest = pictures

    def picture(self) -> Picture | None:
        with self._lock:
            at = int((self._clock() - self._began) * TURNS_PER_SECOND)
            if at >= len(self._shown):
                self._shown, self._newest = self._newest or self._shown[-1:], ()
                self._began, at = self._clock(), 0
            return self._shown[at] if self._shown else None
