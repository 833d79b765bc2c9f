"""Many copies of one world in memory, and the calls that run them: over threads, and with faults told in words."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np

from keisei.environment import Bool, Int8, Int64, UInt8
from keisei.gridworld import kernel
from keisei.gridworld.faults import fault
from keisei.gridworld.running import Structured, functions, memory_of, outcome_arrays
from keisei.gridworld.world import WorldFile

Call = Callable[[int, int, Int64], int]


class Worlds:
    """Copies of one world: as they stand (`now`), and as their last episodes ended (`last`)."""

    def __init__(self, file: WorldFile, blank: Structured, copies: int, threads: int, *, debug: bool) -> None:
        self.now = np.repeat(blank, copies)
        self.last = np.repeat(blank, copies)
        self._file, self._debug = file, debug
        self._functions = functions(file, blank, debug=debug)
        # a division by zero is an error in compiled functions, and so it is in others
        self._divisions = partial(np.errstate, divide="raise") if debug else nullcontext
        self._now, self._last = self._handed(self.now), self._handed(self.last)
        self._memory = memory_of(self._now, self.now, self.last, blank)
        self._threads = None if threads == 1 else ThreadPoolExecutor(threads)
        edges = np.linspace(0, copies, min(threads, copies) + 1).astype(int).tolist()
        self._ranges = list(pairwise(edges))

    def _handed(self, places: Structured) -> kernel.Places:
        """The same memory as the functions take it: plain Python needs attributes."""
        return cast(kernel.Places, places.view(np.recarray) if self._debug else places)

    def reset(self, seed: int, first_world: int) -> None:
        """Begin every world's stream of chance and first episode."""
        self.now["seed"] = seed - (seed >> 63 << 64)  # the same 64 bits with a sign
        self.now["world"] = first_world + np.arange(len(self.now))
        self.now["drawn"], self.now["words"] = 0, 0
        copies, agents = self.now["row"].shape
        begin = np.full(copies, kernel.BEGINS, np.uint8)
        self.play(np.zeros((copies, agents), np.int64), begin, outcome_arrays(copies, agents))

    def check(self, actions: Int64, what: UInt8) -> tuple[int, int]:
        """Find which worlds play, and which pass. Gives the first lane with a wrong action and why, or -1 and 0."""
        problem = np.zeros(1, np.int64)
        lane = self._functions.check(self._now, actions, what, problem)
        return lane, int(problem[0])

    def play(self, actions: Int64, what: UInt8, out: kernel.Outcome) -> None:
        """Let every world go on to its next decision, pass or begin anew."""
        play, memory = self._functions.play, self._memory
        self._run(self.now, lambda first, end, at: play(memory, actions, what, out, first, end, at))

    def show(self, seats: Int64, out: UInt8, wanted: Bool, *, last: bool = False) -> None:
        """Write the packed observations of some seats, now or when the last episode ended, in the wanted worlds."""
        worlds, places = (self._last, self.last) if last else (self._now, self.now)
        self._run(places, lambda first, end, at: self._functions.show(worlds, seats, out, wanted, first, end, at))

    def permit(self, seats: Int64, mask: UInt8, seat: Int8) -> None:
        """Write who decides among some seats, and what is allowed."""
        permit = self._functions.permit
        self._run(self.now, lambda first, end, at: permit(self._now, seats, mask, seat, first, end, at))

    def close(self) -> None:
        """Give back the threads."""
        if self._threads:
            self._threads.shutdown()

    def _run(self, places: Structured, call: Call) -> None:
        """Call for all worlds, part by part; a fault in one of them is raised."""
        if self._threads is None:
            self._guarded(places, call, 0, len(places))
        else:
            list(self._threads.map(partial(self._guarded, places, call), *zip(*self._ranges, strict=True)))

    def _guarded(self, places: Structured, call: Call, first: int, end: int) -> None:
        at = np.zeros(1, np.int64)
        try:
            with self._divisions():
                number = call(first, end, at)
        except (IndexError, ArithmeticError, ValueError) as error:
            raise fault(self._file, places, int(at[0]), str(error)) from error
        if number >= 0:
            raise fault(self._file, places, number)
