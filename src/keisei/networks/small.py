"""Small bodies: a plain stack of convolutions, and a multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from keisei.networks.network import orthogonal


class ConvolutionalTower(nn.Sequential):
    """3×3 convolutions of one width, each followed by a ReLU."""

    def __init__(self, planes: int, layers: int, channels: int) -> None:
        super().__init__()
        for i in range(layers):
            self.append(nn.Conv2d(planes if i == 0 else channels, channels, 3, padding=1))
            self.append(nn.ReLU(inplace=True))
        orthogonal(self)


class MLP(nn.Sequential):
    """Fully connected layers, each followed by a ReLU, over the flattened input."""

    def __init__(self, shape: Sequence[int], widths: Sequence[int]) -> None:
        super().__init__()
        for inputs, outputs in pairwise([prod(shape), *widths]):
            self.append(DenseLayer(inputs, outputs))
        orthogonal(self)

    def forward(self, seen: Tensor) -> Tensor:
        """`[B, *shape]` → `[B, widths[-1]]`."""
        features: Tensor = super().forward(seen.flatten(1))  # type: ignore[no-untyped-call]
        return features


class DenseLayer(nn.Linear):
    """A fully connected layer and its ReLU: one module, as small networks take longer to call modules than to add."""

    def forward(self, features: Tensor) -> Tensor:
        """`[B, inputs]` → `[B, outputs]`."""
        return super().forward(features).relu_()
