"""Legal lists on the device: padded there from what the environment writes, never cut."""

from __future__ import annotations

import torch
from torch import Tensor

NARROW = 160
"""Lists are padded to so many columns where the longest of a batch fits in; nearly all steps of Shogi do."""


def width_for(longest: int, most: int) -> int:
    """How wide lists are padded whose longest is this, where none can be longer than `most`."""
    return min(NARROW, most) if longest <= NARROW else most


def pad(actions: Tensor, starts: Tensor, lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Lists in one long tensor → `[B, width]` int64 action numbers, and a mask of those that count.

    `actions` holds 16-bit numbers. A lane without any gets action 0, so that there is something to choose.
    """
    column = torch.arange(width, device=actions.device)
    mask = column < lengths[:, None]
    places = (starts[:, None] + column).clamp(max=len(actions) - 1)
    padded = torch.where(mask, actions[places].long() & 0xFFFF, 0)
    return padded, mask | (column == 0)
