"""Log-probabilities, samples and entropies over padded legal lists, all in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from keisei.policy import LARGEST


def log_probabilities(logits: Tensor, mask: Tensor) -> Tensor:
    """`[B, L]`, of any dtype, under the mask → float32; a large negative number elsewhere, not -inf, whose gradient
    is none."""
    limited = logits.float().clamp(-LARGEST, LARGEST)
    return limited.masked_fill(~mask, -2 * LARGEST).log_softmax(1)


def sample(log_probability: Tensor, mask: Tensor, uniform: Tensor) -> Tensor:
    """The first column at which the cumulated probability exceeds `uniform [B]`; only what is under the mask."""
    probability = log_probability.exp() * mask
    cumulated = probability.cumsum(1) if not probability.is_cuda else probability @ _triangle(probability)
    beyond = (cumulated > uniform[:, None] * cumulated.amax(1, keepdim=True)) & (probability > 0)
    first = beyond.int().argmax(1)
    return torch.where(beyond.any(1), first, probability.argmax(1))


def _triangle(like: Tensor) -> Tensor:
    """Ones on and above the diagonal: a product with it cumulates, in the same order each time."""
    width = like.shape[1]
    return torch.ones(width, width, device=like.device).triu()


def entropy(log_probability: Tensor, mask: Tensor) -> Tensor:
    """`[B]`, over what is under the mask."""
    return -(log_probability.exp() * log_probability.masked_fill(~mask, 0.0)).sum(1)
