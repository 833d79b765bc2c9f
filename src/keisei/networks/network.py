"""What every network has in common: a body, a policy head and a value head. No row depends on another row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional


class Network(nn.Module, ABC):
    """A body, and heads that judge its features. Values, in -reach..reach, and logits are the deciding seat's."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    @abstractmethod
    def judge(self, features: Tensor, actions: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the heads say of features `[B, …]`: logits `[B, L]` and values `[B]`."""

    @abstractmethod
    def judge_value(self, features: Tensor) -> Tensor:
        """The values `[B]` alone."""

    def forward(self, seen: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`seen [B, …]`, `actions [B, L]` (None: all in order) → logits `[B, L]` and values `[B]`."""
        return self.judge(self.body(seen), actions)

    def values(self, seen: Tensor) -> Tensor:
        """The values `[B]` of what is seen."""
        return self.judge_value(self.body(seen))


class TwoHeadedNetwork(Network):
    """One head for the policy, one for the value."""

    def __init__(self, body: nn.Module, policy: nn.Module, value: nn.Module) -> None:
        super().__init__(body)
        self.policy = policy
        self.value = value

    def judge(self, features: Tensor, actions: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the heads say of features `[B, …]`: logits `[B, L]` and values `[B]`."""
        return self.policy(features, actions), self.judge_value(features)

    def judge_value(self, features: Tensor) -> Tensor:
        """The values `[B]` alone."""
        value: Tensor = self.value(features).squeeze(-1)
        return value


class DenseNetwork(Network):
    """Both heads in one fully connected layer: on small networks two would take nearly twice as long."""

    def __init__(self, body: nn.Module, features: int, actions: int, *, reach: float = 1.0) -> None:
        super().__init__(body)
        self.heads = nn.Linear(features, actions + 1)  # the last one says the value
        self.reach = reach
        _shrink_rows(self.heads.weight[:-1])
        _shrink_rows(self.heads.weight[-1:])
        nn.init.zeros_(self.heads.bias)

    def judge(self, features: Tensor, actions: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the heads say of features `[B, features]`: logits `[B, L]` and values `[B]`."""
        said = functional.linear(features, self.heads.weight, self.heads.bias)
        logits = said[:, :-1]
        return logits if actions is None else logits.gather(1, actions), self.reach * said[:, -1].tanh()

    def judge_value(self, features: Tensor) -> Tensor:
        """The values `[B]`, with the digits that they have beside logits."""
        return self.judge(features, None)[1]


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


def shrink(layer: nn.Module) -> None:
    """Start a head near 0, so that the first policy is near uniform and the first value near even."""
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    _shrink_rows(layer.weight)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


@torch.no_grad()
def _shrink_rows(weight: Tensor) -> None:
    nn.init.orthogonal_(weight, gain=0.01)


def orthogonal(module: nn.Module) -> None:
    """Orthogonal weights, for ReLU, in every layer below."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain=2**0.5)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
