"""The configuration of networks."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from keisei.config_learner import Number
from keisei.sections import Section


class NetworkConfig(Section):
    """The network that acts and learns."""

    kind: Literal["residual", "convolutional", "mlp"] = "residual"
    """A residual tower with squeeze-and-excite, a plain stack of convolutions, or a multi-layer perceptron."""
    depth: int = Field(default=6, ge=1, le=200)
    """Residual blocks, convolutions or layers."""
    width: int = Field(default=96, ge=1, le=8192)
    """Channels of each convolution, or units of each layer."""
    normalization: Literal["none", "group"] = "none"
    """Of residual blocks. Neither kind lets one row depend on another."""
    policy: Literal["convolution", "dense"] = "convolution"
    """Logits as sums of a few cells of a convolution, or one weight per feature and action."""
    value_reach: Number = Field(default=1.0, gt=0)
    """Values are between minus this and this: 1 for games that are won and lost, the largest return for others."""

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        if self.kind != "residual" and self.normalization != "none":
            raise ValueError(f"normalization is for residual networks, not for kind '{self.kind}'")
        if self.kind == "mlp" and self.policy != "dense":
            raise ValueError("kind 'mlp' has no cells for a convolution: set policy to 'dense'")
        return self
