"""What DQN and IQN have in common: one agent's network, target network, optimiser, memory and exploration.

How a batch becomes gradients is in `q_update.py`, for one agent or for many at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from keisei.acting import ValuePolicy
from keisei.checkpoint import JSON
from keisei.environment import Float32, Group
from keisei.errors import CheckpointError
from keisei.learning.learner import Facts
from keisei.learning.q_update import Chunk, Loss
from keisei.learning.tally import Tally
from keisei.networks.flat import flatten, noisy_layers
from keisei.networks.stacked import Scratch
from keisei.replay import Priorities, ReplayMemory, Windows
from keisei.rollout import Rollout
from keisei.threads import torch_threads

_UPDATES, _ACTING = 0, 1
"""Third word of the counter: what numbers are drawn for."""


@dataclass(frozen=True)
class QSettings:
    """What can be chosen about DQN and IQN."""

    learning_rate: float
    gamma: float
    steps: int  # decisions per window
    double: bool  # the network itself chooses the action whose worth the target network says
    batch_size: int
    memory: int  # decisions
    updates: int  # per rollout
    target_rate: float  # how far the target network follows at each update
    exploration: float  # share of random decisions at the start
    exploration_decay: float  # how much of it is lost per rollout
    final_exploration: float  # it does not fall below this
    gradient_norm: float
    threshold: float  # errors beyond count linearly
    priority: float  # exponent; 0: windows are drawn uniformly
    priority_weight: float  # how far weights make up for it at the start; in the end wholly
    threads: int


@dataclass(frozen=True)
class Draw:
    """What chance gives one agent for one update."""

    windows: Windows
    shares: Float32  # [2, batch, K] of the quantiles asked of the network and of the target network
    noise: tuple[dict[str, tuple[Tensor, Tensor]], dict[str, tuple[Tensor, Tensor]]]  # of both, by layer


class QLearner:
    """One agent that learns what actions are worth, from nothing but what it has lived."""

    loss: Loss

    def __init__(
        self,
        policy: ValuePolicy,
        group: Group,
        settings: QSettings,
        *,
        seed: int,
        agent: int = 0,
        lanes: int,
    ) -> None:
        """`lanes` are the agent's own, over all blocks. The network's parameters move into memory of the learner."""
        self.policy = policy
        self.network = policy.network
        self.encode = policy.encode
        self.settings = settings
        self.seed, self.agent = seed, agent
        self.weights = flatten(self.network)
        self.target = self.weights.clone()
        self.moments = (torch.zeros_like(self.weights), torch.zeros_like(self.weights))
        self.adam_steps = torch.zeros((), dtype=torch.float32, device=self.weights.device)
        self.memory = ReplayMemory(
            group,
            lanes=lanes,
            capacity=settings.memory,
            steps=settings.steps,
            gamma=settings.gamma,
            priorities=Priorities(settings.priority) if settings.priority else None,
        )
        self.skipped = 0  # updates, in the whole run
        self.skipped_in_a_row = 0
        self.exploration = settings.exploration
        self._noisy = noisy_layers(self.network)
        self._show(-1)

    def learn(self, rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        """Learn from a rollout, and from what was lived before it; gives means over the updates."""
        tally = Tally()
        with torch_threads(self.settings.threads):
            self.remember(rollout)
            for update in range(self.settings.updates if self.ready else 0):
                tally.add(self._alone.update(iteration, update, progress)[0])
            self.finish(iteration)
        return {**tally.means(), **self.numbers()}

    def repeat(self, iteration: int, update: int, progress: float) -> Mapping[str, float]:
        """One update by itself, from what is remembered; gives what it has to report."""
        with torch_threads(self.settings.threads):
            return self._alone.update(iteration, update, progress)[0]

    @cached_property
    def _alone(self) -> Chunk:
        return Chunk(
            [self], Scratch(self.weights.device)
        )  # not before it is needed: a population has chunks of its own

    # --- a rollout, in parts: a population has the updates of many agents between them -------------------------------

    def remember(self, rollout: Rollout) -> None:
        """Keep what was lived."""
        self.memory.store(rollout)

    @property
    def ready(self) -> bool:
        """Whether enough is kept for a batch."""
        return len(self.memory) >= self.settings.batch_size

    def finish(self, iteration: int) -> None:
        """The updates of an iteration are made: explore less, under noise that is drawn anew."""
        settings = self.settings
        self.exploration = max(settings.final_exploration, self.exploration * (1 - settings.exploration_decay))
        self._show(iteration)

    def draw(self, iteration: int, update: int, progress: float) -> Draw:
        """What chance gives for one update: it belongs to seed, agent, iteration and update alone."""
        settings, architecture = self.settings, self.network.architecture
        generator = self._generator(_UPDATES, iteration, update)
        weight = settings.priority_weight + (1 - settings.priority_weight) * progress
        windows = self.memory.sample(settings.batch_size, generator, weight)
        shares = generator.random((2, settings.batch_size, architecture.quantiles), np.float32)
        return Draw(windows, shares, (self._noise(generator), self._noise(generator)))

    def count(self, *, finite: bool) -> None:
        """Count an update that was made, or skipped because it was not finite."""
        self.skipped_in_a_row = 0 if finite else self.skipped_in_a_row + 1
        self.skipped += not finite

    @property
    def kind(self) -> tuple[object, ...]:
        """Learners of one kind can be updated at once."""
        return type(self), self.network.architecture, self.settings, self.weights.dtype

    def numbers(self) -> dict[str, float]:
        """What is worth reporting beside the updates."""
        return {"exploration": self.exploration, "memory": len(self.memory), "skipped_updates": self.skipped}

    def _show(self, iteration: int) -> None:
        """Write into the network's buffers how it is to act; this also says that its weights have changed."""
        with torch.no_grad():
            generator = self._generator(_ACTING, iteration + 1, 0)
            for name, (inputs, outputs) in self._noise(generator).items():
                layer = self._noisy[name]
                layer.noise_in.copy_(inputs)
                layer.noise_out.copy_(outputs)
            self.network.exploration.fill_(self.exploration)

    def _noise(self, generator: np.random.Generator) -> dict[str, tuple[Tensor, Tensor]]:
        """`f(ε)` of every noisy layer."""
        return {
            name: (_noise(generator, layer.in_features), _noise(generator, layer.out_features))
            for name, layer in self._noisy.items()
        }

    def _generator(self, purpose: int, iteration: int, update: int) -> np.random.Generator:
        key = np.array([self.seed, self.agent], np.uint64)
        counter = np.array([0, purpose, iteration, update], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    # --- saving ------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[Mapping[str, Tensor], Facts]:
        """The target network, the optimiser, the memory, exploration and counters."""
        facts: dict[str, JSON] = {
            "exploration": self.exploration,
            "skipped": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
        }
        memory = {f"memory.{name}": tensor for name, tensor in self.memory.state().items()}
        return {**self._tensors(), **memory}, facts

    def load_state(self, tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Go on from a saved state."""
        exploration, skipped, in_a_row = (facts.get(name) for name in ("exploration", "skipped", "skipped_in_a_row"))
        if not isinstance(exploration, float) or not isinstance(skipped, int) or not isinstance(in_a_row, int):
            raise CheckpointError(f"expected the facts of a learner of action values, found {dict(facts)!r:.200}")
        own = self._tensors()
        for name, tensor in own.items():
            if name not in tensors or tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
                raise CheckpointError(f"expected {tensor.dtype} {list(tensor.shape)} as {name} of a learner")
        self.memory.load_state({name.removeprefix("memory."): tensor for name, tensor in tensors.items()})
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
        self.exploration, self.skipped, self.skipped_in_a_row = exploration, skipped, in_a_row

    def _tensors(self) -> dict[str, Tensor]:
        first, second = self.moments
        return {"target": self.target, "moment": first, "square": second, "steps": self.adam_steps}


def _noise(generator: np.random.Generator, size: int) -> Tensor:
    drawn = torch.from_numpy(generator.standard_normal(size, np.float32))
    return drawn.sign() * drawn.abs().sqrt()
