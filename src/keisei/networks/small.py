"""Small bodies: a plain stack of convolutions, and a multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import nn

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
        super().__init__(nn.Flatten())
        before = prod(shape)
        for width in widths:
            self.append(nn.Linear(before, width))
            self.append(nn.ReLU(inplace=True))
            before = width
        orthogonal(self)
