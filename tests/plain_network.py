"""Networks whose logits and values are written by hand: what is seen *is* the logits, and a value behind them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from keisei.environment import Array, Bool, Float32, Group, Legal, LegalForm
from keisei.networks import TwoHeadedNetwork
from keisei.policy import LegalChoices, Policy, encode_numbers, legal_choices


class FirstNumbers(nn.Module):
    """All that is seen but the last number, as logits."""

    def forward(self, seen: Tensor, actions: Tensor | None) -> Tensor:
        logits = seen[:, :-1]
        return logits if actions is None else logits.gather(1, actions)


class LastNumber(nn.Module):
    def forward(self, seen: Tensor) -> Tensor:
        return seen[:, -1:]


def reading_policy(temperature: float = 1.0) -> Policy:
    """A policy that reads its logits and its value from what it sees `[B, A + 1]`."""
    return Policy(TwoHeadedNetwork(nn.Identity(), FirstNumbers(), LastNumber()), encode_numbers, temperature)


def seen(logits: Sequence[Sequence[float]] | Array, value: float = 0.25) -> Float32:
    """What makes a reading policy say this."""
    rows = np.array(logits, np.float32)
    return np.concatenate([rows, np.full((len(rows), 1), value, np.float32)], axis=1)


def choices(mask: Bool, form: LegalForm) -> LegalChoices:
    """Legal choices `[B, A]`, told in one of the forms of an environment."""
    lanes, actions = mask.shape
    group = Group(np.arange(lanes, dtype=np.int32), (actions + 1,), np.dtype(np.float32), actions, form, actions)
    return legal_choices(group, told(mask, form))


def told(mask: Bool, form: LegalForm) -> Legal:
    """Legal actions `[B, A]` as an environment tells them."""
    if form == "mask":
        return Legal(mask.astype(np.uint8), np.zeros(0, np.int32))
    if form == "bits":
        return Legal(np.packbits(mask, axis=1, bitorder="little"), np.zeros(0, np.int32))
    listed = np.full(mask.size, 0xFFFF, np.uint16)  # more room than there are moves
    listed[: mask.sum()] = np.nonzero(mask)[1]
    return Legal(listed, np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32))


def double_log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities of one row, in double precision, by their definition."""
    numbers = logits.double()
    shifted = numbers - numbers.max()
    return shifted - torch.log(torch.exp(shifted).sum())


class Preferences(nn.Module):
    """The same logits whatever is seen, so far apart that the highest legal one, or the lowest, is certain."""

    def __init__(self, actions: int, sign: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(100.0 * sign * torch.arange(actions))

    def forward(self, seen: Tensor, actions: Tensor | None) -> Tensor:
        return self.logits.expand(len(seen), -1) if actions is None else self.logits[actions]


class OneValue(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([value]))

    def forward(self, seen: Tensor) -> Tensor:
        return self.value.expand(len(seen), 1)


def stubborn_policy(actions: int, sign: int, value: float = 0.5) -> Policy:
    """A policy that always plays its highest legal action, or with sign -1 its lowest."""
    return Policy(TwoHeadedNetwork(nn.Identity(), Preferences(actions, sign), OneValue(value)), encode_numbers)
