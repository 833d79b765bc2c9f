"""Past selves on their way to workers: the manager's pool, with its weights in shared memory, and a worker's view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from keisei.collect.collector import Weights
from keisei.collect.past import PastSelves
from keisei.parallel.messages import PastPlace, Setup
from keisei.parallel.model_sync import ModelSynchronizer, WeightsReader
from keisei.parallel.shared_memory import READ_ONLY, SharedMemory
from keisei.policy import Actor


class SharedPast:
    """The pool of past selves, written for workers where there are slots."""

    def __init__(self, selves: PastSelves, like: Weights, slots: int) -> None:
        """Twice as many slots as past selves: what is written again lies elsewhere, so that others may read on."""
        self.selves = selves
        self.sync = ModelSynchronizer(like if slots else {}, slots)
        self._slots = slots
        self._at: dict[int, int] = {}  # the slots of the versions

    def offer(self, weights: Weights, version: int) -> None:
        """Weights are published: keep them if it is time for new ones."""
        if self.selves.offer(weights, version):
            self._write(weights, version)

    def load_state(self, saved: Weights) -> None:
        """Have the past selves of a saved state, and no others."""
        self.selves.load_state(saved)
        self.write_again()

    def write_again(self) -> None:
        """Write all of them anew."""
        self._at = {}
        for one in self.selves.kept:
            self._write(one.weights, one.version)

    def _write(self, weights: Weights, version: int) -> None:
        if self._slots:
            self._at[version] = self.sync.publish(weights, version)

    @property
    def places(self) -> tuple[PastPlace, ...]:
        """Where workers find them, the oldest first."""
        return tuple((self._at[one.version], one.version) for one in self.selves.kept) if self._slots else ()

    def close(self) -> None:
        """Give the memory back."""
        self.sync.close()


class PastReader(Sequence[Actor]):
    """The past selves of an order. A block meets one of them at most, so one policy plays for all."""

    def __init__(self, setup: Setup, build_policy: Callable[[], Actor]) -> None:
        self.places: tuple[PastPlace, ...] = ()
        self._policy = build_policy()
        memory = SharedMemory(setup.past_bytes, setup.past_descriptor, protection=READ_ONLY)
        self._reader = WeightsReader(self._policy.network, memory, setup.compression)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Actor: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Actor]: ...
    def __getitem__(self, place: int | slice) -> Actor | Sequence[Actor]:
        """Who plays as that version, until the next one is asked for; raises WorkerError where its weights are not
        there."""
        assert isinstance(place, int), "one at a time"
        self._reader.apply(*self.places[place])
        return self._policy
