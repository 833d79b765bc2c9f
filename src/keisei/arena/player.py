"""A network as a player: an `Opponent` that asks a policy."""

from __future__ import annotations

from typing import Literal

import numpy as np

from keisei.environment import NO_SEAT, PASS, Array, Group, Observation
from keisei.opponents import Draws
from keisei.policy import Actor, legal_choices
from keisei.threads import torch_threads

Play = Literal["sample", "greedy"]


class NetworkOpponent:
    """Plays as its policy says: by chance, as often as the policy would, or always the most probable move."""

    def __init__(self, policy: Actor, seed: int, play: Play) -> None:
        self.policy = policy
        self.play = play
        self.draws = Draws(seed)

    def __call__(self, group: Group, observation: Observation) -> Array:
        """One action per lane `[G]`; `PASS` where nobody decides."""
        decides = observation.seat != NO_SEAT
        choices = legal_choices(group, observation.legal)
        with torch_threads(1):
            if self.play == "greedy":
                decision = self.policy.act_greedily(observation.values, choices)
            else:
                numbers = self.draws.next(group, decides)
                # Down to 23 bits: in float32, u · total must stay below total.
                uniform = (np.floor(numbers * 2**23) * 2**-23).astype(np.float32)
                decision = self.policy.act(observation.values, choices, uniform)
        return np.where(decides, decision.action, PASS)


class PastSelf(NetworkOpponent):
    """The network as it was after an iteration of its run."""

    def __init__(self, policy: Actor, seed: int, play: Play, *, iteration: int) -> None:
        super().__init__(policy, seed, play)
        self.iteration = iteration
