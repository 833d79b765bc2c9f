"""From a rollout to the decisions in it, lane by lane, each with what came of it until the next one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keisei.environment import Bool, Float32, Int64, UInt8
from keisei.rollout import Rollout


@dataclass(frozen=True)
class Decisions:
    """Rows to keep, m of them: decisions, and last positions of games that were cut off. Lane by lane, in order."""

    lane: Int64  # [m] among the N · B lanes
    place: Int64  # [m] among the new rows of its lane
    row: Int64  # [m] of the rollout, over [N, T, B]
    final: Bool  # [m] whether it is the last position that counts, not a decision
    action: Int64  # [m]
    reward: Float32  # [m] until the next decision, discounted; of final rows it says nothing
    factor: Float32  # [m] what the worth at the next decision counts: γ and signs
    legal: UInt8  # [m, ceil(A / 8)] as bits; every action in final rows, of which nobody says what was legal
    count: Int64  # [N · B] new rows of each lane
    goes_on: Bool  # [N · B] whether the last of them is a decision whose outcome is not complete
    first_reward: Float32  # [N · B] what came before the first decision: the end of a decision made earlier
    first_factor: Float32  # [N · B]


def decisions(rollout: Rollout, gamma: float) -> Decisions:
    """The decisions of a rollout. Rows without one are folded into the decision before them."""
    blocks, _, lanes = rollout.reward.shape
    assert rollout.has_finals or not rollout.cut_off.any(), "a memory needs the last positions of games"
    folded = _fold(rollout, gamma)
    wanted = np.stack([rollout.acted, rollout.cut_off], -1).transpose(0, 2, 1, 3)  # [N, B, T, 2]
    block, of_block, step, final = np.nonzero(wanted)
    lane = block * lanes + of_block
    count = np.bincount(lane, minlength=blocks * lanes)
    row = np.ravel_multi_index((block, step, of_block), rollout.reward.shape)
    reward, factor = folded.reward.ravel()[row], folded.factor.ravel()[row]
    goes_on = np.zeros(blocks * lanes, np.bool_)
    last = np.cumsum(count)[count > 0] - 1
    goes_on[count > 0] = (final[last] == 0) & (factor[last] != 0)
    choice, legal = _choices(rollout, row)
    legal[final == 1] = 0xFF
    return Decisions(
        lane=lane,
        place=np.arange(len(lane)) - np.repeat(np.cumsum(count) - count, count),
        row=row,
        final=final == 1,
        action=choice,
        reward=reward,
        factor=factor,
        legal=legal,
        count=count,
        goes_on=goes_on,
        first_reward=folded.first_reward.ravel(),
        first_factor=folded.first_factor.ravel(),
    )


@dataclass(frozen=True)
class _Folded:
    reward: Float32  # [N, T, B] right where somebody decided
    factor: Float32  # [N, T, B]
    first_reward: Float32  # [N, B]
    first_factor: Float32  # [N, B]


def _fold(rollout: Rollout, gamma: float) -> _Folded:
    reward = rollout.reward.copy()
    factor: Float32 = (np.float32(gamma) * rollout.discount).astype(np.float32)
    after_reward, after_factor = np.zeros_like(reward[:, 0]), np.ones_like(factor[:, 0])
    if rollout.acted.all():
        return _Folded(reward, factor, after_reward, after_factor)
    for t in reversed(range(reward.shape[1])):
        goes_on = ~rollout.ended[:, t]
        reward[:, t] += np.where(goes_on, factor[:, t] * after_reward, 0)
        factor[:, t] *= np.where(goes_on, after_factor, np.float32(1))
        after_reward = np.where(rollout.acted[:, t], np.float32(0), reward[:, t])
        after_factor = np.where(rollout.acted[:, t], np.float32(1), factor[:, t])
    return _Folded(reward, factor, after_reward, after_factor)


def _choices(rollout: Rollout, rows: Int64) -> tuple[Int64, UInt8]:
    """The actions of rows, and as bits what was legal in them."""
    choice = rollout.choice.ravel()[rows].astype(np.int64)
    choices = rollout.choices_of(rows)
    mask = choices.mask.numpy()
    if choices.actions is None:
        return choice, np.packbits(mask, axis=1, bitorder="little")
    actions = choices.actions.numpy()
    legal = np.zeros((len(rows), rollout.group.actions), np.bool_)
    where, column = np.nonzero(mask)
    legal[where, actions[where, column]] = True
    return actions[np.arange(len(rows)), choice], np.packbits(legal, axis=1, bitorder="little")
