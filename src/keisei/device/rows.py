"""A rollout on the device, packed as it was lived: what the learner takes its minibatches from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from keisei.device.lists import pad, width_for
from keisei.environment import Array, Bool, Float32, Int64
from keisei.learning.ppo import Batch
from keisei.rollout import Rollout


@dataclass(frozen=True)
class Minibatch:
    """Some rows, filled up to a size with rows that count for nothing."""

    seen: Tensor  # [n, *shape]
    actions: Tensor | None  # [n, L] int64; None where column a is action a
    mask: Tensor  # [n, L]
    choice: Tensor  # [n] int64
    weight: Tensor  # [n] 1 where the row counts, 0 elsewhere
    batch: Batch
    is_usual: bool  # of the shape that nearly all minibatches have


class DeviceRows:
    """What was seen, legal and chosen in all rows `[N · T · B]`, and what is to be learnt of it."""

    def __init__(self, rollout: Rollout, numbers: Float32, device: torch.device) -> None:
        """`numbers [4, N · T · B]` are those of `Batch`, in its order."""
        blocks, steps, lanes = rollout.reward.shape
        self._group = rollout.group
        self._device = device
        self._numbers = torch.from_numpy(numbers).to(device)
        self._choice = torch.from_numpy(rollout.choice.ravel()).to(device)
        self._shape = blocks, steps, lanes
        self._seen = torch.cat([_sent(block, device) for block in rollout.observation[:, :-1]]).flatten(0, 1)
        if self._group.legal == "list":
            self._flat, self._starts, self._lengths = _lists(rollout, device)
            self._most = self._lengths_there(rollout)
        else:
            self._masks = _sent(_masks(rollout), device).flatten(0, 2)
        self.bytes_up = sum(part.numel() * part.element_size() for part in self._parts())

    def _parts(self) -> list[Tensor]:
        legal = [self._flat, self._starts, self._lengths] if self._group.legal == "list" else [self._masks]
        return [self._numbers, self._choice, self._seen, *legal]

    def _lengths_there(self, rollout: Rollout) -> Int64:
        lengths: Int64 = np.diff(rollout.legal_offsets[:, :-1], axis=-1).ravel().astype(np.int64)
        return lengths

    def said(self, rows: Int64) -> Tensor:
        """The log-probabilities of the policy that acted, `[n]`."""
        return self._numbers[0, torch.from_numpy(rows).to(self._device)]

    def say(self, log_probability: Tensor, rows: Int64) -> None:
        """Have these as the log-probabilities of the policy that acted."""
        self._numbers[0, torch.from_numpy(rows).to(self._device)] = log_probability

    def minibatch(self, rows: Int64, size: int) -> Minibatch:
        """Some rows, at most `size` of them, filled up to it."""
        filled = np.zeros(size, np.int64)
        filled[: len(rows)] = rows
        at = torch.from_numpy(filled).to(self._device)
        weight = (torch.arange(size, device=self._device) < len(rows)).float()
        usual = True
        if self._group.legal == "list":
            width = width_for(int(self._most[filled].max()), self._group.most_legal)
            usual = width == width_for(1, self._group.most_legal)
            actions, mask = pad(self._flat, self._starts[at], self._lengths[at], width)
        else:
            actions, mask = None, self._masks[at]
        return Minibatch(
            seen=self._seen[at],
            actions=actions,
            mask=mask,
            choice=self._choice[at].long(),
            weight=weight,
            batch=Batch(*self._numbers[:, at].unbind()),
            is_usual=usual,
        )


def _sent(array: Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def _lists(rollout: Rollout, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """All lists in one, where each row's begins `[N · T · B]`, and how long it is."""
    used = rollout.legal_offsets[:, -2, -1]  # what is legal after the last step is the next rollout's
    before = np.cumsum(used, dtype=np.int64) - used
    flat = [_sent(row[:end].view(np.int16), device) for row, end in zip(rollout.legal_actions, used, strict=True)]
    offsets = rollout.legal_offsets[:, :-1]
    starts = offsets[..., :-1] + before[:, None, None]
    end = [torch.zeros(1, dtype=torch.int16, device=device)]  # so that there is something to point at
    return torch.cat(flat + end), _sent(starts.ravel(), device), _sent(np.diff(offsets, axis=-1).ravel(), device)


def _masks(rollout: Rollout) -> Bool:
    """What is legal in each row `[N, T, B, A]`; a row without any has one that counts for nothing."""
    legal = rollout.legal_actions[:, :-1].view(np.uint8)
    if rollout.group.legal == "bits":
        legal = np.unpackbits(legal, axis=-1, count=rollout.group.actions, bitorder="little")
    mask = legal.view(np.bool_).copy()
    mask[..., 0] |= ~mask.any(-1)
    return mask
