"""The learners of all agents of a run behind the one `Learner`: each gets its own lanes of what was lived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from keisei.learning.learner import Facts, Learner
from keisei.learning.population import Failure, Population, Training
from keisei.rollout import Rollout


class SocietyLearner:
    """A population that lives in one world: lane `l` is agent `l % agents`."""

    def __init__(self, learners: Sequence[Learner], training: Training, *, threads: int = 1) -> None:
        self.failures: list[Failure] = []
        """The updates that failed in the last call of `learn`; what they hold is valid until the next one."""
        self.population = Population(learners, training, threads=threads, on_failure=self.failures.append)
        self.network = self.population.network

    def learn(self, rollout: Rollout, iteration: int, progress: float) -> Mapping[str, float]:
        """Let each agent learn from its own lanes. Raises GivenUpError when one has failed too often in a row."""
        self.failures.clear()
        agents = len(self.population.learners)
        own = [rollout.of_lanes(slice(agent, None, agents)) for agent in range(agents)]
        return self.population.learn(own, iteration, progress)

    def state(self) -> tuple[Mapping[str, Tensor], Facts]:
        """The states of all learners."""
        return self.population.state()

    def load_state(self, tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Go on from a saved state."""
        self.population.load_state(tensors, facts)
