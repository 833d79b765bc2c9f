"""Generalised advantages. The one place where returns are computed, for every domain: perspective is data."""

from __future__ import annotations

import numpy as np

from keisei.environment import Float32
from keisei.rollout import Rollout


def advantages(rollout: Rollout, gamma: float, lam: float, trust: Float32) -> Float32:
    """Advantages `[N, T, B]` of the decisions, each for the seat that decided; 0 in rows without a decision.

    `δ_t = r_t + γ·d_t·V_{t+1} - V_t`, `A_t = δ_t + γ·λ·d_t·ρ_{t+1}·A_{t+1}`. A game that was cut off goes on in the
    value of its last position. Rows without a decision are folded into the decision before them. The trust
    `ρ [N, T, B]` is how far each decision is believed; `V_t + ρ_t·A_t` is what the value of a decision is to become.
    """
    reward, factor = _with_cut_offs(rollout, gamma)
    # A row without a decision expects what comes after it, and hands the advantage on as it is.
    onward: Float32 = np.where(rollout.acted, np.float32(lam) * factor, factor)
    result = np.zeros_like(reward)
    next_value: Float32 = rollout.bootstrap
    next_advantage = np.zeros_like(next_value)
    for t in reversed(range(reward.shape[1])):
        expected = reward[:, t] + factor[:, t] * next_value
        next_value = np.where(rollout.acted[:, t], rollout.value[:, t], expected)
        result[:, t] = expected - next_value + onward[:, t] * next_advantage
        next_advantage = trust[:, t] * result[:, t]
    return np.where(rollout.acted, result, np.float32(0))


def _with_cut_offs(rollout: Rollout, gamma: float) -> tuple[Float32, Float32]:
    """Rewards, and what the future is multiplied by: `γ·d`, 0 after a cut-off, whose future is paid at once."""
    factor = (np.float32(gamma) * rollout.discount).astype(np.float32)
    reward = rollout.reward + np.where(rollout.cut_off, factor * rollout.final_value, 0).astype(np.float32)
    return reward, np.where(rollout.cut_off, np.float32(0), factor)
