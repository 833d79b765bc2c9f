"""What blocks lived in one iteration, as arrays with shapes. One flat piece of memory holds a block's share of it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

import numpy as np

from keisei.environment import NO_SEAT, Array, Bool, Float32, Group, Int32, Int64, Legal, Observation, UInt8
from keisei.policy import LegalChoices, ListedChoices, choices_of_lists, choices_of_mask, places_in_lists

_ALIGNMENT = 64


@dataclass(frozen=True)
class Rollout:
    """N blocks of B lanes over T steps, for one learner. Rewards, values and signs are those of the seat that decides.

    Row T of what is seen belongs to the next rollout; here it gives the bootstrap value.
    """

    group: Group
    observation: Array  # [N, T + 1, B, *shape], as the environment writes it
    seat: Array  # [N, T + 1, B] int8
    legal_actions: Array  # list: [N, capacity] uint16; mask: [N, T + 1, B, A] uint8; bits likewise
    legal_offsets: Int32  # list: [N, T + 1, B + 1], where in `legal_actions[n]` the lanes' lists lie; else [N, 0]
    choice: Int32  # [N, T, B] the column among the legal choices
    log_probability: Float32  # [N, T, B] under the policy that acted
    value: Float32  # [N, T, B]
    bootstrap: Float32  # [N, B] the value of row T
    reward: Float32  # [N, T, B]
    discount: Float32  # [N, T, B] +1, -1 or 0
    ended: Bool  # [N, T, B]
    cut_off: Bool  # [N, T, B]
    final_value: Float32  # [N, T, B] of the last position of games that were cut off; elsewhere 0
    final_observation: Array  # [N, T, B, *shape] that position, where `cut_off`; [N, 0] where no learner wants it
    acted: Bool  # [N, T, B] whether this row is a decision to learn from
    valid: Bool  # [N, T, B] whether the lane was played in this step at all
    reason: UInt8  # [N, T, B]
    length: Int32  # [N, T, B]
    figures: Float32  # [N, B, F] the group's figures, summed over the games that ended in each lane; [N, 0] without any

    @property
    def used_bytes(self) -> int:
        """How much of a block's memory is written, for a rollout of one block: lists lie last, and are seldom long."""
        return RolloutLayout(self.group, self.reward.shape[1], finals=self.has_finals).used_bytes(self)

    @property
    def has_finals(self) -> bool:
        """Whether the last positions of games that were cut off are kept."""
        return self.final_observation.shape[1:] != (0,)

    @property
    def steps(self) -> int:
        """How many steps of lanes were played."""
        return int(np.count_nonzero(self.valid))

    def block(self, first: int, end: int | None = None) -> Rollout:
        """The share of one block, or of several that follow each other."""
        last = first + 1 if end is None else end
        return Rollout(self.group, **{name: getattr(self, name)[first:last] for name in ARRAYS})

    def until(self, steps: int) -> Rollout:
        """The first steps of all blocks; whole lists, since they lie one behind the other."""
        shown = {name: getattr(self, name)[:, : steps + (name in _SEEN)] for name in _TIMED}
        if self.group.legal != "list":
            shown["legal_actions"] = self.legal_actions[:, : steps + 1]
        return replace(self, **shown)

    def as_played(self) -> Rollout:
        """Without the steps at the end in which nobody played."""
        return self.until(int(np.count_nonzero(self.valid.any(axis=(0, 2)))))

    def of_lanes(self, lanes: slice) -> Rollout:
        """The share of some lanes of each block, as of one agent in its worlds, without a copy; not for legal lists."""
        assert self.group.legal != "list", "lists of several lanes lie one behind the other"
        absent = {"legal_offsets", *(() if self.has_finals else ("final_observation",))}
        shown = {name: getattr(self, name)[:, :, lanes] for name in {*_TIMED, "legal_actions"} - absent}
        shown["bootstrap"] = self.bootstrap[:, lanes]
        if self.group.figures:
            shown["figures"] = self.figures[:, lanes]
        return replace(self, **shown, group=replace(self.group, lanes=self.group.lanes[lanes]))

    def leave_out(self, first: int) -> None:
        """Mark the steps from this one on as not played; for a rollout of one block."""
        for name in set(_TIMED) - set(_SEEN):
            getattr(self, name)[0, first:] = 0
        self.seat[0, first + 1 :] = NO_SEAT
        if self.group.legal == "list":
            self.legal_offsets[0, first + 1 :] = self.legal_offsets[0, first, -1]

    def observation_at(self, step: int) -> Observation:
        """Where the environment writes what is seen before a step; for a rollout of one block."""
        values, seat = self.observation[0, step], self.seat[0, step].view(np.int8)
        if self.group.legal != "list":
            return Observation(values, Legal(self.legal_actions[0, step], self.legal_offsets[0]), seat)
        offsets = self.legal_offsets[0]
        start = 0 if step == 0 else int(offsets[step - 1, -1])
        room = seat.size * self.group.most_legal
        return Observation(values, Legal(self.legal_actions[0, start : start + room], offsets[step]), seat)

    def place_lists(self, step: int) -> None:
        """Turn the offsets that the environment wrote for a step into places in the block's memory."""
        if self.group.legal == "list" and step > 0:
            self.legal_offsets[0, step] += self.legal_offsets[0, step - 1, -1]

    def choices_at(self, step: int) -> LegalChoices:
        """The legal choices before a step, for a rollout of one block; after `place_lists`."""
        if self.group.legal != "list":
            return choices_of_mask(_mask(self.group, self.legal_actions[0, step]))
        offsets = self.legal_offsets[0, step]
        return ListedChoices(self.legal_actions[0, offsets[0] : offsets[-1]], offsets)

    def choices_of(self, rows: Int64) -> LegalChoices:
        """The legal choices of any rows, numbered over [N, T, B]."""
        blocks, steps, lanes = np.unravel_index(rows, self.reward.shape)
        if self.group.legal != "list":
            return choices_of_mask(_mask(self.group, self.legal_actions[blocks, steps, lanes]))
        starts = self.legal_offsets[blocks, steps, lanes].astype(np.int64)
        lengths = self.legal_offsets[blocks, steps, lanes + 1] - starts
        actions = self.legal_actions[np.repeat(blocks, lengths), places_in_lists(starts, lengths)]
        return choices_of_lists(actions, lengths)

    def observations_of(self, rows: Int64) -> Array:
        """What was seen in any rows, numbered over [N, T, B]: `[len(rows), *shape]`."""
        return self.observation[np.unravel_index(rows, self.reward.shape)]


