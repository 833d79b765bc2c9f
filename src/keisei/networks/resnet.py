"""The residual tower with squeeze-and-excite. No batch statistics: a row never depends on other rows."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from keisei.networks.network import orthogonal

Normalization = Literal["none", "group"]

_GROUP_CHANNELS = 16


class SqueezeExcite(nn.Module):
    """Scales each channel by what all cells together say."""

    def __init__(self, channels: int, reduction: int = 4) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.squeeze = nn.Linear(channels, inner)
        self.excite = nn.Linear(inner, channels)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, H, W]` → the same, scaled."""
        scale = torch.sigmoid(self.excite(torch.relu(self.squeeze(features.mean((2, 3))))))
        return features * scale[:, :, None, None]


class ResidualBlock(nn.Module):
    """Two convolutions and squeeze-and-excite beside the identity; begins as the identity."""

    def __init__(self, channels: int, normalization: Normalization) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norms = nn.ModuleList(_normalization(normalization, channels) for _ in range(2))
        self.scale = SqueezeExcite(channels)
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, H, W]` → `[B, C, H, W]`."""
        inner = torch.relu(self.norms[0](self.first(features)))
        inner = self.scale(self.norms[1](self.second(inner)))
        return torch.relu(features + self.weight * inner)


class ResidualTower(nn.Sequential):
    """A convolution, then residual blocks, all of the same width."""

    def __init__(self, planes: int, blocks: int, channels: int, normalization: Normalization = "none") -> None:
        super().__init__(
            nn.Conv2d(planes, channels, 3, padding=1),
            nn.ReLU(),
            *(ResidualBlock(channels, normalization) for _ in range(blocks)),
        )
        orthogonal(self)


def _normalization(kind: Normalization, channels: int) -> nn.Module:
    return nn.Identity() if kind == "none" else nn.GroupNorm(_groups(channels), channels)


def _groups(channels: int) -> int:
    """As many groups of at least so many channels as are all of one size."""
    most = max(1, channels // _GROUP_CHANNELS)
    return next(groups for groups in range(most, 0, -1) if channels % groups == 0)
