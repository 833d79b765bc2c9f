"""From an observation to a decision: masked sampling from the legal actions, its log-probability, and the value.

Everything is said for the seat that decides. Only legal actions ever get a logit, so a decision is never illegal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from keisei.environment import Array, Bool, Float32, Float64, Group, Int32, Int64, Legal, UInt32
from keisei.networks import Network, TwoHeadedNetwork
from keisei.networks.network import ConvolutionalPolicy

LARGEST = 1e30
"""Logits beyond count as this: the difference of two must be a number."""

Encoder = Callable[[Array], Tensor]
"""From observations `[B, …]`, as the environment writes them, to the network's input; valid until the next call."""


def encode_numbers(seen: Array) -> Tensor:
    """Observations of any dtype as the numbers that they are."""
    return torch.from_numpy(np.ascontiguousarray(seen, np.float32))


def number_encoder() -> Encoder:
    """The encoder of games whose observations are numbers."""
    return encode_numbers


class PlanesEncoder:
    """Observations written out as planes, channels last, into memory that is used again and again.

    Fresh memory of that size would cost more than filling it.
    """

    def __init__(self, write: Callable[[Array, Float32], None], shape: tuple[int, int, int]) -> None:
        """`write` fills `[B, *shape]`, shape being height, width, planes."""
        self._write = write
        self._shape = shape
        self._memory = torch.zeros(0)  # aligned as vector instructions like it, which NumPy's would not be

    def __call__(self, seen: Array) -> Tensor:
        """`[B, …]` → `[B, planes, height, width]`, valid until the next call."""
        size = len(seen) * prod(self._shape)
        if size > len(self._memory):
            self._memory = torch.zeros(size)
        planes = self._memory[:size].view(len(seen), *self._shape)
        self._write(seen, planes.numpy())
        return planes.permute(0, 3, 1, 2)


class RowsEncoder:
    """Observations written out as rows of numbers, into memory that is used again and again."""

    def __init__(self, write: Callable[[Array, Float32], None], size: int) -> None:
        """`write` fills `[B, size]`."""
        self._write = write
        self._memory: Float32 = np.zeros((0, size), np.float32)

    def __call__(self, seen: Array) -> Tensor:
        """`[B, …]` → `[B, size]`, valid until the next call."""
        if len(seen) > len(self._memory):
            self._memory = np.zeros((len(seen), self._memory.shape[1]), np.float32)
        rows = self._memory[: len(seen)]
        self._write(seen, rows)
        return torch.from_numpy(rows)


@dataclass(frozen=True)
class LegalChoices:
    """The legal actions of B lanes, padded to the longest list. A lane without any has one that counts for nothing."""

    actions: Tensor | None  # [B, L] int64; None where column a is action a
    mask: Tensor  # [B, L] bool

    def of(self, lanes: Int64) -> LegalChoices:
        """Those of some lanes."""
        actions = None if self.actions is None else torch.from_numpy(self.actions.numpy()[lanes])
        return LegalChoices(actions, torch.from_numpy(self.mask.numpy()[lanes]))


class ListedChoices(LegalChoices):
    """Legal actions as lists that lie one behind the other; padded only for those who ask."""

    def __init__(self, listed: Array, offsets: Int32) -> None:
        """`listed [n] uint16`; lane i may play `listed[offsets[i] - offsets[0]:offsets[i + 1] - offsets[0]]`."""
        self.listed = listed
        self.offsets = offsets

    @cached_property
    def actions(self) -> Tensor:
        """`[B, L]` int64."""
        padded = np.zeros(self._within.shape, np.int64)
        padded[self._within] = self.listed
        return torch.from_numpy(padded)

    @cached_property
    def mask(self) -> Tensor:
        """`[B, L]` bool."""
        mask = self._within.copy()
        mask[:, 0] = True
        return torch.from_numpy(mask)

    @cached_property
    def _within(self) -> Bool:
        lengths = np.diff(self.offsets)
        columns = np.arange(max(1, int(lengths.max(initial=0))), dtype=np.int32)  # far faster than int64
        within: Bool = columns < lengths[:, None]
        return within

    def of(self, lanes: Int64) -> LegalChoices:
        """Those of some lanes."""
        starts, lengths = self.offsets[lanes] - self.offsets[0], self.offsets[lanes + 1] - self.offsets[lanes]
        return choices_of_lists(self.listed[places_in_lists(starts, lengths)], lengths)


