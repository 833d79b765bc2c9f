"""Deep Q-learning: what an action is worth as one number, which the Huber loss moves."""

from __future__ import annotations

from torch import Tensor

from keisei.learning.q_learner import QLearner


def huber(
    said: Tensor, wanted: Tensor, shares: Tensor | None, weight: Tensor, threshold: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Half the square of each error, beyond the threshold linear; see `q_update.Loss`. `K` and `K'` are 1."""
    error = (said - wanted).squeeze(2)
    limited = error.clamp(-threshold, threshold)
    loss = limited * (error - 0.5 * limited)
    return (limited * weight / error.shape[1])[:, :, None], loss, error.abs()


class DQN(QLearner):
    """Learns from its memory, a few batches after each rollout."""

    loss = staticmethod(huber)
