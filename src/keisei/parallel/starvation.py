"""How long a process waits for a processor: on a machine that others keep busy, that is no fault of its own."""

from __future__ import annotations

import contextlib


class Starvation:
    """How long one process has waited since a moment, with the wait that it is in.

    The system adds a wait to its books only when it is over. Until then a process is runnable and nothing else in its
    books changes, which is looked at each time: the more often, the nearer to the truth.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._books = (0.0, 0.0)
        self._changed_at = 0.0  # when they were first seen as they are
        self._waited = 0.0  # until the moment from which is counted

    def begin(self, now: float) -> None:
        """Count from now on."""
        self._books, self._changed_at = _books(self._process), now
        self._waited = self._books[1]

    def seconds(self, now: float) -> float:
        """How long it has waited since then."""
        books = _books(self._process)
        if books != self._books:
            self._books, self._changed_at = books, now
        waiting = now - self._changed_at if now > self._changed_at and state_of(self._process) == "R" else 0.0
        return books[1] - self._waited + waiting


def starved_seconds(process: int) -> float:
    """How long a process or thread has waited for a processor in its life; 0 where the system does not say."""
    return _books(process)[1]


def state_of(process: int) -> str:
    """The state of a process as one letter: `R` runnable, `S` asleep, `T` stopped, …; nothing where it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]
    return ""


def _books(process: int) -> tuple[float, float]:
    """For how long it has run, and has waited to run; zeros where the system does not say."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/schedstat", encoding="utf-8") as file:
        ran, waited, _ = file.read().split()
        return int(ran) / 1e9, int(waited) / 1e9
    return 0.0, 0.0
