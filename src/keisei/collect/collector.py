"""The contract of whoever collects experience."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import torch
from torch import Tensor

from keisei.environment import Environment
from keisei.rollout import Rollout

BuildEnvironment = Callable[[int], Environment]
"""From the number of a block's first lane to its environment. It can be pickled."""

Weights = Mapping[str, Tensor]
"""A network's parameters and buffers by name."""

Compression = Literal["none", "fp16", "bf16"]
"""How weights are rounded when they are published."""

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Collector(Protocol):
    """Plays blocks with the published weights. The same calls give the same bits, whoever plays the blocks."""

    def publish(self, weights: Weights, version: int) -> None:
        """From now on act with these weights."""

    def collect(self, iteration: int) -> Rollout:
        """Play every block on; the rollout is valid until the next call."""

    def state(self) -> Weights:
        """All that collecting goes on from: `states [N, B, bytes]` of the blocks, and what else there is."""

    def load_state(self, saved: Weights) -> None:
        """Go on from a saved state."""

    def statistics(self) -> Mapping[str, float]:
        """Numbers about who collects, to record."""

    def close(self) -> None:
        """Give everything back; may be called twice."""


def as_published(weights: Weights, compression: Compression) -> Weights:
    """The weights as collectors get them: floating-point numbers rounded to the smaller type, all else as it is."""
    if compression == "none":
        return weights
    dtype = _DTYPES[compression]
    return {name: one.detach().to(dtype) if one.is_floating_point() else one for name, one in weights.items()}
