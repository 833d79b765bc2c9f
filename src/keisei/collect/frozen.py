"""Frozen opponents: which past policy plays along in which block, drawn anew for every rollout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keisei.collect.loop import Frozen
from keisei.opponents import uniform_words
from keisei.policy import Actor

_STREAM = 0x66726F7A


class FrozenPool:
    """A share of the blocks plays against one of several past policies; the seats alternate by lane."""

    def __init__(self, policies: Sequence[Actor], share: float, seed: int, block_size: int) -> None:
        self._policies = policies
        self._share = share
        self._seed = seed
        self._seat = (np.arange(block_size) % 2).astype(np.int8)

    def __call__(self, block: int, iteration: int) -> tuple[Frozen, ...]:
        """Who plays along in a block; the draw belongs to seed, block and iteration."""
        if not self._policies:
            return ()
        draws = uniform_words(self._seed, np.full(2, block), np.arange(2), iteration, _STREAM)
        if int(draws[0]) >= self._share * 2**32:
            return ()
        return (Frozen(self._policies[int(draws[1]) % len(self._policies)], self._seat),)
