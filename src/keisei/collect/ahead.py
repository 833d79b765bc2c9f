"""Collecting while learning: any collector, run ahead of the learner by a fixed number of versions.

Rollout `i` is collected with the weights that were published when rollout `i - lag` was asked for: the lag is a number,
not an accident, so the bits do not depend on who is faster.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from keisei.collect.collector import Collector, Weights
from keisei.errors import WorkerError
from keisei.rollout import Rollout

_VERSIONS = "ahead_versions"
"""In a saved state: the versions that the next rollouts are collected with; `weights.7.name` are those of version 7."""


@dataclass(frozen=True)
class _Published:
    version: int
    weights: Weights


@dataclass(frozen=True)
class _Ordered:
    """A rollout that is being collected: with which weights, and from which state."""

    published: _Published
    begun: Future[Weights]
    rollout: Future[Rollout]


class AheadCollector:
    """Lets a collector run ahead in a thread of its own; it pauses rather than run further ahead than the lag.

    The collector must keep `lag + 1` rollouts valid at once. At most `most_waiting` finished rollouts of blocks wait
    for the learner, or one whole rollout where it has more blocks; this changes no bit.
    """

    def __init__(self, collector: Collector, lag: int, *, blocks: int, most_waiting: int) -> None:
        self._collector = collector
        self._lag = lag
        self._blocks = blocks
        self._most_waiting = max(most_waiting, blocks)
        self._thread = ThreadPoolExecutor(1, "ahead")
        self._ordered: dict[int, _Ordered] = {}
        self._restored: dict[int, _Published] = {}  # by how many rollouts after the next one
        self._published: _Published | None = None
        self._version_lag = 0
        self._room = threading.Condition()
        self._waiting = 0  # finished rollouts of blocks that nobody has asked for
        self._stopped = False  # nothing more is collected: something failed, or the end has come
        self._next = -1  # the first rollout that nobody has asked for
        self._closed = False

    def publish(self, weights: Weights, version: int) -> None:
        """Rollouts that are ordered from now on are collected with these weights."""
        self._published = _Published(version, {name: one.detach().clone() for name, one in weights.items()})

    def collect(self, iteration: int) -> Rollout:
        """The rollout of an iteration; those up to `lag` after it are on their way when it comes."""
        if self._published is None:
            raise WorkerError("expected weights before experience: call publish()")
        for done in [number for number in self._ordered if number < iteration]:
            del self._ordered[done]
        for number in range(iteration, iteration + self._lag + 1):
            if number not in self._ordered:
                self._order(number, self._restored.pop(number - iteration, self._published))
        self._restored = {}
        ordered = self._ordered[iteration]
        rollout = ordered.rollout.result()
        self._next = iteration + 1
        with self._room:
            self._waiting -= self._blocks
            self._room.notify()
        self._version_lag = self._published.version - ordered.published.version
        return rollout

    def _order(self, number: int, published: _Published) -> None:
        begun: Future[Weights] = Future()

        def work() -> Rollout:
            try:
                self._wait_for_room()
                begun.set_result(self._collector.state())
                self._collector.publish(published.weights, published.version)
                rollout = self._collector.collect(number)
            except BaseException as error:
                self._stopped = True
                if not begun.done():
                    begun.set_exception(error)
                raise
            with self._room:
                self._waiting += self._blocks
            return rollout

        self._ordered[number] = _Ordered(published, begun, self._thread.submit(work))

    def _wait_for_room(self) -> None:
        with self._room:
            self._room.wait_for(lambda: self._stopped or self._waiting + self._blocks <= self._most_waiting)
        if self._stopped:
            raise WorkerError("collecting has ended")

    def state(self) -> Weights:
        """Where the next rollout begins, and the weights that it and those after it are collected with."""
        ahead = self._ahead()
        state = dict(ahead[0].begun.result() if ahead else self._collector.state())
        published = [one.published for one in ahead] or list(self._restored.values())
        state[_VERSIONS] = torch.tensor([one.version for one in published], dtype=torch.int64)
        for one in published:
            state |= {f"weights.{one.version}.{name}": tensor for name, tensor in one.weights.items()}
        return state

    def _ahead(self) -> list[_Ordered]:
        """What is ordered and not yet handed out."""
        return [self._ordered[number] for number in sorted(self._ordered) if number >= self._next]

    def load_state(self, saved: Weights) -> None:
        """Go on from a saved state."""
        self._drop_orders()
        self._collector.load_state({name: one for name, one in saved.items() if not name.startswith("weights.")})
        for place, version in enumerate(saved[_VERSIONS].tolist()):
            prefix = f"weights.{version}."
            weights = {name.removeprefix(prefix): one for name, one in saved.items() if name.startswith(prefix)}
            self._restored[place] = _Published(version, weights)

    def _drop_orders(self) -> None:
        """Let go of what is on its way; what is being collected is finished first."""
        with self._room:
            self._stopped = True
            self._room.notify()
        for ordered in self._ordered.values():
            ordered.rollout.cancel()
        self._thread.submit(lambda: None).result()
        self._ordered, self._restored, self._waiting, self._stopped = {}, {}, 0, False

    def statistics(self) -> Mapping[str, float]:
        """Those of the collector, how many finished rollouts of blocks wait, and how old the last one's weights are."""
        mine = {"parallel/queue_depth": self._waiting, "parallel/version_lag": self._version_lag}
        return {**self._collector.statistics(), **mine}

    def close(self) -> None:
        """End the thread, then the collector; may be called twice."""
        if not self._closed:
            self._drop_orders()
            self._thread.shutdown()
        self._closed = True
        self._collector.close()