@dataclass(frozen=True)
class Decision:
    """What was chosen in B lanes. `choice` is the column among the legal choices, `action` the action's number."""

    choice: Int64
    action: Int64
    log_probability: Float32
    value: Float32


@dataclass(frozen=True)
class Chances:
    """How probable the legal choices of B lanes are; in NumPy, which takes half the time of torch for few lanes."""

    below: Float32  # [B, L] how far a logit lies below the largest of its lane; -inf where it is not legal
    cumulated: Float64  # [B, L] of their exponentials

    @classmethod
    def of(cls, logits: Float32, mask: Bool, temperature: float = 1.0) -> Chances:
        """Those of logits `[B, L]` under a mask."""
        limited = np.minimum(np.maximum(logits, -LARGEST), LARGEST)
        below: Float32 = np.where(mask, limited if temperature == 1 else limited / np.float32(temperature), -np.inf)
        below -= below.max(1, keepdims=True)
        return cls(below, np.add.accumulate(np.exp(below), 1, np.float64))

    def sample(self, uniform: Float32) -> Int64:
        """The first column at which the cumulated weight exceeds its share; never one that weighs nothing."""
        share = uniform * self.cumulated[:, -1]
        chosen: Int64 = (self.cumulated > share[:, None]).argmax(1)
        return chosen

    def decision(self, legal: LegalChoices, choice: Int64, value: Float32) -> Decision:
        """What was chosen in each lane, and how probable it was."""
        lanes = np.arange(len(choice))
        log_probability = self.below[lanes, choice] - np.log(self.cumulated[:, -1])
        action = choice if legal.actions is None else legal.actions.numpy()[lanes, choice]
        return Decision(choice, action, log_probability.astype(np.float32), value)


@dataclass(frozen=True)
class Evaluation:
    """What a network says of B choices made before: with gradients."""

    log_probability: Tensor  # [B]
    entropy: Tensor  # [B], over the legal actions
    value: Tensor  # [B]


class Actor(Protocol):
    """Whoever decides: a network, and what it makes of observations. Lanes do not depend on each other."""

    @property
    def network(self) -> nn.Module:
        """What is published, and saved."""

    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        """One legal action per lane; `uniform [B]` in [0, 1) decides whatever is left to chance."""

    def act_greedily(self, seen: Array, legal: LegalChoices) -> Decision:
        """The best legal action of each lane."""

    def values(self, seen: Array) -> Float32:
        """What the lanes are worth to the seats that decide, `[B]`."""


class Policy:
    """A network, and how its input is made."""

    def __init__(self, network: Network, encode: Encoder, temperature: float = 1.0) -> None:
        self.network = network
        self.encode = encode
        self.temperature = temperature

    @torch.inference_mode()
    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        """Sample one legal action per lane; `uniform [B]` in [0, 1) decides which."""
        logits, value = self.network(self.encode(seen), legal.actions)
        chances = Chances.of(logits.numpy(), legal.mask.numpy(), self.temperature)
        return chances.decision(legal, chances.sample(uniform), value.numpy())

    @torch.inference_mode()
    def act_greedily(self, seen: Array, legal: LegalChoices) -> Decision:
        """Take the most probable legal action of each lane; among equals, the first."""
        logits, value = self.network(self.encode(seen), legal.actions)
        chances = Chances.of(logits.numpy(), legal.mask.numpy())
        return chances.decision(legal, chances.below.argmax(1), value.numpy())

    @torch.inference_mode()
    def values(self, seen: Array) -> Float32:
        """The values `[B]` of what the deciding seats see."""
        values: Float32 = self.network.values(self.encode(seen)).numpy()
        return values

    def evaluate(self, seen: Array, legal: LegalChoices, choice: Tensor) -> Evaluation:
        """What the network now says of earlier choices, with gradients."""
        logits, value = self.network(self.encode(seen), legal.actions)
        log_probability, entropy = _Choice.apply(logits, legal.mask, choice)  # type: ignore[no-untyped-call]
        return Evaluation(log_probability, entropy, value)


Draw = Callable[[Float32, UInt32, Array, Int32, Float32, float], tuple[Int64, Int64, Float32]]
"""From cells `[B, C]`, the cells of each action `[A, P]`, lists and their offsets, `uniform [B]` and a temperature to
actions, places in the lists, and log-probabilities, `[B]` each."""


