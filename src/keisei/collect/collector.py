"""The contract of whoever collects experience."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from keisei.environment import Environment, UInt8
from keisei.networks import Network
from keisei.rollout import Rollout

BuildEnvironment = Callable[[int], Environment]
"""From the number of a block's first lane to its environment. It can be pickled."""


class Collector(Protocol):
    """Plays blocks with the published weights. The same calls give the same bits, whoever plays the blocks."""

    def publish(self, network: Network, version: int) -> None:
        """From now on act with these weights."""

    def collect(self, iteration: int) -> Rollout:
        """Play every block on; the rollout is valid until the next call."""

    def save_state(self) -> UInt8:
        """The states of all blocks `[N, B, bytes]`, as they will go on."""

    def load_state(self, saved: UInt8) -> None:
        """Go on from saved states."""

    def close(self) -> None:
        """Give everything back; may be called twice."""
