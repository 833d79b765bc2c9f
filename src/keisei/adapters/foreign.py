"""Copies of somebody else's environment behind the `Environment` contract: what all kinds of them have in common.

Each copy is an object that is stepped alone; what it shows is kept in arrays, checked, and written out for all at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import numpy as np

from keisei.adapters.spaces import MASK, Form
from keisei.environment import NO_SEAT, PASS, Array, Group, Int8, Observation, Step, UInt8
from keisei.errors import ActionError, ConfigError, ContractError, StateError


class Closable(Protocol):
    """What every kind of copy is."""

    def close(self) -> object:
        """Give everything back."""


C = TypeVar("C", bound=Closable)


def built(build: Callable[[], C], copies: int) -> list[C]:
    """So many copies."""
    if copies < 1:
        raise ConfigError(f"copies: expected 1 or more, found {copies}")
    return [build() for _ in range(copies)]


class ForeignCopies(ABC):
    """Copies of one environment, each with generators of its own that belong to (seed, lane). States cannot be saved.

    What copies get wrong raises `ContractError`, naming field and copy. A kind of copies says how an episode begins and
    how a step is played; it keeps what its lanes see by `_keep` and `_end`, and who decides in `_seat`.
    """

    reasons = ("going on", "terminated", "truncated")
    state_bytes = 0

    def __init__(
        self, copies: Sequence[Closable], form: Form, seats: tuple[str, ...], *, lanes: int, seed: int, first_lane: int
    ) -> None:
        """`lanes` is how many each copy has; lane `i` is lane `first_lane + i` of the run, whatever is beside it."""
        self._open = list(copies)
        self._form = form
        self._lanes_per_copy = lanes
        self._seeds = [_seed(seed, first_lane + copy * lanes) for copy in range(len(copies))]
        self.seats = seats
        self.copies, self.lanes = len(copies), len(copies) * lanes
        every = np.arange(self.lanes, dtype=np.int32)
        self.groups = (Group(every, form.shape, form.dtype, form.actions, "mask", form.actions),)
        self._values: Array = np.zeros((self.lanes, *form.shape), form.dtype)
        self._mask: UInt8 = np.zeros((self.lanes, form.actions), np.uint8)
        self._seat: Int8 = np.full(self.lanes, NO_SEAT, np.int8)
        self._steps = [0] * len(copies)  # of the episode that goes on in each copy
        self._current = 0  # the copy at work
        self._restart()

    @abstractmethod
    def _begin(self, copy: int, seed: int | None) -> None:
        """Begin an episode, and keep what its lanes see."""

    @abstractmethod
    def _play(self, copy: int, actions: list[int], step: Step) -> None:
        """Play the actions of a copy's lanes, of all that are given `[L]`, write what is not as in a step that pays
        nothing, and keep what its lanes see.
        """

    def _restart(self) -> None:
        with self._saying_where():
            for copy, seed in enumerate(self._seeds):
                self._current, self._steps[copy] = copy, 0
                self._begin(copy, seed)
        self._check()

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every copy anew from its seed, and write what is seen."""
        self._restart()
        self.observe(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what the copies show now."""
        (seen,) = observation
        seen.values[:] = self._values
        seen.legal.actions[:] = self._mask
        seen.seat[:] = self._seat

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per lane (`PASS` in all of a copy: none), one copy after the other."""
        chosen = self._checked(actions)
        playing = self._playing(chosen)
        step.reward[:], step.discount[:] = 0, 1
        step.ended[:], step.cut_off[:], step.reason[:], step.length[:] = False, False, 0, 0
        with self._saying_where():
            for copy in playing:
                self._current = copy
                self._steps[copy] += 1
                self._play(copy, chosen, step)
        self._check()
        self.observe(observation)

    def _checked(self, actions: Sequence[Array]) -> list[int]:
        """The action of each lane, or `PASS` `[L]`. Raises `ActionError`."""
        if len(actions) != 1 or actions[0].shape != (self.lanes,) or actions[0].dtype.kind not in "iu":
            found = ", ".join(f"{array.dtype} {list(array.shape)}" for array in actions)
            raise ActionError(f"expected actions as one integer array [{self.lanes}], found {found or 'none'}")
        chosen: list[int] = actions[0].tolist()
        mask, most = self._mask, self._form.actions
        for lane, seat in enumerate(self._seat.tolist()):
            action = chosen[lane]
            if seat == NO_SEAT:
                chosen[lane] = PASS
            elif action != PASS and not (0 <= action < most and mask[lane, action]):
                why = "is illegal" if 0 <= action < most else f"is not in 0..{most - 1}"
                episode = f"step {self._steps[lane // self._lanes_per_copy]} of its episode"
                raise ActionError(f"action {action} of lane {lane} {why}, in {episode}")
        return chosen

    def _playing(self, chosen: list[int]) -> list[int]:
        """The copies that do not pass. Raises `ActionError` where some lanes of a copy pass and others do not."""
        size = self._lanes_per_copy
        if size == 1:
            return [copy for copy, action in enumerate(chosen) if action != PASS]
        passes = (np.array(chosen) == PASS).reshape(-1, size)
        decides = (self._seat != NO_SEAT).reshape(-1, size)
        some = ~passes.all(axis=1)
        torn = some & (passes & decides).any(axis=1)
        if torn.any():
            raise ActionError(f"some lanes of copy {torn.argmax()} pass, and others do not")
        return np.flatnonzero(some).tolist()

    def _keep(self, lane: int, values: Array, mask: Array | None) -> None:
        """Keep what is seen and allowed in a lane; without a mask everything is."""
        self._values[lane] = values
        self._mask[lane] = 1 if mask is None else mask

    def _end(self, step: Step, lane: int, *, over: bool, sign: int, length: int, last: Array) -> None:
        """Write that a lane's game is over, or else was cut off, where the sign would have been that one."""
        step.ended[lane], step.cut_off[lane] = True, not over
        step.discount[lane] = 0 if over else sign
        step.reason[lane] = 1 if over else 2
        step.length[lane] = length
        if not np.isfinite(last).all():
            raise ContractError("observation: the last one of an episode is not finite")
        step.final[0][lane] = last

    @contextmanager
    def _saying_where(self) -> Iterator[None]:
        """Let what goes wrong in a copy say in which."""
        try:
            yield
        except Exception as error:
            copy = self._current
            where = f"in copy {copy} ({self._open[copy]}), step {self._steps[copy]} of its episode"
            if isinstance(error, ContractError):
                raise ContractError(f"{error}, {where}") from None
            error.add_note(where)
            raise

    def _check(self) -> None:
        """Look at all copies at once: it costs less."""
        if self._values.dtype.kind == "f" and not np.isfinite(self._values).all():
            finite = np.isfinite(self._values).reshape(self.lanes, -1).all(axis=1)
            raise ContractError(f"observation: not finite, {self._place(int(finite.argmin()))}")
        wrong = self._mask.max(axis=1) != (self._seat != NO_SEAT)
        if wrong.any():
            lane = int(wrong.argmax())
            found = self._mask[lane]
            complaint = (
                f"expected 0 and 1, found {found.view(np.int8).tolist()}" if found.any() else "no action is legal"
            )
            raise ContractError(f"{MASK}: {complaint}, {self._place(lane)}")

    def _place(self, lane: int) -> str:
        copy, seat = divmod(lane, self._lanes_per_copy)
        return f"in copy {copy}" + (f", seat {self.seats[seat]}" if self._lanes_per_copy > 1 else "")

    def save_state(self, out: UInt8) -> None:
        """Not possible: always raises `StateError`."""
        raise StateError("a foreign environment cannot save its state")

    def load_state(self, saved: UInt8) -> None:
        """Not possible: always raises `StateError`."""
        raise StateError("a foreign environment cannot load a state")

    def close(self) -> None:
        """Close every copy, once."""
        while self._open:
            self._open.pop().close()


def _seed(seed: int, lane: int) -> int:
    """A copy's own seed, of 31 bits: some environments take no more."""
    return int(np.random.SeedSequence([seed, lane]).generate_state(1)[0]) >> 1
