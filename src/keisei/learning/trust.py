"""How far experience is believed that other weights have made than those that learn from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from keisei.environment import Float32
from keisei.policy import Policy
from keisei.rollout import Rollout

Trust = Callable[[Policy, Rollout, int], Float32]
"""From the policy as it is now, a rollout, and how many rows it may look at together, to `[N, T, B]` in [0, 1]."""


def full_trust(policy: Policy, rollout: Rollout, rows_together: int) -> Float32:
    """All of it, whoever made it."""
    return np.ones(rollout.reward.shape, np.float32)


@torch.no_grad()
def v_trace(policy: Policy, rollout: Rollout, rows_together: int) -> Float32:
    """As far as the policy would now choose the same: `min(1, π / μ)`; 1 in rows without a decision."""
    trust = full_trust(policy, rollout, rows_together)
    rows = np.flatnonzero(rollout.acted)
    for part in np.array_split(rows, -(-len(rows) // rows_together)) if len(rows) else ():
        choice = torch.from_numpy(rollout.choice.ravel()[part].astype(np.int64))
        now = policy.evaluate(rollout.observations_of(part), rollout.choices_of(part), choice)
        then = torch.from_numpy(rollout.log_probability.ravel()[part])
        trust.ravel()[part] = (now.log_probability.cpu() - then).clamp(max=0).exp().numpy()
    return trust
