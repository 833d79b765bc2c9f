"""Rollouts that nobody played: written by hand, or filled with random numbers, for whoever learns from rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keisei.environment import Array, Float32, Group, LegalForm
from keisei.rollout import Rollout, RolloutLayout

Row = tuple[float, float, float]
"""Reward, discount and value of a step of one lane."""


def group_of(shape: Sequence[int], actions: int, legal: LegalForm, lanes: int) -> Group:
    """A group that sees numbers."""
    return Group(np.arange(lanes, dtype=np.int32), tuple(shape), np.dtype(np.float32), actions, legal, actions)


def blank(group: Group, blocks: int, steps: int, *, finals: bool = False) -> Rollout:
    """A rollout in which nothing happened: all zero, every step a decision."""
    layout = RolloutLayout(group, steps, finals=finals)
    rollout = layout.rollout(layout.allocate(blocks))
    rollout.acted[:] = rollout.valid[:] = True
    return rollout


def one_lane(
    rows: Sequence[Row],
    bootstrap: float,
    *,
    waits: Sequence[int] = (),
    cut_off: dict[int, float] | None = None,
) -> Rollout:
    """One lane; `waits` are the steps without a decision, `cut_off` gives the values of last positions by step."""
    rollout = blank(group_of((1,), 1, "mask", 1), 1, len(rows))
    rollout.reward[0, :, 0], rollout.discount[0, :, 0], rollout.value[0, :, 0] = np.array(rows).T
    rollout.bootstrap[:] = bootstrap
    rollout.acted[0, list(waits), 0] = False
    for step, value in (cut_off or {}).items():
        rollout.cut_off[0, step, 0], rollout.final_value[0, step, 0] = True, value
    rollout.ended[:] = rollout.cut_off | (rollout.discount == 0)
    return rollout


def fill_with_games(rollout: Rollout, generator: np.random.Generator) -> None:
    """Random rewards, signs, ends, cut-offs and waits, as games could have them; values and rewards of any size."""
    shape = rollout.reward.shape
    rollout.reward[:] = generator.normal(size=shape)
    rollout.discount[:] = generator.choice([-1, -1, 1, 0], size=shape)
    rollout.value[:] = generator.normal(size=shape)
    rollout.bootstrap[:] = generator.normal(size=rollout.bootstrap.shape)
    rollout.cut_off[:] = (rollout.discount != 0) & (generator.random(shape) < 0.2)
    rollout.final_value[:] = np.where(rollout.cut_off, generator.normal(size=shape), 0)
    rollout.ended[:] = rollout.cut_off | (rollout.discount == 0)
    rollout.acted[:] = generator.random(shape) < generator.choice([0.3, 0.7, 1.0])


@dataclass(frozen=True)
class Experience:
    """A rollout of random numbers, and beside it in plain Python what was legal and what was chosen."""

    rollout: Rollout
    legal: dict[tuple[int, int, int], list[int]]  # by block, step and lane
    action: dict[tuple[int, int, int], int]

    @property
    def decisions(self) -> list[tuple[int, int, int]]:
        """Block, step and lane of every decision."""
        return [place for place in self.action if self.rollout.acted[place]]


def random_experience(
    seed: int, legal: LegalForm = "list", *, blocks: int = 2, steps: int = 5, lanes: int = 3, features: int = 4
) -> Experience:
    """Random games with five actions; each form of the same seed has the same observations and the same actions."""
    generator = np.random.default_rng(seed)
    rollout = blank(group_of((features,), 5, legal, lanes), blocks, steps, finals=True)
    fill_with_games(rollout, generator)
    seen: Float32 = generator.normal(size=rollout.observation.shape).astype(np.float32)
    rollout.observation[:] = seen
    rollout.log_probability[:] = generator.normal(-1.2, 0.3, size=rollout.reward.shape)
    allowed: dict[tuple[int, int, int], list[int]] = {}
    action: dict[tuple[int, int, int], int] = {}
    for place in np.ndindex(blocks, steps + 1, lanes):
        n, t, b = place
        count = int(generator.integers(1, 6))
        allowed[n, t, b] = generator.permutation(5)[:count].tolist()
        if t < steps:
            action[n, t, b] = allowed[n, t, b][int(generator.integers(count))]
    rollout.final_observation[rollout.cut_off] = generator.normal(size=(int(rollout.cut_off.sum()), features))
    _write_legal(rollout, allowed)
    for chosen, number in action.items():
        rollout.choice[chosen] = allowed[chosen].index(number) if legal == "list" else number
    return Experience(rollout, allowed, action)


def _write_legal(rollout: Rollout, allowed: dict[tuple[int, int, int], list[int]]) -> None:
    if rollout.group.legal != "list":
        for place, actions in allowed.items():
            rollout.legal_actions[place] = _in_form(rollout.group, actions)
        return
    at = [0] * len(rollout.legal_actions)
    for (n, t, b), actions in sorted(allowed.items()):
        rollout.legal_offsets[n, t, b] = at[n]
        rollout.legal_actions[n, at[n] : at[n] + len(actions)] = actions
        at[n] += len(actions)
        rollout.legal_offsets[n, t, b + 1] = at[n]


def _in_form(group: Group, actions: Sequence[int]) -> Array:
    mask = np.isin(np.arange(group.actions), actions).astype(np.uint8)
    return mask if group.legal == "mask" else np.packbits(mask, bitorder="little")
