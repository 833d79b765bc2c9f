"""Blocks played one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from keisei.collect.collector import BuildEnvironment
from keisei.collect.loop import Frozen, action_noise, play
from keisei.environment import Environment, Int64, UInt8
from keisei.networks import Network
from keisei.policy import Policy
from keisei.rollout import Rollout, RolloutLayout
from keisei.threads import torch_threads

ChooseFrozen = Callable[[int, int], Frozen | None]
"""From block and iteration to the frozen opponent that plays along, if any."""


class SerialCollector:
    """Plays the blocks in a row. `order` is who comes first; it changes no bit."""

    def __init__(
        self,
        build_environment: BuildEnvironment,
        policy: Policy,
        *,
        blocks: int,
        steps: int,
        seed: int,
        choose_frozen: ChooseFrozen = lambda block, iteration: None,
        order: Callable[[int], Iterable[int]] = range,
    ) -> None:
        self.policy = policy  # its network holds the published weights
        self.version = 0
        self.seed = seed
        self.steps = steps
        self.choose_frozen = choose_frozen
        self.order = order
        self.environments = _environments(build_environment, blocks)
        self.block_size = self.environments[0].lanes
        layout = RolloutLayout(self.environments[0].groups[0], steps)
        self.rollout = layout.rollout(layout.allocate(blocks))

    def publish(self, network: Network, version: int) -> None:
        """From now on act with these weights."""
        self.policy.network.load_state_dict(network.state_dict())
        self.version = version

    def collect(self, iteration: int) -> Rollout:
        """Play every block on; the rollout is valid until the next call."""
        with torch_threads(1):
            for block in self.order(len(self.environments)):
                self._play_block(block, iteration)
        return self.rollout

    def _play_block(self, block: int, iteration: int) -> None:
        noise = action_noise(self.seed, self._lanes(block), iteration, self.steps)
        play(
            self.environments[block],
            self.policy,
            self.choose_frozen(block, iteration),
            self.rollout.block(block),
            noise,
        )

    def _lanes(self, block: int) -> Int64:
        return np.arange(block * self.block_size, (block + 1) * self.block_size)

    def save_state(self) -> UInt8:
        """The states of all blocks `[N, B, bytes]`, as they will go on."""
        return np.stack([_saved(environment) for environment in self.environments])

    def load_state(self, saved: UInt8) -> None:
        """Go on from saved states; environments that have none go on as they are."""
        for environment, state in zip(self.environments, saved, strict=True):
            if environment.state_bytes:
                environment.load_state(state)

    def close(self) -> None:
        """Give everything back; may be called twice."""
        for environment in self.environments:
            environment.close()


def _environments(build_environment: BuildEnvironment, blocks: int) -> list[Environment]:
    first = build_environment(0)
    return [first, *(build_environment(block * first.lanes) for block in range(1, blocks))]


def _saved(environment: Environment) -> UInt8:
    state = np.zeros((environment.copies, environment.state_bytes), np.uint8)
    if environment.state_bytes:
        environment.save_state(state)
    return state
