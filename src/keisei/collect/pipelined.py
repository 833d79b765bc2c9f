"""Groups of blocks that take turns: while one group's moves are computed, native threads step the others.

Each group is played by the one acting loop in a thread of its own; what it lives does not depend on the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from keisei.collect.block_set import set_rules
from keisei.collect.blocks import BlockPlayer, BlockRules, check_states
from keisei.collect.collector import Compression, Weights, as_published
from keisei.collect.past import PastSelves
from keisei.policy import Actor
from keisei.rollout import Rollout
from keisei.threads import torch_threads

Numbers = Callable[[Actor], Mapping[str, float]]
"""What is worth recording of whoever acts."""


class PipelinedCollector:
    """Plays all groups at once with one network. A group is a fixed set of blocks, so the bits are those of a collector
    that plays the same sets one after the other."""

    def __init__(
        self,
        rules: BlockRules,
        *,
        blocks: int,
        groups: int,
        buffers: int = 1,
        compression: Compression = "none",
        twin: Callable[[Actor], Actor] | None = None,
        numbers: Numbers = lambda actor: {},
    ) -> None:
        """`groups` divides `blocks`; `buffers` is for how many calls of `collect` a rollout stays valid.

        `twin` gives a policy like another one, for past selves.
        """
        assert blocks % groups == 0
        self.version = 0
        self.policy = rules.build_policy()  # its network holds the published weights, and acts for all groups
        self._compression = compression
        self._numbers = numbers
        self._past = PastSelves(partial(twin, self.policy) if twin else rules.build_policy, rules.past)
        shared = replace(rules, build_policy=lambda: self.policy)
        shared = set_rules(shared, blocks // groups) if blocks > groups else shared
        self._players = [BlockPlayer(shared, self._past) for _ in range(groups)]
        self._states = np.stack([player.first_state(group) for group, player in enumerate(self._players)])
        layout = shared.layout(self._players[0].environment)
        self._rollouts = [layout.rollout(layout.allocate(groups)) for _ in range(buffers)]
        self._threads = ThreadPoolExecutor(groups, "group")
        self._busy_seconds, self._seconds = 0.0, 0.0

    def publish(self, weights: Weights, version: int) -> None:
        """From now on act with these weights."""
        published = as_published(weights, self._compression)
        self.policy.network.load_state_dict(published)
        self._past.offer(published, version)
        _settle()
        self.version = version

    def collect(self, iteration: int) -> Rollout:
        """Play every group on; the rollout is valid for as many calls as there are buffers."""
        rollout = self._rollouts[iteration % len(self._rollouts)]
        ends = np.empty_like(self._states)
        began = time.perf_counter()

        def play(group: int) -> float:
            start = time.perf_counter()
            self._players[group].play(group, iteration, self._states[group], ends[group], rollout.block(group))
            return time.perf_counter() - start

        with torch_threads(1):
            played = [self._threads.submit(play, group) for group in range(len(self._players))]
            errors = [error for one in played if (error := one.exception()) is not None]  # waits for all
        if errors:
            raise errors[0]
        self._busy_seconds += sum(one.result() for one in played)
        self._seconds += time.perf_counter() - began
        self._states = ends
        return rollout.as_played()

    def state(self) -> Weights:
        """The states of all groups, as they will go on, and the past selves."""
        return {"states": torch.from_numpy(self._states.copy()), **self._past.state()}

    def load_state(self, saved: Weights) -> None:
        """Go on from saved states; environments that have none go on as they are."""
        states = saved["states"].cpu().numpy()
        check_states(self._states, states)
        self._states = states.copy()
        self._past.load_state(saved)
        _settle()

    def statistics(self) -> Mapping[str, float]:
        """How many past selves there are, how many groups play at once on average, and what acting says of itself."""
        overlap = self._busy_seconds / self._seconds if self._seconds else 0.0
        mine = {"opponents/past_selves": len(self._past), "collect/groups_at_once": overlap}
        return {**mine, **self._numbers(self.policy)}

    def close(self) -> None:
        """Give everything back; may be called twice."""
        self._threads.shutdown()
        for player in self._players:
            player.close()


def _settle() -> None:
    """Let new weights arrive before groups act with them, on streams of their own."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
