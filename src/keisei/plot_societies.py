"""The panels of a society's picture: what each agent earned, how it was shared, what was done in the worlds.

`plot.py` puts them beside those that all runs have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from keisei.history import Record
from keisei.plot_pieces import (
    COLOURS,
    FAINT,
    INK,
    SMOOTH_FROM,
    Array,
    curve,
    from_zero,
    legend_inside,
    line,
    nothing,
    smooth,
    steps_of,
    title,
    values_of,
)

MOST_NAMED = 8  # agents with a colour of their own; of more, the mean and the range are drawn
MOST_DEEDS = 8
OWN_PANELS = ("return", "gini", "sustainability")


def agents_of(records: Sequence[Record]) -> int:
    """How many agents have returns; 0 where the run is none of a society."""
    names = {name for record in records for name in record.numbers if name.startswith("agents/")}
    seats = [int(name.split("/")[1]) for name in names if name.endswith("/return")]
    return max(seats, default=-1) + 1


def returns(axes: Axes, records: Sequence[Record]) -> None:
    """What each agent earned in an episode: the mean over worlds, and how far the worlds were apart."""
    title(axes, "return of each agent in an episode (mean and deviation over worlds)")
    agents = agents_of(records)
    if agents <= MOST_NAMED:
        for agent in range(agents):
            _with_spread(axes, records, f"agents/{agent}/return", COLOURS[agent], f"agent {agent}")
    else:
        _many(axes, records, agents)
    _evaluated(axes, records)
    legend_inside(axes, 6)


def _with_spread(axes: Axes, records: Sequence[Record], name: str, colour: str, called: str) -> None:
    steps, mean, spread = steps_of(records), values_of(records, name), values_of(records, f"{name}_spread")
    known = np.isfinite(mean)
    wide = known & np.isfinite(spread)
    low, high = (_smoothed(mean[wide] + sign * spread[wide]) for sign in (-1, 1))
    axes.fill_between(steps[wide], low, high, color=colour, alpha=0.13, linewidth=0)
    line(axes, steps[known], _smoothed(mean[known]), colour, called, marked=known.sum() <= 12)


def _many(axes: Axes, records: Sequence[Record], agents: int) -> None:
    steps = steps_of(records)
    each = np.stack([values_of(records, f"agents/{agent}/return") for agent in range(agents)])
    known = np.isfinite(each).all(0)
    smoothed = np.stack([_smoothed(own[known]) for own in each])
    for own in smoothed:
        axes.plot(steps[known], own, color=COLOURS[0], alpha=0.16, linewidth=0.8)
    axes.fill_between(steps[known], smoothed.min(0), smoothed.max(0), color=COLOURS[0], alpha=0.1, linewidth=0)
    line(axes, steps[known], smoothed.mean(0), COLOURS[0], f"mean of {agents} agents, and their range", marked=False)


def _evaluated(axes: Axes, records: Sequence[Record]) -> None:
    """Evaluations: all agents' mean, and what agents earn that act at random."""
    steps = steps_of(records)
    found, random = values_of(records, "evaluate/world/return"), values_of(records, "evaluate/random/world/return")
    known = np.isfinite(found)
    if known.any():
        axes.plot(steps[known], found[known], "D", color=INK, markersize=5, label="evaluation, mean")
    if np.isfinite(random).any():
        axes.axhline(float(np.nanmean(random)), color=FAINT, linewidth=1.2, linestyle=(0, (4, 4)), label="at random")


def deeds(axes: Axes, records: Sequence[Record]) -> None:
    """What else is told of the worlds: items by kind, and what the world itself reports, for an agent or a world."""
    title(axes, "what was done")
    names = {name.removeprefix("world/") for record in records for name in record.numbers if name.startswith("world/")}
    told = sorted(name for name in names if name not in OWN_PANELS and not name.endswith("_spread"))
    shown = sorted(told, key=lambda name: -_reach(records, name))[:MOST_DEEDS]
    for name, colour in zip(sorted(shown), COLOURS, strict=False):
        curve(axes, steps_of(records), values_of(records, f"world/{name}"), colour, name.replace("_", " "))
    legend_inside(axes, 3)


def _reach(records: Sequence[Record], name: str) -> float:
    values = values_of(records, f"world/{name}")
    return float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0


def inequality(axes: Axes, records: Sequence[Record]) -> None:
    """The Gini coefficient of the agents' returns."""
    title(axes, "inequality (Gini; 0: all earn the same)")
    curve(axes, steps_of(records), values_of(records, "world/gini"), COLOURS[4])
    axes.set_ylim(0, 1)
    if not axes.lines:
        nothing(axes, "makes no sense here: somebody lost in all" if agents_of(records) > 1 else "there is one agent")


def sustainability(axes: Axes, records: Sequence[Record]) -> None:
    """The mean turn in which something was earned: late, where what there is lasts."""
    title(axes, "sustainability (mean turn of what was gained)")
    curve(axes, steps_of(records), values_of(records, "world/sustainability"), COLOURS[2])
    from_zero(axes)
    if not axes.lines:
        nothing(axes, "nobody has gained anything")


def _smoothed(values: Array) -> Array:
    """Smooth where there are many points."""
    return smooth(values, max(5, math.ceil(len(values) / 40))) if len(values) >= SMOOTH_FROM else values
