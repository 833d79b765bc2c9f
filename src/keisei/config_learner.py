"""The configuration of learners; `kind` says which it is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Strict, Tag

from keisei.sections import Section

Number = Annotated[float, Strict(False)]


class PPOConfig(Section):
    """Proximal policy optimisation."""

    kind: Literal["ppo"] = "ppo"
    """How is learnt: `ppo`, or from a memory what actions are worth: `dqn`, and as a distribution: `iqn`."""
    learning_rate: Number = Field(default=1e-3, gt=0)
    """Adam's step size at the start."""
    final_learning_rate: Number = Field(default=1e-4, ge=0)
    """Adam's step size at the end; it moves linearly."""
    entropy: Number = Field(default=0.01, ge=0)
    """Weight of the entropy over legal moves at the start."""
    final_entropy: Number = Field(default=0.001, ge=0)
    """Weight of the entropy at the end; it moves linearly."""
    gamma: Number = Field(default=0.99, ge=0, le=1)
    """What a reward one step later counts."""
    lam: Number = Field(default=0.95, ge=0, le=1)
    """How far advantages trust what came instead of what was expected (λ)."""
    epochs: int = Field(default=1, ge=1)
    """How often each step is learnt from."""
    minibatch_size: int = Field(default=512, ge=1)
    """About so many steps per update."""
    clip: Number = Field(default=0.2, gt=0)
    """How far the probability of a move may change before its gain no longer counts."""
    value_clip: Number = Field(default=0.0, ge=0)
    """The same for values; 0: no limit."""
    value_weight: Number = Field(default=1.0, ge=0)
    """Weight of the value loss."""
    gradient_norm: Number = Field(default=1.0, gt=0)
    """Longer gradients are shortened to this length."""
    target_kl: Number = Field(default=0.0, ge=0)
    """An iteration's learning stops when the policy has moved 1.5 times as far; 0: never."""
    normalize_advantages: bool = True
    """Scale the advantages of an iteration to mean 0 and deviation 1."""


class DQNConfig(Section):
    """Deep Q-learning: what each action is worth, learnt from a memory."""

    kind: Literal["dqn"]
    """`dqn`: what an action is worth is one number."""
    learning_rate: Number = Field(default=2.5e-4, gt=0)
    """Adam's step size."""
    gamma: Number = Field(default=0.99, ge=0, le=1)
    """What a reward one step later counts."""
    n_step: int = Field(default=1, ge=1, le=1000)
    """So many decisions pay before the worth of what comes then is asked for."""
    double: bool = True
    """The network chooses the action whose worth the target network says; false: the target network does both."""
    dueling: bool = False
    """The worth of an action is that of the position plus the action's advantage."""
    noisy: bool = False
    """The last layers have noise, which explores, and whose size is learnt."""
    prioritised: bool = False
    """The memory is sampled more often where the error was large; false: uniformly."""
    priority_exponent: Number = Field(default=0.6, gt=0, le=1)
    """With `prioritised`: how much more often."""
    priority_weight: Number = Field(default=0.4, ge=0, le=1)
    """With `prioritised`: how far losses are weighted against that at the start; at the end wholly."""
    memory: int = Field(default=1024, ge=1, le=2**31)
    """So many of the last decisions are kept, in all lanes together."""
    batch_size: int = Field(default=64, ge=1)
    """Decisions per update."""
    updates_per_epoch: int = Field(default=1, ge=0)
    """Updates after each rollout, as soon as the memory holds a batch."""
    target_rate: Number = Field(default=1e-3, gt=0, le=1)
    """How far the target network follows at each update."""
    exploration: Number = Field(default=0.6, ge=0, le=1)
    """The share of decisions that are made at random, at the start."""
    exploration_decay: Number = Field(default=5e-4, ge=0, le=1)
    """How much of itself it loses with each rollout."""
    final_exploration: Number = Field(default=0.0, ge=0, le=1)
    """It does not fall below this."""
    gradient_norm: Number = Field(default=10.0, gt=0)
    """Longer gradients are shortened to this length."""
    threshold: Number = Field(default=1.0, gt=0)
    """Errors count with their square, those beyond this linearly; much below what rewards are, it hides rare ones."""
    layer: int = Field(default=250, ge=1, le=8192)
    """Units of the layer before the worths, behind those of the network's section."""


class IQNConfig(DQNConfig):
    """Implicit quantile networks: how what each action is worth is distributed, learnt from a memory."""

    kind: Literal["iqn"]  # type: ignore[assignment]
    """`iqn`: what an action is worth is a distribution."""
    quantiles: int = Field(default=12, ge=1, le=1024)
    """How many are taken of it."""
    cosines: int = Field(default=64, ge=1, le=4096)
    """How many cosines of its share make up the input of a quantile."""


def _kind(section: object) -> object:
    return section.get("kind", "ppo") if isinstance(section, dict) else getattr(section, "kind", "ppo")


LearnerConfig = Annotated[
    Annotated[PPOConfig, Tag("ppo")] | Annotated[DQNConfig, Tag("dqn")] | Annotated[IQNConfig, Tag("iqn")],
    Discriminator(_kind),
]