def cell_head(network: Network) -> ConvolutionalPolicy | None:
    """The policy head of a network whose logits are sums of cells."""
    head = network.policy if isinstance(network, TwoHeadedNetwork) else None
    return head if isinstance(head, ConvolutionalPolicy) else None


class CellPolicy(Policy):
    """A policy whose logits are sums of cells, summed up natively, and only for legal actions: see `Draw`.

    Its chosen actions' log-probabilities are those of `evaluate`, but for the rounding of their last digits.
    """

    def __init__(self, network: Network, encode: Encoder, draw: Draw, temperature: float = 1.0) -> None:
        super().__init__(network, encode, temperature)
        head = cell_head(network)
        assert head is not None
        self._head = head
        self._draw = draw
        self._parts = np.ascontiguousarray(self._head.parts.numpy().T).astype(np.uint32)  # -1 becomes the largest

    @torch.inference_mode()
    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        """Sample one legal action per lane; `uniform [B]` in [0, 1) decides which."""
        assert isinstance(legal, ListedChoices)
        features = self.network.body(self.encode(seen))
        value = self.network.judge_value(features).numpy()
        cells = self._head.cells(features).numpy()
        action, choice, log_probability = self._draw(
            cells, self._parts, legal.listed, legal.offsets, uniform, self.temperature
        )
        return Decision(choice, action, log_probability, value)


class _Choice(torch.autograd.Function):
    """Log-probability of choices and entropy over legal actions, with their gradients: one node of a graph, not ten.

    Inside, actions come first: sums over short rows are slow, those over columns are not.
    """

    @staticmethod
    def forward(context: FunctionCtx, logits: Tensor, mask: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
        """`logits [B, L]`, `mask [B, L]`, `choice [B]` → `[B]`, `[B]`."""
        log_probabilities = masked(logits, mask).T.contiguous().log_softmax(0)
        probabilities = log_probabilities.exp()
        finite = log_probabilities.clamp(min=-LARGEST)  # 0 · -inf is not a number
        entropy = -(probabilities * finite).sum(0)
        context.save_for_backward(probabilities, finite, entropy, choice)
        return finite.gather(0, choice[None]).squeeze(0), entropy

    @staticmethod
    def backward(context: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """`∂ log p_c / ∂ z_j = [j = c] - p_j`, `∂ H / ∂ z_j = -p_j · (log p_j + H)`."""
        probabilities, finite, entropy, choice = context.saved_tensors  # type: ignore[attr-defined]
        of_choice, of_entropy = gradients
        by_logits = -probabilities * (of_choice + of_entropy * (finite + entropy))
        return by_logits.scatter_add_(0, choice[None], of_choice[None]).T, None, None


def masked(logits: Tensor, mask: Tensor) -> Tensor:
    """The logits `[B, L]` under the mask, within what can be subtracted; -inf elsewhere."""
    return logits.clamp(-LARGEST, LARGEST).masked_fill_(~mask, -torch.inf)


def legal_choices(group: Group, legal: Legal) -> LegalChoices:
    """The legal actions of a group's lanes as tensors."""
    if group.legal == "list":
        return ListedChoices(legal.actions[: legal.offsets[-1]], legal.offsets)
    if group.legal == "mask":
        mask = legal.actions.view(np.bool_)
    else:
        packed = legal.actions.view(np.uint8)
        mask = np.unpackbits(packed, axis=1, count=group.actions, bitorder="little").view(np.bool_)
    return choices_of_mask(mask)


def choices_of_mask(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> LegalChoices:
    """Choices whose column a is action a; `mask [B, A]`."""
    empty = ~mask.any(1)
    if empty.any():
        mask = mask.copy()
        mask[empty, 0] = True
    return LegalChoices(None, torch.from_numpy(mask))


def choices_of_lists(actions: Array, lengths: Int32 | Int64) -> ListedChoices:
    """Choices of lists that lie one behind the other; `lengths [B]`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return ListedChoices(actions, offsets)


def places_in_lists(starts: Int32 | Int64, lengths: Int32 | Int64) -> Int64:
    """Where the entries of lists lie that begin anywhere, one list after the other."""
    ends = np.cumsum(lengths, dtype=np.int64)
    places: Int64 = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    return places
