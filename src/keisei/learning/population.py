"""One learner per agent, side by side: each learns from its own life alone, however many are computed at once."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from keisei.checkpoint import JSON, restore
from keisei.errors import CheckpointError, GivenUpError, LearningError
from keisei.learning.learner import Facts, Learner
from keisei.learning.q_learner import QLearner
from keisei.learning.q_update import Chunk
from keisei.learning.tally import Tally
from keisei.networks.stacked import Scratch
from keisei.rollout import Rollout
from keisei.threads import torch_threads

MOST_FAILED_IN_A_ROW = 5

Training = Literal["looped", "stacked", "threads"] | int
"""How a population trains: one agent after the other, all that are alike at once, over threads, or so many at once."""


@dataclass(frozen=True)
class Failure:
    """An agent's update that raised an exception, with all it takes to see it again."""

    agent: int | None  # None: there is one learner
    iteration: int
    update: int  # of the iteration, counted from 0; -1: learning as a whole
    text: str  # one line
    traceback: str
    rollout: Rollout  # valid until the next one is collected
    weights: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    facts: Facts


@dataclass
class _Outcome:
    """What became of one agent's learning in one iteration."""

    numbers: Mapping[str, float]
    failed: bool = False
    given_up: str = ""


class Population:
    """Learners of several agents. One that fails leaves the others as they would be without it."""

    def __init__(
        self,
        learners: Sequence[Learner],
        training: Training,
        *,
        threads: int = 1,
        on_failure: Callable[[Failure], None],
    ) -> None:
        """`threads` is for training over threads; each computes with one torch thread."""
        self.learners = tuple(learners)
        self.network = nn.ModuleList(learner.network for learner in learners)
        self._on_failure = on_failure
        tasks = list(_tasks(self.learners, _size(training)))
        hands = threads if training == "threads" else 1
        self._shares = [tasks[first::hands] for first in range(hands)]
        device = next(self.network.parameters()).device
        self._scratch = [Scratch(device) for _ in range(hands)]
        self._others = ThreadPoolExecutor(max(1, hands - 1), initializer=torch.set_num_threads, initargs=(1,))
        self.failed = [0] * len(learners)  # updates, in the whole run
        self.failed_in_a_row = [0] * len(learners)

    def learn(self, rollouts: Sequence[Rollout], iteration: int, progress: float) -> Mapping[str, float]:
        """Let each agent learn from its own rollout; gives means over agents, and each agent's loss.

        Raises GivenUpError, when all the others have learnt, where one has failed too often in a row.
        """
        epoch = _Epoch(self.learners, rollouts, iteration, progress)
        with torch_threads(1):
            (share, *shares), (scratch, *others) = self._shares, self._scratch
            beside = self._others.map(epoch.train, shares, others)  # begins at once
            epoch.train(share, scratch)
            list(beside)
        for failure in epoch.failures:
            self._on_failure(failure)
        given_up = [outcome.given_up for outcome in epoch.outcomes if outcome.given_up]
        given_up += self._count(epoch)
        if given_up:
            raise GivenUpError("; ".join(given_up))
        return self._report(epoch)

    def _count(self, epoch: _Epoch) -> Iterator[str]:
        for agent, outcome in enumerate(epoch.outcomes):
            self.failed[agent] += outcome.failed
            self.failed_in_a_row[agent] = self.failed_in_a_row[agent] + 1 if outcome.failed else 0
            if self.failed_in_a_row[agent] >= MOST_FAILED_IN_A_ROW:
                yield f"the updates of agent {agent} have failed {self.failed_in_a_row[agent]} times in a row"

    def _report(self, epoch: _Epoch) -> dict[str, float]:
        sums: dict[str, list[float]] = {}
        numbers: dict[str, float] = {}
        for agent, outcome in enumerate(epoch.outcomes):
            for name, number in outcome.numbers.items():
                sums.setdefault(name, []).append(number)
            if "loss" in outcome.numbers:
                numbers[f"agents/{agent}/loss"] = outcome.numbers["loss"]
        means = {name: sum(found) / len(found) for name, found in sums.items()}
        if "skipped_updates" in sums:
            means["skipped_updates"] = sum(sums["skipped_updates"])
        return {**means, **numbers, "failed_updates": sum(self.failed)}

    def state(self) -> tuple[Mapping[str, Tensor], Facts]:
        """The states of all learners, their tensors called `3.target`."""
        tensors: dict[str, Tensor] = {}
        facts: list[JSON] = []
        for agent, learner in enumerate(self.learners):
            own, told = learner.state()
            tensors |= {f"{agent}.{name}": tensor for name, tensor in own.items()}
            facts.append({**told, "failed": self.failed[agent], "failed_in_a_row": self.failed_in_a_row[agent]})
        return tensors, {"agents": facts}

    def load_state(self, tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Go on from a saved state."""
        told = facts.get("agents")
        if not isinstance(told, list) or len(told) != len(self.learners):
            raise CheckpointError(f"expected the facts of {len(self.learners)} agents, found {dict(facts)!r:.200}")
        for agent, (learner, own) in enumerate(zip(self.learners, told, strict=True)):
            counts = [own.get(name) for name in ("failed", "failed_in_a_row")] if isinstance(own, Mapping) else []
            failed, in_a_row = counts if len(counts) == 2 else (None, None)
            if not isinstance(own, Mapping) or not isinstance(failed, int) or not isinstance(in_a_row, int):
                raise CheckpointError(f"expected the facts of agent {agent}, found {own!r:.200}")
            named = {name.removeprefix(f"{agent}."): one for name, one in tensors.items() if _of(name, agent)}
            learner.load_state(named, {name: one for name, one in own.items() if not name.startswith("failed")})
            self.failed[agent], self.failed_in_a_row[agent] = failed, in_a_row


class _Epoch:
    """One iteration of a population."""

    def __init__(
        self, learners: Sequence[Learner], rollouts: Sequence[Rollout], iteration: int, progress: float
    ) -> None:
        self._learners, self._rollouts = learners, rollouts
        self._iteration, self._progress = iteration, progress
        self.outcomes = [_Outcome({}) for _ in learners]
        self.failures: list[Failure] = []

    def train(self, tasks: Sequence[Sequence[int]], scratch: Scratch) -> None:
        """Let some agents learn; those of one task side by side."""
        for agents in tasks:
            if isinstance(self._learners[agents[0]], QLearner):
                self._train_alike(agents, scratch)
            else:
                self._train_alone(agents[0])

    def _train_alone(self, agent: int) -> None:
        learner = self._learners[agent]
        weights = {name: one.detach().clone() for name, one in learner.network.state_dict().items()}
        tensors, facts = learner.state()
        kept = {name: tensor.clone() for name, tensor in tensors.items()}
        try:
            numbers = learner.learn(self._rollouts[agent], self._iteration, self._progress)
        except LearningError as error:
            self.outcomes[agent].given_up = f"agent {agent}: {error}"
        except Exception as error:
            restore(learner.network, weights)
            learner.load_state(kept, facts)
            self._fail(agent, -1, error)
        else:
            self.outcomes[agent].numbers = numbers

    def _train_alike(self, agents: Sequence[int], scratch: Scratch) -> None:
        tallies = {agent: Tally() for agent in agents}
        for agent in agents:
            try:
                self._own(agent).remember(self._rollouts[agent])
            except Exception as error:
                self._fail(agent, -1, error)
        for update in range(self._own(agents[0]).settings.updates):
            able = [agent for agent in agents if self._goes_on(agent) and self._own(agent).ready]
            if able:
                self._update(able, update, scratch, tallies)
        for agent in agents:
            self._own(agent).finish(self._iteration)
            self.outcomes[agent].numbers = {**tallies[agent].means(), **self._own(agent).numbers()}

    def _update(self, agents: Sequence[int], update: int, scratch: Scratch, tallies: Mapping[int, Tally]) -> None:
        """One update of agents that are alike; where it fails, each by itself: it has changed nothing."""
        try:
            chunk = Chunk([self._own(agent) for agent in agents], scratch)
            reports = chunk.update(self._iteration, update, self._progress)
        except LearningError as error:
            self.outcomes[agents[0]].given_up = str(error)
        except Exception as error:
            if len(agents) == 1:
                self._fail(agents[0], update, error)
            else:
                for agent in agents:
                    self._update([agent], update, scratch, tallies)
        else:
            for agent, report in zip(agents, reports, strict=True):
                tallies[agent].add(report)

    def _fail(self, agent: int, update: int, error: Exception) -> None:
        self.outcomes[agent].failed = True
        learner = self._learners[agent]
        tensors, facts = learner.state()
        self.failures.append(
            Failure(
                agent=agent,
                iteration=self._iteration,
                update=update,
                text=f"the update of agent {agent} in epoch {self._iteration + 1} failed ({error!r})",
                traceback="".join(traceback.format_exception(error)),
                rollout=self._rollouts[agent],
                weights=learner.network.state_dict(),
                tensors=tensors,
                facts=facts,
            )
        )

    def _goes_on(self, agent: int) -> bool:
        return not self.outcomes[agent].failed and not self.outcomes[agent].given_up

    def _own(self, agent: int) -> QLearner:
        learner = self._learners[agent]
        assert isinstance(learner, QLearner)
        return learner


def _size(training: Training) -> int:
    """How many agents are updated at once."""
    if isinstance(training, int):
        return training
    return 2**30 if training == "stacked" else 1


def _tasks(learners: Sequence[Learner], size: int) -> Iterator[list[int]]:
    """Agents that are updated at once: alike in architecture, settings and kind."""
    alike: dict[object, list[int]] = {}
    for agent, learner in enumerate(learners):
        if isinstance(learner, QLearner):
            alike.setdefault(learner.kind, []).append(agent)
        else:
            alike[agent] = [agent]
    for agents in alike.values():
        for first in range(0, len(agents), size):
            yield agents[first : first + size]


def _of(name: str, agent: int) -> bool:
    return name.startswith(f"{agent}.")
