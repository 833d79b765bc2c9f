"""The pool of past selves: policies that act with the weights of earlier versions.

Which versions are in it follows from the versions that were published, so every collector has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from torch import Tensor

from keisei.collect.collector import Weights
from keisei.policy import Actor

_PREFIX = "past."
"""In a saved state `past.40.name` are the weights of version 40."""


@dataclass(frozen=True)
class PastRules:
    """How many past selves are kept, and after how many versions there is a new one."""

    depth: int
    interval: int


NO_PAST = PastRules(0, 1)


@dataclass(frozen=True)
class PastSelf:
    """A policy as it was."""

    version: int
    weights: Weights  # nobody changes them any more
    policy: Actor


class PastSelves(Sequence[Actor]):
    """Policies with earlier weights, the oldest first."""

    def __init__(self, build_policy: Callable[[], Actor], rules: PastRules) -> None:
        self.kept: list[PastSelf] = []
        self._build_policy = build_policy
        self._rules = rules

    def offer(self, weights: Weights, version: int) -> bool:
        """Weights are published: keep them if it is time for new ones; says whether it was."""
        last = self.kept[-1].version if self.kept else 0
        due = self._rules.depth > 0 and version - last >= self._rules.interval
        if due:
            self._keep({name: one.detach().clone() for name, one in weights.items()}, version)
        return due

    def _keep(self, weights: Weights, version: int) -> None:
        policy = self._build_policy()
        policy.network.load_state_dict(weights)
        self.kept = [*self.kept, PastSelf(version, weights, policy)][-self._rules.depth :]

    def state(self) -> dict[str, Tensor]:
        """All weights, to save."""
        return {f"{_PREFIX}{one.version}.{name}": tensor for one in self.kept for name, tensor in one.weights.items()}

    def load_state(self, saved: Weights) -> None:
        """Have the past selves of a saved state, and no others."""
        found: dict[int, dict[str, Tensor]] = {}
        for name, tensor in saved.items():
            if name.startswith(_PREFIX):
                version, _, own = name.removeprefix(_PREFIX).partition(".")
                found.setdefault(int(version), {})[own] = tensor
        self.kept = []
        for number, weights in sorted(found.items()):
            self._keep(weights, number)

    def __len__(self) -> int:
        return len(self.kept)

    @overload
    def __getitem__(self, place: int) -> Actor: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Actor]: ...
    def __getitem__(self, place: int | slice) -> Actor | Sequence[Actor]:
        """Who played as that version."""
        return self.kept[place].policy if isinstance(place, int) else [one.policy for one in self.kept[place]]
