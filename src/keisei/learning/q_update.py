"""One update of one or many agents that learn action values: batches, targets, gradients, steps.

The agents of a chunk have one architecture and one kind of settings. They are computed side by side and mixed nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from keisei.errors import LearningError
from keisei.networks.flat import Layout, Noise, Weights, gradient_pairs, plain_weights, spread_gradients
from keisei.networks.stacked import Scratch, backward, embedded_middles, expected, forward

if TYPE_CHECKING:
    from keisei.learning.q_learner import Draw, QLearner

MOST_SKIPPED_IN_A_ROW = 5

_CPU = torch.device("cpu")
_BETAS, _EPS = (0.9, 0.999), 1e-8


class Loss(Protocol):
    """How far what actions turned out to be worth is from what was said of them."""

    def __call__(
        self, said: Tensor, wanted: Tensor, shares: Tensor | None, weight: Tensor, threshold: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`said [n, B, K]`, `wanted [n, B, K']`, `shares [n, B, K]`, `weight [n, B]`, which sums up to B or less.

        Gives the gradient by `said` of the mean over rows, and each row's loss and error `[n, B]` without its weight.
        """


class Chunk:
    """Agents that are updated as one."""

    def __init__(self, learners: Sequence[QLearner], scratch: Scratch) -> None:
        """`scratch` may be used by others too, but not at the same time; it lies where the learners' weights do."""
        self.learners = tuple(learners)
        self._batches = scratch if scratch.device == _CPU else scratch.beside(_CPU)
        first = self.learners[0]
        self._loss = first.loss
        self._settings, self._architecture = first.settings, first.network.architecture
        self._dtype = first.weights.dtype
        self._layout = Layout.of(first.network)
        self._scratch = scratch
        n, rows = len(self.learners), self._settings.batch_size
        self._legal = scratch("legal", n, rows, self._architecture.actions, dtype=torch.bool)
        self._action = scratch("action", n, rows, dtype=torch.int64)
        self._gradient = scratch("gradient", n, self._layout.size, dtype=self._dtype)
        self._views = self._layout.views(self._gradient)

    @torch.no_grad()
    def update(self, iteration: int, update: int, progress: float) -> list[dict[str, float]]:
        """Update each agent once; gives what is worth reporting of each. What raises, raises before any has changed."""
        draws = [learner.draw(iteration, update, progress) for learner in self.learners]
        self._fill(draws)
        numbers, errors = self._gradients(draws)
        if any(learner.memory.priorities for learner in self.learners):
            errors = errors.cpu()
        reports = [dict(zip(numbers, row, strict=True)) for row in torch.stack(list(numbers.values()), 1).tolist()]
        finite = [all(map(math.isfinite, report.values())) for report in reports]
        self._step([i for i, good in enumerate(finite) if good], reports)
        for i, learner in enumerate(self.learners):
            if learner.memory.priorities and finite[i]:
                learner.memory.priorities.learn(draws[i].windows.rows, errors[i].numpy())
        for learner, good in zip(self.learners, finite, strict=True):
            learner.count(finite=good)
        self._give_up(reports)
        return reports

    def _give_up(self, reports: Sequence[Mapping[str, float]]) -> None:
        """Raise LearningError where an agent's updates stay not finite; all are counted, and the others' made."""
        for learner, report in zip(self.learners, reports, strict=True):
            if learner.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
                raise LearningError(
                    f"{learner.skipped_in_a_row} updates of agent {learner.agent} in a row had a loss or gradient that "
                    f"is not finite ({', '.join(f'{name} {number}' for name, number in report.items())})"
                )

    def _fill(self, draws: Sequence[Draw]) -> None:
        """Lay the agents' batches side by side, and where their weights are."""
        batches, n, rows = self._batches, len(draws), self._settings.batch_size
        for i, (learner, draw) in enumerate(zip(self.learners, draws, strict=True)):
            windows = draw.windows
            shape = (n, rows, *self._architecture.shape)
            batches("seen", *shape, dtype=self._dtype)[i].copy_(learner.encode(windows.seen))
            batches("next", *shape, dtype=self._dtype)[i].copy_(learner.encode(windows.next_seen))
            batches("action", n, rows, dtype=torch.int64)[i].copy_(torch.from_numpy(windows.action))
            batches("legal", n, rows, self._architecture.actions, dtype=torch.bool)[i].copy_(
                torch.from_numpy(windows.next_legal)
            )
            for name, numbers in (("reward", windows.reward), ("factor", windows.factor), ("weight", windows.weight)):
                batches(name, n, rows, dtype=self._dtype)[i].copy_(torch.from_numpy(numbers))
            if self._architecture.quantiles:
                both = batches("shares", 2, n, *draw.shares.shape[1:], dtype=self._dtype)
                both[:, i].copy_(torch.from_numpy(draw.shares))
        self._scratch.have(self._batches)

    def _gradients(self, draws: Sequence[Draw]) -> tuple[dict[str, Tensor], Tensor]:
        """Write all gradients; gives numbers `[n]` to report, and the errors `[n, B]`."""
        scratch, architecture = self._scratch, self._architecture
        n, rows, count = len(draws), self._settings.batch_size, max(1, architecture.quantiles)
        noise = self._noise(draws, 0)
        weights = plain_weights(self._layout.views(self._flat("weights")), architecture, noise)
        shares = scratch("shares", 2, n, rows, count, dtype=self._dtype) if architecture.quantiles else None
        wanted = self._wanted(draws, weights, None if shares is None else shares[1])
        seen = scratch("seen", n, rows, *architecture.shape, dtype=self._dtype)
        own = None if shares is None else shares[0]
        found = forward(weights, architecture, seen, own, scratch, "own")
        column = self._action[:, :, None].expand(-1, -1, count).reshape(n, rows * count, 1)
        said = found.worth.gather(2, column).view(n, rows, count)
        weight = scratch("weight", n, rows, dtype=self._dtype)
        by_said, losses, errors = self._loss(said, wanted, own, weight, self._settings.threshold)
        by_worth = scratch("by worth", *found.worth.shape, dtype=self._dtype).zero_()
        by_worth.scatter_(2, column, by_said.reshape(n, rows * count, 1))
        backward(weights, found, by_worth, gradient_pairs(self._views, architecture), scratch)
        spread_gradients(self._views, architecture, noise)
        numbers = {
            "loss": (losses * weight).mean(1),
            "worth": said.mean((1, 2)),
            "gradient_norm": torch.linalg.vector_norm(self._gradient, dim=1),
        }
        return numbers, errors

    def _wanted(self, draws: Sequence[Draw], weights: Weights, shares: Tensor | None) -> Tensor:
        """What the worth of the windows' first actions turned out to be, `[n, B, K]`."""
        scratch, architecture = self._scratch, self._architecture
        n, rows, count = len(draws), self._settings.batch_size, max(1, architecture.quantiles)
        target = plain_weights(self._layout.views(self._flat("target")), architecture, self._noise(draws, 1))
        after = scratch("next", n, rows, *architecture.shape, dtype=self._dtype)
        found = forward(target, architecture, after, shares, scratch, "next").worth.view(n, rows, count, -1)
        if self._settings.double:
            middle = embedded_middles(weights, architecture)
            choice = expected(weights, architecture, after, middle, scratch, "next")
        else:
            choice = found.mean(2)
        best = choice.masked_fill(~self._legal, -torch.inf).argmax(2)
        worth = found.gather(3, best[:, :, None, None].expand(-1, -1, count, 1)).squeeze(3)
        return torch.addcmul(
            scratch("reward", n, rows, dtype=self._dtype)[:, :, None],
            scratch("factor", n, rows, dtype=self._dtype)[:, :, None],
            worth,
        )

    def _flat(self, name: str) -> Tensor:
        """The agents' weights or target weights, `[n, size]`: of one agent as they lie, of several a copy."""
        rows = [getattr(learner, name) for learner in self.learners]
        if len(rows) == 1:
            one: Tensor = rows[0][None]
            return one
        return torch.stack(rows, out=self._scratch(name, len(rows), self._layout.size, dtype=self._dtype))

    def _noise(self, draws: Sequence[Draw], which: int) -> Noise:
        return {
            name: (
                torch.stack([draw.noise[which][name][0] for draw in draws]).to(self._gradient),
                torch.stack([draw.noise[which][name][1] for draw in draws]).to(self._gradient),
            )
            for name in draws[0].noise[which]
        }

    def _step(self, good: Sequence[int], reports: Sequence[Mapping[str, float]]) -> None:
        """Move the weights of those agents by Adam, and their target networks after them."""
        if not good:
            return
        settings, learners = self._settings, [self.learners[i] for i in good]
        for i in good:
            if reports[i]["gradient_norm"] > settings.gradient_norm:
                self._gradient[i].mul_(settings.gradient_norm / reports[i]["gradient_norm"])
        for learner in learners:
            learner.adam_steps += 1
        weights = [learner.weights for learner in learners]
        torch._fused_adam_(
            weights,
            [self._gradient[i] for i in good],
            [learner.moments[0] for learner in learners],
            [learner.moments[1] for learner in learners],
            [],
            [learner.adam_steps for learner in learners],
            lr=settings.learning_rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=_EPS,
            amsgrad=False,
            maximize=False,
        )
        torch._foreach_lerp_([learner.target for learner in learners], weights, settings.target_rate)
