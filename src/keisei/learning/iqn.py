"""Implicit quantile networks: what an action is worth as a distribution, which the quantile Huber loss moves."""

from __future__ import annotations

from torch import Tensor

from keisei.learning.q_learner import QLearner


def quantile_huber(
    said: Tensor, wanted: Tensor, shares: Tensor | None, weight: Tensor, threshold: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`Σ_i mean_j |τ_i - [u_ij < 0]| · Huber(u_ij) / κ` with `u_ij = wanted_j - said_i`; see `q_update.Loss`.

    A row's error is that of the means of both.
    """
    assert shares is not None
    error = wanted[:, :, None] - said[..., None]  # [n, B, K, K']
    limited = error.clamp(-threshold, threshold)
    blame = (shares[..., None] - (error < 0).to(error.dtype)).abs_()
    loss = (blame * limited * (error - 0.5 * limited)).mean(3).sum(2) / threshold
    by_said = (blame * limited).mean(3) * (weight / (-threshold * weight.shape[1]))[:, :, None]
    return by_said, loss, (said.mean(2) - wanted.mean(2)).abs()


class IQN(QLearner):
    """Learns from its memory, a few batches after each rollout."""

    loss = staticmethod(quantile_huber)
