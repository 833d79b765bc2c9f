"""Sets of blocks: blocks that follow each other, played as one, so that whoever acts does so for all in one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from keisei.collect.blocks import BlockRules
from keisei.collect.collector import BuildEnvironment
from keisei.collect.frozen import ChooseFrozen
from keisei.collect.loop import ABSENT, Frozen
from keisei.environment import (
    Array,
    Bool,
    Environment,
    Float32,
    Group,
    Legal,
    Observation,
    Step,
    Telling,
    UInt8,
    longest_game,
)
from keisei.policy import Actor


def set_rules(rules: BlockRules, blocks: int) -> BlockRules:
    """The rules of sets of so many blocks, from those of the blocks."""
    return replace(
        rules,
        build_environment=partial(BlockSet, rules.build_environment, blocks),
        build_frozen=partial(_build_frozen, rules.build_frozen, blocks),
    )


class BlockSet:
    """The environments of some blocks as one. All but the first are built when they are needed."""

    def __init__(self, build: BuildEnvironment, blocks: int, first_lane: int) -> None:
        first = build(first_lane)
        self._build = build
        self._first_lane = first_lane
        self._block_lanes = first.lanes
        self._blocks = blocks
        self._environments = [first]
        self._at = 0  # the block at work
        self.copies, self.lanes = blocks * first.copies, blocks * first.lanes
        self.seats, self.reasons, self.state_bytes = first.seats, first.reasons, first.state_bytes
        self.groups = (set_group(first.groups[0], blocks),)
        self.longest_game = longest_game(first)

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every copy anew, and write what is seen."""
        with self._saying_where():
            for seen, environment in zip(self._parts(observation), self._numbered(), strict=True):
                environment.reset((seen,))

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what is seen now."""
        with self._saying_where():
            for seen, environment in zip(self._parts(observation), self._numbered(), strict=True):
                environment.observe((seen,))

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per lane, block by block; where one refuses its actions, those before it have played."""
        with self._saying_where():
            for seen, environment in zip(self._parts(observation), self._numbered(), strict=True):
                lanes = slice(self._at * self._block_lanes, (self._at + 1) * self._block_lanes)
                environment.step((actions[0][lanes],), step_part(step, lanes), (seen,))

    def tell(self, ended: Bool, out: Float32) -> None:
        """Write the figures of the games that have just ended."""
        with self._saying_where():
            for number, environment in enumerate(self._numbered()):
                lanes = slice(number * self._block_lanes, (number + 1) * self._block_lanes)
                assert isinstance(environment, Telling)
                environment.tell(ended[lanes], out[lanes])

    def save_state(self, out: UInt8) -> None:
        """Write the copies' states."""
        with self._saying_where():
            for rows, environment in zip(np.split(out, self._blocks), self._numbered(), strict=True):
                environment.save_state(rows)

    def load_state(self, saved: UInt8) -> None:
        """Go back to saved states."""
        with self._saying_where():
            for rows, environment in zip(np.split(saved, self._blocks), self._numbered(), strict=True):
                environment.load_state(rows)

    def close(self) -> None:
        """Close the environments of all blocks; may be called twice."""
        for environment in self._environments:
            environment.close()

    def _numbered(self) -> Iterator[Environment]:
        """The environments, one after the other; `_at` is which."""
        for number in range(self._blocks):
            self._at = number
            if number == len(self._environments):
                self._environments.append(self._build(self._first_lane + number * self._block_lanes))
            yield self._environments[number]

    @contextmanager
    def _saying_where(self) -> Iterator[None]:
        """Let what goes wrong in a block say in which."""
        try:
            yield
        except Exception as error:
            error.add_note(f"in block {self._first_lane // self._block_lanes + self._at}")
            raise

    def _parts(self, observation: Sequence[Observation]) -> Iterator[Observation]:
        return observation_parts(self.groups[0], observation[0], self._blocks)


def set_group(block: Group, blocks: int) -> Group:
    """The lanes of so many blocks, from those of one."""
    return replace(block, lanes=np.arange(blocks * len(block.lanes), dtype=np.int32))


def observation_parts(group: Group, seen: Observation, blocks: int) -> Iterator[Observation]:
    """Where each block of a set writes what its lanes see; it must be written before the next one is asked for."""
    size, listed = len(seen.seat) // blocks, 0
    for first in range(0, len(seen.seat), size):
        lanes = slice(first, first + size)
        if group.legal != "list":
            legal = Legal(seen.legal.actions[lanes], seen.legal.offsets)
            yield Observation(seen.values[lanes], legal, seen.seat[lanes])
            continue
        offsets = seen.legal.offsets[first : first + size + 1]
        legal = Legal(seen.legal.actions[listed : listed + size * group.most_legal], offsets)
        yield Observation(seen.values[lanes], legal, seen.seat[lanes])
        offsets += listed  # a block counts from its own first action
        listed = int(offsets[-1])


def step_part(step: Step, lanes: slice) -> Step:
    """Where one block of a set writes what came of a step."""
    return Step(
        reward=step.reward[lanes],
        discount=step.discount[lanes],
        ended=step.ended[lanes],
        cut_off=step.cut_off[lanes],
        reason=step.reason[lanes],
        length=step.length[lanes],
        final=(step.final[0][lanes],),
    )


@dataclass(frozen=True)
class _FrozenOfSets:
    """The frozen opponents of all blocks of a set; one that plays in several blocks acts for them in one batch."""

    choose: ChooseFrozen
    blocks: int

    def __call__(self, number: int, iteration: int) -> Sequence[Frozen]:
        drawn = [self.choose(number * self.blocks + block, iteration) for block in range(self.blocks)]
        seats: dict[Actor, list[tuple[int, Frozen]]] = {}
        for block, opponents in enumerate(drawn):
            for opponent in opponents:
                seats.setdefault(opponent.policy, []).append((block, opponent))
        return [self._in_set(policy, played) for policy, played in seats.items()]

    def _in_set(self, policy: Actor, played: Sequence[tuple[int, Frozen]]) -> Frozen:
        size = len(played[0][1].seat)
        seat = np.full(self.blocks * size, ABSENT, np.int8)
        for block, opponent in played:
            seat[block * size : (block + 1) * size] = opponent.seat
        return Frozen(policy, seat)


def _build_frozen(build: Callable[[Sequence[Actor]], ChooseFrozen], blocks: int, past: Sequence[Actor]) -> ChooseFrozen:
    return _FrozenOfSets(build(past), blocks)
