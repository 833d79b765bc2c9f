"""Workers only step: this process acts for all blocks in one batch, whose shape and order never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from keisei.collect.block_set import observation_parts, set_rules, step_part
from keisei.collect.blocks import BlockPlayer, BlockRules
from keisei.collect.collector import Compression, as_published
from keisei.collect.past import PastSelves
from keisei.environment import Array, Bool, Environment, Float32, Observation, Step, UInt8, longest_game
from keisei.errors import StateError
from keisei.parallel.crew import Crew
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.past import SharedPast
from keisei.parallel.shared_memory import Slab
from keisei.parallel.slabs import Slabs
from keisei.parallel.turns import GamesLost, NobodyLeft, Turns, turn_layout
from keisei.parallel.work import Task
from keisei.rollout import Rollout


class Stepping:
    """All blocks as one set, whose turns workers take."""

    def __init__(
        self,
        rules: BlockRules,
        *,
        blocks: int,
        buffers: int,
        shared: bool,
        compression: Compression,
        say: Callable[[str], None],
    ) -> None:
        of_set = set_rules(rules, blocks)
        self._rules = replace(of_set, build_frozen=cache(of_set.build_frozen))
        selves = PastSelves(rules.build_policy, rules.past)
        self.past = SharedPast(selves, {}, 0)
        self.player = BlockPlayer(self._rules, selves)
        first = rules.build_environment(0)
        self.slabs = Slabs(turn_layout(first), blocks=blocks, buffers=1, shared=shared)
        first.close()
        self.sync = ModelSynchronizer(as_published(self.player.policy.network.state_dict(), compression), 0)
        self.states: UInt8 = self.player.first_state(0)[None]
        self.missing = 0
        self._ends = self.states.copy()
        layout = self._rules.layout(self.player.environment)
        self._rollouts = [layout.rollout(layout.allocate(1)) for _ in range(buffers)]
        self._blocks = blocks
        self._shared = shared
        self._say = say

    def begin(self, task: Task) -> None:
        """Act with the weights that are published."""
        self.player.policy.network.load_state_dict(self.sync.published())
        self.missing = self._blocks

    def by_workers(self, crew: Crew, task: Task, is_paused: Callable[[], bool]) -> None:
        """Act for all blocks while workers step them, as far as there are workers."""
        slabs = self.slabs.of_buffer[0]
        turns = Turns(crew, slabs, task, shared=self._shared, is_paused=is_paused, say=self._say)
        player = BlockPlayer(
            replace(
                self._rules,
                build_environment=lambda _: SteppedSet(self.player.environment, turns, slabs),
                build_policy=lambda: self.player.policy,
            ),
            self.past.selves,
        )
        while self.missing:
            try:
                self._play(player, task)
            except GamesLost as lost:
                self._say(f"{lost}; the rollout begins again")
            except NobodyLeft:
                return
        for block, place in turns.places.items():
            crew.records[place] = crew.records[place].with_blocks(1, self._share(self._rollouts[task.buffer], block))

    def here(self, task: Task) -> None:
        """Play all blocks in this process."""
        self._play(self.player, task)

    def _play(self, player: BlockPlayer, task: Task) -> None:
        player.play(0, task.iteration, self.states[0], self._ends[0], self._rollouts[task.buffer])
        self.missing = 0

    def commit(self, task: Task) -> Rollout:
        """The set is played: keep where it has come to."""
        self.states[:] = self._ends
        return self._rollouts[task.buffer].as_played()

    def reset(self) -> None:
        """All blocks as they begin."""
        self.states[0] = self.player.first_state(0)
        self.player.forget()

    def _share(self, rollout: Rollout, block: int) -> Rollout:
        """What a block has lived, as far as it is counted."""
        size = self.player.environment.lanes // self._blocks
        lanes = slice(block * size, (block + 1) * size)
        counted = {name: getattr(rollout, name)[:, :, lanes] for name in ("valid", "ended", "reward")}
        return replace(rollout, **counted)


class SteppedSet:
    """A set of blocks as one environment, for one rollout. The environments themselves are those of the workers."""

    def __init__(self, like: Environment, turns: Turns, slabs: Sequence[Slab]) -> None:
        self.copies, self.lanes, self.seats = like.copies, like.lanes, like.seats
        self.groups, self.reasons, self.state_bytes = like.groups, like.reasons, like.state_bytes
        self.longest_game = longest_game(like)
        self._turns = turns
        self._slabs = slabs

    def reset(self, observation: Sequence[Observation]) -> None:
        """Not possible: always raises `StateError`."""
        raise StateError("a set that workers step begins where its states say")

    def observe(self, observation: Sequence[Observation]) -> None:
        """Begin at the states that were loaded, or where the games stand that have none, and write what is seen."""
        self._turns.begin()
        self._show(observation[0])

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Let all blocks take a turn, then write what came of it and what is seen next."""
        self._turns.advance(actions[0])
        size = self.lanes // len(self._slabs)
        for block, slab in enumerate(self._slabs):
            _tell(slab.rollout, step_part(step, slice(block * size, (block + 1) * size)))
        self._show(observation[0])

    def tell(self, ended: Bool, out: Float32) -> None:
        """Write the figures of the games that have just ended."""
        size = self.lanes // len(self._slabs)
        for block, slab in enumerate(self._slabs):
            out[block * size : (block + 1) * size] = slab.rollout.figures[0]

    def save_state(self, out: UInt8) -> None:
        """Write the copies' states."""
        self._turns.save()
        for rows, slab in zip(np.split(out, len(self._slabs)), self._slabs, strict=True):
            rows[:] = slab.end

    def load_state(self, saved: UInt8) -> None:
        """Lay out the states at which the next `observe` begins."""
        for rows, slab in zip(np.split(saved, len(self._slabs)), self._slabs, strict=True):
            slab.start[:] = rows

    def close(self) -> None:
        """Nothing: workers keep their environments."""

    def _show(self, seen: Observation) -> None:
        for part, slab in zip(observation_parts(self.groups[0], seen, len(self._slabs)), self._slabs, strict=True):
            now = slab.rollout.observation_at(1)
            part.values[:], part.seat[:] = now.values, now.seat
            part.legal.offsets[:] = now.legal.offsets
            listed = int(now.legal.offsets[-1]) if len(now.legal.offsets) else len(now.legal.actions)
            part.legal.actions[:listed] = now.legal.actions[:listed]


def _tell(turn: Rollout, step: Step) -> None:
    step.reward[:], step.discount[:] = turn.reward[0, 0], turn.discount[0, 0]
    step.ended[:], step.cut_off[:] = turn.ended[0, 0], turn.cut_off[0, 0]
    step.reason[:], step.length[:] = turn.reason[0, 0], turn.length[0, 0]
    over = step.ended
    step.final[0][over] = turn.final_observation[0, 0][over]
