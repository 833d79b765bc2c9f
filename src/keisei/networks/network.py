"""What every network has in common: a body, a policy head and a value head. No row depends on another row."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional


class Network(nn.Module):
    """A body with two heads. The value, in -1..1, and the logits are those of the seat that decides."""

    def __init__(self, body: nn.Module, policy: nn.Module, value: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.policy = policy
        self.value = value

    def forward(self, seen: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`seen [B, …]`, `actions [B, L]` (None: all in order) → logits `[B, L]` and values `[B]`."""
        features = self.body(seen)
        return self.policy(features, actions), self.value(features).squeeze(-1)

    def values(self, seen: Tensor) -> Tensor:
        """The values `[B]` alone."""
        values: Tensor = self.value(self.body(seen)).squeeze(-1)
        return values


class DensePolicy(nn.Module):
    """One weight per feature and action."""

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, actions)
        shrink(self.linear)

    def forward(self, features: Tensor, actions: Tensor | None) -> Tensor:
        """Features of any shape `[B, …]` → logits `[B, L]`."""
        logits = functional.linear(features.flatten(1), self.linear.weight, self.linear.bias)
        return logits if actions is None else logits.gather(1, actions)


class ConvolutionalPolicy(nn.Module):
    """Logits of actions as sums of a few cells of a 1×1 convolution: what is learnt on one cell holds on all.

    `parts [A, P]` says which cells, as `channel · cells + cell`; -1 where an action has fewer parts.
    """

    parts: Tensor  # [P, A], as places in a convolution whose channels are last: `cell · channels + channel`

    def __init__(self, channels: int, planes: int, cells: int, parts: Tensor) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, planes, 1)
        shrink(self.convolution)
        places = torch.where(parts < 0, -1, parts % cells * planes + parts // cells)
        self.register_buffer("parts", places.T.contiguous(), persistent=False)

    def forward(self, features: Tensor, actions: Tensor | None) -> Tensor:
        """Features `[B, C, H, W]` → logits `[B, L]`."""
        cells = self.cells(features)
        return reduce(torch.add, (self._read(cells, places, actions) for places in self.parts))

    def cells(self, features: Tensor) -> Tensor:
        """Features `[B, C, H, W]` → what the logits are sums of, `[B, H · W · channels]`."""
        cells: Tensor = self.convolution(features)
        return cells.permute(0, 2, 3, 1).flatten(1)  # no copy where channels are last

    def _read(self, cells: Tensor, places: Tensor, actions: Tensor | None) -> Tensor:
        """One part of each action: cells `[B, H · W · channels]`, places `[A]` → `[B, L]`, 0 where there is none."""
        chosen = places.expand(len(cells), -1) if actions is None else places[actions]
        return cells.gather(1, chosen.clamp(min=0)).masked_fill(chosen < 0, 0.0)


class ValueHead(nn.Sequential):
    """A 1×1 convolution to a few planes, one hidden layer, one number in -reach..reach."""

    def __init__(self, channels: int, cells: int, planes: int = 4, hidden: int = 64, *, reach: float = 1.0) -> None:
        super().__init__(
            nn.Conv2d(channels, planes, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(planes * cells, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
            nn.Tanh(),
        )
        shrink(self[5])
        self.reach = reach

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, H, W]` → `[B, 1]`."""
        value: Tensor = super().forward(features)  # type: ignore[no-untyped-call]
        return self.reach * value


class FlatValueHead(nn.Linear):
    """One number in -reach..reach from flat features."""

    def __init__(self, features: int, *, reach: float = 1.0) -> None:
        super().__init__(features, 1)
        shrink(self)
        self.reach = reach

    def forward(self, features: Tensor) -> Tensor:
        """`[B, features]` → `[B, 1]`."""
        return self.reach * super().forward(features).tanh()


def shrink(layer: nn.Module) -> None:
    """Start a head near 0, so that the first policy is near uniform and the first value near even."""
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    nn.init.orthogonal_(layer.weight, gain=0.01)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


def orthogonal(module: nn.Module) -> None:
    """Orthogonal weights, for ReLU, in every layer below."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain=2**0.5)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
