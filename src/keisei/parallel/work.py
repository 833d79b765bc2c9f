"""How the work of a rollout is divided between workers and the manager's own process: the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from keisei.collect.blocks import BlockPlayer
from keisei.environment import UInt8
from keisei.parallel.crew import Crew
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.past import SharedPast
from keisei.parallel.slabs import Slabs
from keisei.rollout import Rollout


@dataclass(frozen=True)
class Task:
    """One iteration's rollout: what it is, and where it lies."""

    iteration: int
    buffer: int
    version: int  # of the weights
    slot: int  # where workers find them
    epoch: int  # environments that cannot save their states begin anew with each


class Work(Protocol):
    """Plays rollouts: by workers, and in this process where none is left. The same bits, whoever does it."""

    player: BlockPlayer
    """Plays on in this process."""
    slabs: Slabs
    """What is shared with workers."""
    sync: ModelSynchronizer
    """Keeps what is published."""
    past: SharedPast
    """The past selves."""
    states: UInt8
    """Where the next rollout begins, `[N, B, bytes]`."""
    missing: int
    """How many blocks of the rollout that was begun are not whole yet."""

    def begin(self, task: Task) -> None:
        """Lay out the states from which a rollout is played on."""

    def by_workers(self, crew: Crew, task: Task, is_paused: Callable[[], bool]) -> None:
        """Let workers play until nothing is missing, or nobody is left."""

    def here(self, task: Task) -> None:
        """Play what is missing in this process."""

    def commit(self, task: Task) -> Rollout:
        """The rollout is whole: keep where it has come to."""

    def reset(self) -> None:
        """All games begin anew."""
