"""Legal lists on the device: padded there from what the environment writes, never cut."""

from __future__ import annotations

from bisect import bisect_left

import torch
from torch import Tensor

WIDTHS = (160, 608)
"""Lists are padded to the first of these that holds the longest; nearly all steps of Shogi fit the first."""


def width_for(longest: int, most: int) -> int:
    """How wide lists are padded whose longest is this, where none can be longer than `most`."""
    widths = [width for width in WIDTHS if width < most]
    return [*widths, most][bisect_left(widths, longest)]


def pad(actions: Tensor, starts: Tensor, lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Lists in one long tensor → `[B, width]` int64 action numbers, and a mask of those that count.

    `actions` holds 16-bit numbers. A lane without any gets action 0, so that there is something to choose.
    """
    column = torch.arange(width, device=actions.device)
    mask = column < lengths[:, None]
    places = (starts[:, None] + column).clamp(max=len(actions) - 1)
    padded = torch.where(mask, actions[places].long() & 0xFFFF, 0)
    return padded, mask | (column == 0)
