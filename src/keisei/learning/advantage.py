"""Generalised advantages. The one place where returns are computed, for every domain: perspective is data."""

from __future__ import annotations

import numpy as np

from keisei.environment import Float32
from keisei.rollout import Rollout


def advantages(rollout: Rollout, gamma: float, lam: float) -> Float32:
    """Advantages `[N, T, B]` of the decisions, each for the seat that decided; 0 in rows without a decision.

    `δ_t = r_t + γ·d_t·V_{t+1} - V_t`, `A_t = δ_t + γ·λ·d_t·A_{t+1}`. A game that was cut off goes on in the value of
    its last position. Rows without a decision are folded into the decision before them.
    """
    reward, factor = _with_cut_offs(rollout, gamma)
    result = np.zeros_like(reward)
    next_value, next_advantage = rollout.bootstrap.copy(), np.zeros_like(rollout.bootstrap)
    folded_reward, folded_factor = np.zeros_like(next_value), np.ones_like(next_value)
    for t in reversed(range(reward.shape[1])):
        total = reward[:, t] + factor[:, t] * folded_reward
        onward = factor[:, t] * folded_factor
        acted, value = rollout.acted[:, t], rollout.value[:, t]
        advantage = total + onward * next_value - value + lam * onward * next_advantage
        result[:, t] = np.where(acted, advantage, 0)
        next_value, next_advantage = np.where(acted, value, next_value), np.where(acted, advantage, next_advantage)
        folded_reward, folded_factor = np.where(acted, 0, total), np.where(acted, 1, onward)
    return result


def _with_cut_offs(rollout: Rollout, gamma: float) -> tuple[Float32, Float32]:
    """Rewards, and what the future is multiplied by: `γ·d`, 0 after a cut-off, whose future is paid at once."""
    factor = (np.float32(gamma) * rollout.discount).astype(np.float32)
    reward = rollout.reward + np.where(rollout.cut_off, factor * rollout.final_value, 0).astype(np.float32)
    return reward, np.where(rollout.cut_off, np.float32(0), factor)
