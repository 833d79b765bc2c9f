"""What crosses to the device for an acting step, and back: one piece of memory each way, pinned for a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from keisei.environment import Array, Float32, Group
from keisei.policy import Decision, ListedChoices


@dataclass(frozen=True)
class Buffers:
    """The input of one acting step for so many rows, whose lists fit a width; all lie in `whole`, lists last."""

    whole: Tensor  # [bytes] uint8
    starts: Tensor  # [rows] int32
    lengths: Tensor  # [rows] int32
    uniform: Tensor  # [rows] float32
    seen: Tensor  # [rows, *shape]
    actions: Tensor  # [rows · width] int16
    head: int  # so many bytes lie before the lists

    group: Group

    @classmethod
    def of(cls, group: Group, rows: int, width: int, device: torch.device, *, pinned: bool = False) -> Buffers:
        """Memory for them."""
        dtype = torch.from_numpy(np.zeros(0, group.dtype)).dtype
        observed = prod(group.shape) * dtype.itemsize
        sizes = [4 * rows, 4 * rows, 4 * rows, -(-observed * rows // 16) * 16, 2 * rows * width]
        ends = np.cumsum(sizes).tolist()
        whole = torch.zeros(ends[-1], dtype=torch.uint8, device=device, pin_memory=pinned)
        starts, lengths, uniform, seen, actions = (
            whole[end - size : end] for size, end in zip(sizes, ends, strict=True)
        )
        return cls(
            whole=whole,
            starts=starts.view(torch.int32),
            lengths=lengths.view(torch.int32),
            uniform=uniform.view(torch.float32),
            seen=seen[: observed * rows].view(dtype).view(rows, *group.shape),
            actions=actions.view(torch.int16),
            head=ends[-2],
            group=group,
        )

    def alike(self) -> Buffers:
        """Other memory of the same shape on the same device."""
        return Buffers.of(self.group, len(self.starts), len(self.actions) // len(self.starts), self.whole.device)

    def fill(self, seen: Array, legal: ListedChoices, uniform: Float32) -> int:
        """Write a batch of at most as many rows; gives how many bytes of `whole` say something."""
        count, listed = len(seen), len(legal.listed)
        self.starts.numpy()[:count] = legal.offsets[:-1] - legal.offsets[0]
        self.lengths.numpy()[:count], self.lengths.numpy()[count:] = np.diff(legal.offsets), 0
        self.uniform.numpy()[:count] = uniform
        self.seen.numpy()[:count] = seen
        self.actions.numpy()[:listed] = legal.listed.view(np.int16)
        return self.head + 2 * listed

    def copy_from(self, other: Buffers, size: int) -> None:
        """Have the same first bytes as another one."""
        self.whole[:size].copy_(other.whole[:size], non_blocking=True)


def packed_answer(choice: Tensor, action: Tensor, log_probability: Tensor, value: Tensor) -> Tensor:
    """What comes back, `[4, rows]` int32: the bits of floats as they are."""
    return torch.stack([choice.int(), action.int(), log_probability.view(torch.int32), value.float().view(torch.int32)])


def read_answer(answer: Tensor, count: int) -> Decision:
    """The decisions of the first rows, in memory of their own."""
    choice, action, log_probability, value = answer.numpy()[:, :count]
    return Decision(
        choice=choice.astype(np.int64),
        action=action.astype(np.int64),
        log_probability=log_probability.view(np.float32).copy(),
        value=value.view(np.float32).copy(),
    )
