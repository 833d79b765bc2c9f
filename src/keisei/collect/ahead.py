"""Collecting while learning: any collector, run ahead of the learner by a fixed number of versions.

Rollout `i` is collected with the weights that were published when iteration `max(0, i - lag)` began: the lag is a number,
not an accident, so the bits do not depend on who is faster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from torch import Tensor

from keisei.collect.collector import Collector
from keisei.rollout import Rollout

_PENDING = "pending"


@dataclass(frozen=True)
class _Weights:
    version: int
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True)
class _Ordered:
    """A rollout that is being collected: with which weights, and from which states."""

    weights: _Weights
    states: Future[Mapping[str, Tensor]]
    rollout: Future[Rollout]


class AheadCollector:
    """Lets a collector run ahead in a thread of its own; it pauses rather than run further ahead than the lag.

    The collector must keep `lag + 1` rollouts valid at once.
    """

    def __init__(self, collector: Collector, lag: int) -> None:
        self._collector = collector
        self._lag = lag
        self._thread = ThreadPoolExecutor(1, "ahead")
        self._ordered: OrderedDict[int, _Ordered] = OrderedDict()
        self._weights: _Weights | None = None
        self._next = -1

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Rollouts that are ordered from now on are collected with these weights."""
        self._weights = _Weights(version, {name: tensor.detach().clone() for name, tensor in weights.items()})

    def collect(self, iteration: int) -> Rollout:
        """The rollout of an iteration; those up to `lag` ahead of it are on their way when it comes."""
        assert self._weights is not None, "weights come before rollouts"
        for done in [number for number in self._ordered if number < iteration]:
            del self._ordered[done]
        for number in range(iteration, iteration + self._lag + 1):
            if number not in self._ordered:
                self._order(number, self._weights)
        return self._ordered[iteration].rollout.result()

    def _order(self, number: int, weights: _Weights) -> None:
        states: Future[Mapping[str, Tensor]] = Future()

        def work() -> Rollout:
            states.set_result(self._collector.state())
            self._collector.publish(weights.tensors, weights.version)
            return self._collector.collect(number)

        self._ordered[number] = _Ordered(weights, states, self._thread.submit(work))
