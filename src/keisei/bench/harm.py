"""Harm done to workers for real: signals from outside, and trouble that an environment makes inside when it is ordered.

The driver draws what happens from a seed, waits until it was seen and the run goes on, and only then does the next.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from torch import Tensor

from keisei.bench.processes import worker_processes
from keisei.collect.collector import BuildEnvironment
from keisei.environment import Array, Environment, Observation, Step
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.shared_memory import Slab

SEEN_SECONDS = 120.0
_A_WHILE = 0.1
_TICK_SECONDS, _STANDSTILL_SECONDS = 0.05, 3.0


class Clock:
    """Seconds that this process has lived; it stands still while the process is stopped as a whole."""

    def __init__(self) -> None:
        self._lost = 0.0
        self._last = time.monotonic()
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="clock", daemon=True)

    def _tick(self) -> None:
        while not self._ends.wait(_TICK_SECONDS):
            self.now()

    def now(self) -> float:
        """The moment."""
        with self._lock:
            now = time.monotonic()
            if now - self._last > _STANDSTILL_SECONDS:
                self._lost += now - self._last
            self._last = now
            return now - self._lost

    def __enter__(self) -> Self:
        self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


class Witness(Protocol):
    """Who hears what a run says."""

    heard: list[str]
    iteration: int
    clock: Clock


@dataclass(frozen=True)
class Harmed:
    """One fault: what it was, and whether it was named in the log and the run went on."""

    kind: str
    seen: bool
    mended: bool
    began: float = 0.0  # these two are moments
    ended: float = 0.0


# --- inside a worker -------------------------------------------------------------------------------------------------


def _raise(step: Step) -> None:
    raise RuntimeError("a fault that was ordered")


def _end(step: Step) -> None:
    os._exit(0)


def _crash(step: Step) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _pay_no_number(step: Step) -> None:
    step.reward[0] = np.nan


def _garble_the_line(step: Step) -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                os.write(descriptor, b"\xff" * 100)


def _write_astray(step: Step) -> None:
    """This worker changes what it has sealed."""
    original = Slab.seal

    def seal(slab: Slab, *numbers: int) -> None:
        original(slab, *numbers)
        slab.rollout.reward[0, 0, 0] += 1
        substitute(Slab, "seal", original)

    substitute(Slab, "seal", seal)


INSIDE: Mapping[str, tuple[Callable[[Step], None], str]] = {
    "exception in the environment": (_raise, "a fault that was ordered"),
    "process ended by the environment": (_end, "exit with status 0"),
    "segmentation fault": (_crash, "exit by SIGSEGV"),
    "reward that is no number": (_pay_no_number, "expected a finite number as reward"),
    "garbage on the line": (_garble_the_line, "handed out expected a message"),
    "stray write into a sealed slab": (_write_astray, "handed out a wrong checksum"),
}
"""What environments do when they are ordered to, and what the log says then."""


@dataclass(frozen=True)
class WithHarm:
    """Builds environments that do in workers what a file orders; the file is gone then, so only one does it."""

    build: BuildEnvironment
    orders: Path
    home: int

    def __call__(self, first_lane: int) -> Environment:
        """The environment of a block."""
        made = self.build(first_lane)
        if os.getpid() != self.home:
            substitute(made, "step", partial(_step, made.step, self.orders))
        return made


def _step(
    step: Callable[[Sequence[Array], Step, Sequence[Observation]], None],
    orders: Path,
    actions: Sequence[Array],
    came: Step,
    seen: Sequence[Observation],
) -> None:
    step(actions, came, seen)
    if orders.exists():
        mine = orders.with_name(f"{orders.name}-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            orders.rename(mine)  # whoever comes first
            INSIDE[mine.read_text(encoding="utf-8")][0](came)


# --- from outside ----------------------------------------------------------------------------------------------------

KILLED, ALL_KILLED, STOPPED = "killed", "all killed at once", "stopped"
STOPPED_A_WHILE, FLIPPED = "stopped for a while", "flipped bit in published weights"
HARM = (KILLED, ALL_KILLED, STOPPED, STOPPED_A_WHILE, FLIPPED, *INSIDE)


class Driver:
    """Does harm, one fault after the other, all drawn from a seed."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[str],
        *,
        every: float,
        workers: int,
        ready: Callable[[], list[int]],
        orders: Path,
        witness: Witness,
    ) -> None:
        """`ready` gives the processes that play: one that is stopped as it starts is not missed for much longer."""
        self.harmed: list[Harmed] = []
        self.ended = False
        self._chance = random.Random(seed)
        self._kinds = kinds
        self._next: list[str] = []
        self._every = every
        self._workers = workers
        self._ready = ready
        self._orders = orders
        self._witness = witness
        self._now = witness.clock.now

    def end(self) -> None:
        """The run is over: wait for nothing any more."""
        self.ended = True

    def pause(self, until: float) -> None:
        """Wait until the next fault, or that moment."""
        at = min(until, self._now() + self._every * self._chance.uniform(0.5, 1.5))
        while self._now() < at and not self.ended:
            time.sleep(0.005)

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Wait until something is so; says whether it came to that."""
        until = self._now() + SEEN_SECONDS
        while not condition():
            if self.ended or self._now() > until:
                return condition()
            time.sleep(0.002)
        return True

    def harm(self) -> None:
        """Draw a fault, do it, and wait until it was seen and mended."""
        if not self._next:  # each kind comes once before any comes again
            self._next = self._chance.sample(self._kinds, len(self._kinds))
        kind = self._next.pop()
        heard, began = len(self._witness.heard), self._now()
        seen = self._do(kind, lambda pattern: self._heard(pattern, heard))
        iteration = self._witness.iteration
        mended = self.wait(lambda: self._goes_on_after(iteration))
        self.harmed.append(Harmed(kind, seen, mended, began, self._now()))

    def _goes_on_after(self, iteration: int) -> bool:
        """Whether the run goes on, and with all of its workers."""
        return self._witness.iteration > iteration + 1 and len(self._ready()) >= self._workers

    def _heard(self, pattern: str, since: int) -> bool:
        return any(re.search(pattern, text) for text in self._witness.heard[since:])

    def _do(self, kind: str, heard: Callable[[str], bool]) -> bool:
        if kind in INSIDE:
            return self._order(kind, heard)
        if kind == FLIPPED:
            with flipped(self._chance):
                return self.wait(lambda: heard("wrong checksum; the weights are published again"))
        if not self.wait(lambda: bool(self._ready())):
            return False
        victims = worker_processes() if kind == ALL_KILLED else [self._chance.choice(self._ready())]
        if kind == STOPPED_A_WHILE:
            return self._stop_a_while(victims[0])
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGSTOP if kind == STOPPED else signal.SIGKILL)
        return self.wait(lambda: not set(victims) & set(worker_processes()) and heard("exit by SIGKILL"))

    def _order(self, kind: str, heard: Callable[[str], bool]) -> bool:
        draft = self._orders.with_suffix(".draft")
        draft.write_text(kind, encoding="utf-8")
        draft.rename(self._orders)
        return self.wait(lambda: heard(INSIDE[kind][1]))

    def _stop_a_while(self, victim: int) -> bool:
        """It must not be replaced."""
        os.kill(victim, signal.SIGSTOP)
        time.sleep(_A_WHILE)
        os.kill(victim, signal.SIGCONT)
        time.sleep(_A_WHILE)
        return victim in worker_processes()


@contextlib.contextmanager
def flipped(chance: random.Random) -> Iterator[None]:
    """A bit of the next weights that are published is flipped where workers read them."""
    original, left, place = ModelSynchronizer.publish, [1], chance.random()

    def publish(sync: ModelSynchronizer, weights: Mapping[str, Tensor], version: int) -> int:
        slot = original(sync, weights, version)
        if left:
            left.clear()
            size = sync.layout.bytes
            sync.memory.bytes[slot * size + 64 + int(place * (size - 64))] ^= 1
        return slot

    substitute(ModelSynchronizer, "publish", publish)
    try:
        yield
    finally:
        substitute(ModelSynchronizer, "publish", original)


def substitute(owner: object, name: str, by: object) -> None:
    """Put something else in the place of a method."""
    setattr(owner, name, by)
