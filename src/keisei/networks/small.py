"""Small bodies: a plain stack of convolutions, and a multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn
from torch.nn import functional

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
            self.append(nn.Linear(inputs, outputs))
        orthogonal(self)

    def forward(self, seen: Tensor) -> Tensor:
        """`[B, *shape]` → `[B, widths[-1]]`."""
        features = seen.flatten(1)
        for layer in self:  # not called as modules: that takes longer than small layers themselves
            assert isinstance(layer, nn.Linear)
            features = functional.linear(features, layer.weight, layer.bias).relu_()
        return features
