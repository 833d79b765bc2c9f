"""What one agent has lived, for learning from it again: its last decisions, and windows of a few of them.

Each lane of the agent has a ring of its own, in which its decisions follow each other; what is seen after one is what
is seen before the next, so it is kept once. A position at which a game was cut off is a row of its own, without an
action. A memory belongs to one learner, who alone writes and reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from keisei.environment import Array, Bool, Float32, Group, Int64, UInt8
from keisei.errors import CheckpointError
from keisei.replay.decisions import Decisions, decisions
from keisei.replay.priorities import Priorities
from keisei.rollout import Rollout

NOTHING = -1
"""In place of an action: nobody decides here, the row is only looked at."""


@dataclass(frozen=True)
class Windows:
    """Decisions, what the next `steps` of them paid, and what was seen then: `worth = reward + factor · next worth`."""

    rows: Int64  # [n] where in the memory they begin
    seen: Array  # [n, *shape]
    action: Int64  # [n]
    reward: Float32  # [n] of all steps, discounted
    factor: Float32  # [n] what the worth at the end counts to who decided: γ and signs of all steps, 0 after an end
    next_seen: Array  # [n, *shape]
    next_legal: Bool  # [n, A]
    weight: Float32  # [n] 1, or what makes up for sampling some more often; the largest is 1


class ReplayMemory:
    """The last decisions of one agent, `capacity` of them in all its lanes together."""

    def __init__(
        self,
        group: Group,
        *,
        lanes: int,
        capacity: int,
        steps: int,
        gamma: float,
        priorities: Priorities | None = None,
    ) -> None:
        """`steps` is how many decisions a window goes over; each lane keeps at least one more than that."""
        depth = max(-(-capacity // lanes), steps + 1)
        self.steps, self.gamma, self.group = steps, gamma, group
        self.observation = np.zeros((lanes, depth, *group.shape), group.dtype)
        self.legal: UInt8 = np.zeros((lanes, depth, -(-group.actions // 8)), np.uint8)  # as bits
        self.action: Int64 = np.full((lanes, depth), NOTHING, np.int64)
        self.reward: Float32 = np.zeros((lanes, depth), np.float32)
        self.factor: Float32 = np.zeros((lanes, depth), np.float32)
        self.written: Int64 = np.zeros(lanes, np.int64)  # rows that each lane has had, kept or not
        self.open: Bool = np.zeros(lanes, np.bool_)  # whether the last decision's outcome is not complete
        self._starts: Int64 = np.zeros(0, np.int64)
        self.priorities = priorities
        if priorities:
            priorities.make_room(lanes * depth)

    def __len__(self) -> int:
        """How many windows there are to sample."""
        return len(self._starts)

    # --- storing -----------------------------------------------------------------------------------------------------

    def store(self, rollout: Rollout) -> None:
        """Keep what a rollout of this agent's lanes holds: `N · B` of them, in that order."""
        new = decisions(rollout, self.gamma)
        self._finish_open(new)
        if len(new.lane):
            self._write(rollout, new)
        self._mark()

    def _finish_open(self, new: Decisions) -> None:
        """What came before a lane's first new decision belongs to its last old one."""
        lanes = np.flatnonzero(self.open)
        places = lanes, (self.written[lanes] - 1) % self.action.shape[1]
        factor = self.factor[places]
        self.reward[places] += factor * new.first_reward[lanes]
        self.factor[places] = factor * new.first_factor[lanes]
        self.open[lanes] = self.factor[places] != 0

    def _write(self, rollout: Rollout, new: Decisions) -> None:
        depth = self.action.shape[1]
        number = self.written[new.lane] + new.place
        self.written += new.count
        kept = number >= self.written[new.lane] - depth
        lane, slot = new.lane[kept], number[kept] % depth
        row, final = new.row[kept], new.final[kept]
        self.action[lane, slot] = np.where(final, NOTHING, new.action[kept])
        self.reward[lane, slot] = np.where(final, np.float32(0), new.reward[kept])
        self.factor[lane, slot] = np.where(final, np.float32(1), new.factor[kept])
        self.legal[lane, slot] = new.legal[kept]
        seen, last = ~final, np.flatnonzero(final)
        self.observation[lane[seen], slot[seen]] = rollout.observations_of(row[seen])
        if len(last):
            places = np.unravel_index(row[last], rollout.reward.shape)
            self.observation[lane[last], slot[last]] = rollout.final_observation[places]
        self.open = np.where(new.count > 0, new.goes_on, self.open)
        if self.priorities:
            self.priorities.forget(lane * depth + slot)

    def _mark(self) -> None:
        """Find the windows whose outcome is known."""
        lanes, depth = self.action.shape
        known = self.action != NOTHING
        every = np.arange(lanes)
        ended = np.zeros(lanes, np.bool_)
        for back in range(1, self.steps + 1):  # the last rows of each lane, from the newest on
            place = every, (self.written - back) % depth
            ended |= (self.action[place] == NOTHING) | (self.factor[place] == 0)
            known[place] &= ended & (self.written >= back)
        self._starts = np.flatnonzero(known)
        if self.priorities:
            self.priorities.welcome(known.ravel())

    # --- sampling ----------------------------------------------------------------------------------------------------

    def sample(self, count: int, generator: np.random.Generator, beta: float = 1.0) -> Windows:
        """So many windows, drawn uniformly or by priority; `beta` is how far weights make up for that."""
        if self.priorities is None:
            rows = self._starts[generator.integers(len(self._starts), size=count)]
            return self.windows(rows, np.ones(count, np.float32))
        rows = self.priorities.sample(count, generator)
        return self.windows(rows, self.priorities.weights(rows, beta))

    def windows(self, rows: Int64, weight: Float32) -> Windows:
        """The windows that begin in these rows."""
        depth = self.action.shape[1]
        lane, slot = np.divmod(rows, depth)
        first = slot
        reward, factor = np.zeros(len(rows), np.float32), np.ones(len(rows), np.float32)
        for _ in range(self.steps):
            reward += factor * self.reward[lane, slot]
            factor *= self.factor[lane, slot]
            slot = np.where(self.action[lane, slot] == NOTHING, slot, (slot + 1) % depth)
        legal = np.unpackbits(self.legal[lane, slot], axis=1, count=self.group.actions, bitorder="little")
        return Windows(
            rows=rows,
            seen=self.observation[lane, first],
            action=self.action[lane, first],
            reward=reward,
            factor=factor,
            next_seen=self.observation[lane, slot],
            next_legal=legal.view(np.bool_),
            weight=weight,
        )

    # --- saving ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that the memory holds; shares its memory."""
        return {name: torch.from_numpy(array) for name, array in self._arrays().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a saved state; raises CheckpointError, and changes nothing, where it is another memory's."""
        arrays = self._arrays()
        for name, array in arrays.items():
            found = tensors[name].numpy() if name in tensors else None
            if found is None or found.shape != array.shape or found.dtype != array.dtype:
                what = "nothing" if found is None else f"{found.dtype} {list(found.shape)}"
                raise CheckpointError(f"expected {array.dtype} {list(array.shape)} as {name} of a memory, found {what}")
        for name, array in arrays.items():
            array[...] = tensors[name].numpy()
        if self.priorities:
            self.priorities.add_up()
        self._mark()

    def _arrays(self) -> dict[str, Array]:
        names = ("observation", "legal", "action", "reward", "factor", "written", "open")
        arrays: dict[str, Array] = {name: getattr(self, name) for name in names}
        return arrays | (self.priorities.arrays() if self.priorities else {})
