"""How everything is measured: contenders take turns, round by round, and a report says what came of it.

Only ratios travel from one machine to another, so a ratio is the median over the rounds of *the same round's* rates:
whatever slows the machine for a while slows both sides of a pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Protocol

from keisei.bench.machine import Machine

WARM_UP = 0.2
"""The part of a round's time that each contender runs before the first round, uncounted."""


@dataclass(frozen=True)
class Settings:
    """How long and where to measure; `say` is told what is going on."""

    rounds: int
    seconds: float  # per contender and round
    core: int  # the one that is measured on
    say: Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """Work that was done and the seconds that it took."""

    work: float
    seconds: float

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.work / self.seconds


class Contender(Protocol):
    """Something that can be measured again and again."""

    @property
    def name(self) -> str:
        """What it is called in the report."""

    def measure(self, seconds: float) -> Sample:
        """Work for about so long."""


@dataclass(frozen=True)
class Measurement:
    """The rates of one contender, one per round."""

    name: str
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Result:
    """One line of a report. What it was compared with was measured in the same run."""

    name: str
    value: float  # the median
    unit: str
    against: str | None = None
    ratio: float | None = None
    best: float | None = None
    against_value: float | None = None


@dataclass(frozen=True)
class Report:
    """What one benchmark found; `notes` say what should be known before believing it."""

    benchmark: str
    machine: Machine
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()

    def json_line(self) -> str:
        """The report in the form that every `keisei bench NAME --json` ends with."""
        shown = ("name", "value", "unit", "against", "ratio")
        results = [{key: getattr(result, key) for key in shown} for result in self.results]
        return json.dumps({"benchmark": self.benchmark, "machine": asdict(self.machine), "results": results})


def take_turns(contenders: Sequence[Contender], settings: Settings) -> Mapping[str, Measurement]:
    """Measure all contenders once per round, by name; every other round in the opposite order."""
    for contender in contenders:
        settings.say(f"warming up: {contender.name}")
        contender.measure(WARM_UP * settings.seconds)
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(settings.rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            settings.say(f"round {number + 1} of {settings.rounds}: {contender.name}")
            rates[contender.name].append(contender.measure(settings.seconds).rate)
    return {name: Measurement(name, tuple(found)) for name, found in rates.items()}


def result(measured: Measurement, unit: str) -> Result:
    """A measurement that is compared with nothing."""
    return Result(measured.name, round_off(median(measured.rates)), unit, best=round_off(max(measured.rates)))


def result_against(ours: Measurement, unit: str, theirs: Measurement | None, called: str) -> Result:
    """A measurement compared with another of the same rounds; with none, where the other could not be measured."""
    alone = result(ours, unit)
    if theirs is None:
        return alone
    ratio = median(own / other for own, other in zip(ours.rates, theirs.rates, strict=True))
    return replace(alone, against=called, ratio=round_off(ratio), against_value=round_off(median(theirs.rates)))


def round_off(value: float) -> float:
    """Four digits: more than the noise leaves."""
    return float(f"{value:.4g}")
