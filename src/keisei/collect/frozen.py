"""Frozen opponents: which past policy plays along in which block, drawn anew for every rollout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from keisei.collect.loop import Frozen
from keisei.opponents import uniform_words
from keisei.policy import Actor

ChooseFrozen = Callable[[int, int], Sequence[Frozen]]
"""From block and iteration to the frozen opponents that play along, if any; no two of them in one lane."""

OF_CHECKPOINTS, OF_PAST = 0x66726F7A, 0x70617374
"""Fourth words of the counter: what is drawn from one pool says nothing of what is drawn from the other."""


class FrozenPool:
    """A share of the blocks plays against one of several past policies; the seats alternate by lane."""

    def __init__(
        self, policies: Sequence[Actor], share: float, seed: int, block_size: int, stream: int = OF_CHECKPOINTS
    ) -> None:
        self._policies = policies  # those that are in it when there is a draw
        self._share = share
        self._seed = seed
        self._stream = stream
        self._seat = (np.arange(block_size) % 2).astype(np.int8)

    def __call__(self, block: int, iteration: int) -> tuple[Frozen, ...]:
        """Who plays along in a block; the draw belongs to seed, block and iteration."""
        if not self._policies:
            return ()
        draws = uniform_words(self._seed, np.full(2, block), np.arange(2), iteration, self._stream)
        if int(draws[0]) >= self._share * 2**32:
            return ()
        return (Frozen(self._policies[int(draws[1]) % len(self._policies)], self._seat),)


def first_of(choices: Sequence[ChooseFrozen]) -> ChooseFrozen:
    """Whoever the first of them names that names anybody in a block."""

    def choose(block: int, iteration: int) -> Sequence[Frozen]:
        return next((found for each in choices if (found := each(block, iteration))), ())

    return choose
