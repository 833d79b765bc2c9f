"""One iteration's learning, and what becomes of it where an update fails: nothing silent, and nothing half done."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from keisei.checkpoint import restore
from keisei.errors import GivenUpError, LearningError
from keisei.learning.learner import Facts, Learner
from keisei.learning.population import Failure
from keisei.learning.society import SocietyLearner
from keisei.rollout import Rollout


@dataclass(frozen=True)
class Outcome:
    """What became of one iteration's learning."""

    numbers: Mapping[str, float]
    failures: Sequence[Failure] = field(default_factory=tuple)
    given_up: str = ""  # why learning does not go on, where it does not


class Updating(Protocol):
    """Lets a run's learner learn."""

    def update(self, rollout: Rollout, iteration: int, progress: float) -> Outcome:
        """Learn from a rollout; raises LearningError where the run must go back to where it was good."""


class OneLearner:
    """A learner alone: an update that fails is undone."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def update(self, rollout: Rollout, iteration: int, progress: float) -> Outcome:
        """Learn from a rollout."""
        weights = _copied(self._learner.network.state_dict())
        tensors, facts = self._learner.state()
        kept = _copied(tensors)
        try:
            return Outcome(self._learner.learn(rollout, iteration, progress))
        except LearningError:
            raise
        except Exception as error:
            self._undo(weights, kept, facts)
            text = f"the update of iteration {iteration + 1} failed ({error!r})"
            failure = Failure(None, iteration, -1, text, traceback.format_exc(), rollout, weights, kept, facts)
            return Outcome({}, (failure,))

    def _undo(self, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Leave the learner as it was."""
        restore(self._learner.network, weights)
        self._learner.load_state(tensors, facts)


class ManyLearners:
    """Agents side by side: one whose update fails is left as it was, the others go on; five times in a row end it."""

    def __init__(self, learner: SocietyLearner) -> None:
        self._learner = learner

    def update(self, rollout: Rollout, iteration: int, progress: float) -> Outcome:
        """Let every agent learn."""
        try:
            numbers = self._learner.learn(rollout, iteration, progress)
        except GivenUpError as error:
            return Outcome({}, tuple(self._learner.failures), str(error))
        return Outcome(numbers, tuple(self._learner.failures))


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
