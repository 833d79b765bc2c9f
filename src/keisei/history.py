"""What a run tells about itself: records, events, the lines that say them, and reading a run's lines again.

`metrics.py` writes them, the views and `plot.py` show them. One line of JSON is one record or one event; a number that
JSON cannot say (not finite) is null in it, and named in `not_finite`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keisei.errors import RunError

LINES = "metrics.jsonl"
COUNTS = ("steps", "total_steps", "games", "seconds")
RESERVED = ("iteration", "time", "event", "text", "not_finite")


@dataclass(frozen=True)
class Evaluation:
    """How the network did against one opponent; `elo` is the difference in its favour, with a 95 % interval."""

    opponent: str
    score: float  # from 0 to 1
    elo: float = math.nan
    elo_low: float = math.nan
    elo_high: float = math.nan


@dataclass(frozen=True)
class Record:
    """The numbers of one iteration of the learner. `COUNTS` are always among them:

    the lane steps so far and in all, the games so far, and the seconds since training began, of earlier sessions too.
    """

    iteration: int
    numbers: Mapping[str, float]
    time: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        missing = [name for name in COUNTS if name not in self.numbers]
        if missing:
            raise ValueError(f"a record needs {', '.join(COUNTS)}; {', '.join(missing)} missing at {self.iteration}")

    @property
    def steps(self) -> int:
        """Lane steps so far."""
        return int(self.numbers["steps"])

    @property
    def total_steps(self) -> int:
        """The run's budget of lane steps."""
        return int(self.numbers["total_steps"])

    @property
    def games(self) -> int:
        """Games finished so far."""
        return int(self.numbers["games"])

    @property
    def seconds(self) -> float:
        """Wall time of training so far."""
        return self.numbers["seconds"]

    def group(self, name: str) -> dict[str, float]:
        """The numbers of a group: `learn` gives `loss` for `learn/loss`."""
        start = f"{name}/"
        return {key[len(start) :]: value for key, value in self.numbers.items() if key.startswith(start)}

    def evaluations(self) -> list[Evaluation]:
        """The evaluations of this iteration, in the order they were recorded in."""
        found: dict[str, dict[str, float]] = {}
        for key, value in self.group("evaluate").items():
            opponent, _, name = key.rpartition("/")
            found.setdefault(opponent, {})[name] = value
        elo = ("elo", "elo_low", "elo_high")
        return [
            Evaluation(opponent, given["score"], *(given.get(name, math.nan) for name in elo))
            for opponent, given in found.items()
            if "score" in given
        ]


@dataclass(frozen=True)
class Event:
    """Something that happened, in words. Its kind is one word; `alarm` is for what somebody should look at."""

    iteration: int
    kind: str
    text: str
    time: float = field(default_factory=time.time)


# --- lines -----------------------------------------------------------------------------------------------------------


def line(entry: Record | Event) -> bytes:
    """The line that says a record or an event; `entry` reads it again."""
    given: Mapping[str, object] = (
        _finite(entry.numbers) if isinstance(entry, Record) else {"event": entry.kind, "text": entry.text}
    )
    start = {"iteration": entry.iteration, "time": round(entry.time, 3)}
    return json.dumps({**start, **given}, allow_nan=False).encode() + b"\n"


def _finite(given: Mapping[str, float]) -> dict[str, object]:
    strange = {name: str(value) for name, value in given.items() if not math.isfinite(value)}
    written: dict[str, object] = {name: None if name in strange else value for name, value in given.items()}
    return {**written, "not_finite": strange} if strange else written


def entry(line: bytes) -> Record | Event | None:
    """What a line says; None where it is damaged."""
    try:
        given = json.loads(line)
        iteration, when = int(given.pop("iteration")), float(given.pop("time"))
        if "event" in given:
            return Event(iteration, str(given["event"]), str(given["text"]), when)
        strange = given.pop("not_finite", {})
        given |= {name: float(value) for name, value in strange.items()}
        return (
            Record(iteration, given, when) if all(isinstance(value, int | float) for value in given.values()) else None
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


# --- a run's lines ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """What a run's lines say."""

    records: list[Record]
    events: list[Event]
    damaged: int  # whole lines that say nothing; the last line may be half written, and is none of them


def read(run: Path) -> History:
    """Everything that a run has recorded. Raises RunError where there is nothing."""
    found = [entry(line) for line in _whole_lines(run)]
    records = [each for each in found if isinstance(each, Record)]
    events = [each for each in found if isinstance(each, Event)]
    return History(records, events, found.count(None))


def latest(run: Path, group: str = "") -> Record | None:
    """The last record, or the last with numbers of a group, without reading all others. Raises RunError."""
    mark = f'"{group}/'.encode() if group else b""
    lines = (line for line in reversed(_whole_lines(run)) if mark in line)
    return next((found for line in lines if isinstance(found := entry(line), Record)), None)


def _whole_lines(run: Path) -> list[bytes]:
    """The lines, without the end of the file where a line is being written, or was when the run was killed."""
    try:
        return (run / LINES).read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise RunError(f"cannot read the metrics {run / LINES}: {error.strerror}") from None
