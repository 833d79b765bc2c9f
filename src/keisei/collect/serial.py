"""Blocks played one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

from keisei.collect.blocks import BlockPlayer, BlockRules, check_states
from keisei.collect.collector import Compression, Weights, as_published
from keisei.collect.past import PastSelves
from keisei.rollout import Rollout


class SerialCollector:
    """Plays the blocks in a row. `order` is who comes first; it changes no bit."""

    def __init__(
        self,
        rules: BlockRules,
        *,
        blocks: int,
        order: Callable[[int], Iterable[int]] = range,
        buffers: int = 1,
        compression: Compression = "none",
    ) -> None:
        """`buffers` is for how many calls of `collect` a rollout stays valid."""
        self.version = 0
        self.order = order
        self._compression = compression
        self._past = PastSelves(rules.build_policy, rules.past)
        self._player = BlockPlayer(rules, self._past)
        self.policy = self._player.policy  # its network holds the published weights
        self._states = np.stack([self._player.first_state(block) for block in range(blocks)])
        layout = rules.layout(self._player.environment)
        self._rollouts = [layout.rollout(layout.allocate(blocks)) for _ in range(buffers)]

    def publish(self, weights: Weights, version: int) -> None:
        """From now on act with these weights."""
        published = as_published(weights, self._compression)
        self.policy.network.load_state_dict(published)
        self._past.offer(published, version)
        self.version = version

    def collect(self, iteration: int) -> Rollout:
        """Play every block on; the rollout is valid for as many calls as there are buffers."""
        rollout = self._rollouts[iteration % len(self._rollouts)]
        ends = np.empty_like(self._states)
        for block in self.order(len(self._states)):
            self._player.play(block, iteration, self._states[block], ends[block], rollout.block(block))
        self._states = ends
        return rollout.as_played()

    def state(self) -> Weights:
        """The states of all blocks, as they will go on, and the past selves."""
        return {"states": torch.from_numpy(self._states.copy()), **self._past.state()}

    def load_state(self, saved: Weights) -> None:
        """Go on from saved states; environments that have none go on as they are."""
        states = saved["states"].numpy()
        check_states(self._states, states)
        self._states = states.copy()
        self._past.load_state(saved)

    def statistics(self) -> Mapping[str, float]:
        """How many past selves there are."""
        return {"opponents/past_selves": len(self._past)}

    def close(self) -> None:
        """Give everything back; may be called twice."""
        self._player.close()