ARRAYS = [field.name for field in fields(Rollout) if field.name != "group"]
_SEEN = ("observation", "seat", "legal_offsets")
"""Of these there is one more row than steps."""
_TIMED = [name for name in ARRAYS if name not in ("legal_actions", "bootstrap", "figures")]
"""These have a row for each step, or none at all."""


class RolloutLayout:
    """Where the arrays of a block lie in its flat memory; `finals` is for learners that look at last positions."""

    def __init__(self, group: Group, steps: int, *, finals: bool = False) -> None:
        self.group = group
        self.steps = steps
        self._places: dict[str, tuple[int, tuple[int, ...], np.dtype[np.generic]]] = {}
        at = 0
        for name, (shape, dtype) in _shapes(group, steps, len(group.lanes), finals).items():
            self._places[name] = at, shape, dtype
            at += -(-prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.bytes = at

    @property
    def description(self) -> str:
        """Every array, with its shape and dtype, in the order in which they lie."""
        return ", ".join(f"{name} {dtype.str}{list(shape)}" for name, (_, shape, dtype) in self._places.items())

    def allocate(self, blocks: int) -> UInt8:
        """Memory for so many blocks; what is not written costs nothing."""
        return np.zeros((blocks, self.bytes), np.uint8)

    def rollout(self, memory: UInt8) -> Rollout:
        """The arrays of all blocks in `memory [N, bytes]`, without a copy."""
        views: dict[str, Any] = {name: self._view(memory, name) for name in self._places}  # each of its own dtype
        return Rollout(self.group, **views)

    def used_bytes(self, block: Rollout) -> int:
        """How much of a block's memory is written."""
        at, _, dtype = self._places["legal_actions"]
        return at + int(block.legal_offsets[0, -1, -1]) * dtype.itemsize if self.group.legal == "list" else self.bytes

    def _view(self, memory: UInt8, name: str) -> Array:
        at, shape, dtype = self._places[name]
        end = at + prod(shape) * dtype.itemsize
        inner = np.lib.stride_tricks.as_strided  # a block's share is contiguous; blocks are `bytes` apart
        flat = memory[:, at:end].view(dtype) if end > at else np.zeros((len(memory), 0), dtype)
        strides = np.zeros(shape, dtype).strides if prod(shape) == 0 else _strides(shape, dtype.itemsize)
        view: Array = inner(flat, (len(memory), *shape), (memory.strides[0], *strides), writeable=True)
        return view


def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def _shapes(
    group: Group, steps: int, lanes: int, finals: bool
) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    seen, done = (steps + 1, lanes), (steps, lanes)
    listed = group.legal == "list"
    width = group.actions if group.legal == "mask" else -(-group.actions // 8)
    # The last step's lists need room for the most that can be, wherever the lists before them end.
    legal = ((steps + 1) * lanes * group.most_legal,) if listed else (*seen, width)
    float32, flag = np.dtype(np.float32), np.dtype(np.bool_)
    return {
        "observation": ((*seen, *group.shape), group.dtype),
        "seat": (seen, np.dtype(np.int8)),
        "legal_offsets": ((steps + 1, lanes + 1) if listed else (0,), np.dtype(np.int32)),
        "choice": (done, np.dtype(np.int32)),
        "log_probability": (done, float32),
        "value": (done, float32),
        "bootstrap": ((lanes,), float32),
        "reward": (done, float32),
        "discount": (done, float32),
        "ended": (done, flag),
        "cut_off": (done, flag),
        "final_value": (done, float32),
        "final_observation": ((*done, *group.shape) if finals else (0,), group.dtype),
        "acted": (done, flag),
        "valid": (done, flag),
        "reason": (done, np.dtype(np.uint8)),
        "length": (done, np.dtype(np.int32)),
        "figures": ((lanes, len(group.figures)) if group.figures else (0,), float32),
        "legal_actions": (legal, np.dtype(np.uint16 if listed else np.uint8)),  # last: lists seldom fill it
    }


def _mask(group: Group, legal: Array) -> Bool:
    if group.legal == "mask":
        return legal.view(np.bool_)
    unpacked = np.unpackbits(legal.view(np.uint8), axis=-1, count=group.actions, bitorder="little")
    return unpacked.view(np.bool_)
