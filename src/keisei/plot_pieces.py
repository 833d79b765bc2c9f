"""What the panels of a picture are made of: curves, axes, titles and legends."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from keisei.history import Record
from keisei.words import amount

Array = NDArray[np.float64]

INK = "#24292f"
FAINT = "#8c959f"
COLOURS = ("#2f6fb5", "#d9822b", "#3c8d53", "#8a5fb0", "#c0434d", "#5b8a8f", "#b59a2f", "#7a6a5a")
MOST_MARKS = 24
SMOOTH_FROM = 40  # with fewer points than this, the points are the curve


# --- curves ----------------------------------------------------------------------------------------------------------


def curve(axes: Axes, steps: Array, values: Array, colour: str, name: str = "") -> None:
    """A curve; where there are many points, a smooth one over their faint trace."""
    known = np.isfinite(values)
    if not known.any():
        return
    steps, values = steps[known], values[known]
    many = len(values) >= SMOOTH_FROM
    if many:
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.9)
        values = smooth(values, max(5, len(values) // 40))
    line(axes, steps, values, colour, name, marked=len(values) <= MOST_MARKS // 2)


def line(axes: Axes, steps: ArrayLike, values: ArrayLike, colour: str, name: str, *, marked: bool) -> None:
    """A line, with a mark at each point where asked for."""
    marker = "o" if marked else ""
    axes.plot(steps, values, color=colour, linewidth=1.8, marker=marker, markersize=4.5, label=name, clip_on=not marked)


def from_zero(axes: Axes) -> None:
    """Let the values begin at 0."""
    top = axes.dataLim.y1
    axes.set_ylim(0, top * 1.08 if math.isfinite(top) and top > 0 else 1)


def smooth(values: Array, width: int) -> Array:
    """The mean of each value and its neighbours, of as many as there are at the ends."""
    kernel = np.ones(width // 2 * 2 + 1)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")


def steps_of(records: Sequence[Record]) -> Array:
    """The steps of each record."""
    return np.array([record.steps for record in records], dtype=np.float64)


def values_of(records: Sequence[Record], name: str) -> Array:
    """A number of each record; NaN where it has none."""
    return np.array([record.numbers.get(name, math.nan) for record in records], dtype=np.float64)


# --- furniture -------------------------------------------------------------------------------------------------------


def furnish(axes: Axes, last_step: int) -> None:
    """Quiet axes: steps along the bottom, light lines to read values by."""
    axes.set_xlim(0, max(1, last_step) * 1.01)
    axes.xaxis.set_major_locator(MaxNLocator(5 if axes.get_position().width < 0.4 else 9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(colors=FAINT, labelsize=8.5, length=3)
    axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c9ced6")


def title(axes: Axes, text: str) -> None:
    """What a panel shows, above it."""
    axes.set_title(text, loc="left", fontsize=10.5, color=INK)


def legend(axes: Axes) -> None:
    """What the colours mean, above the panel, to the right of its title."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.01, 0.98),
            ncols=len(names),
            frameon=False,
            fontsize=8.5,
            labelcolor=INK,
            columnspacing=1.2,
            handlelength=1.4,
            handletextpad=0.5,
        )


def legend_inside(axes: Axes, columns: int) -> None:
    """What the colours mean, in the panel, with room made for it above the curves."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        rows = -(-len(names) // columns)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + (high - low) * 0.09 * rows)
        axes.legend(
            loc="upper left",
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            labelcolor=INK,
            columnspacing=1.2,
            handlelength=1.4,
            handletextpad=0.5,
            borderaxespad=0.1,
        )


def nothing(axes: Axes, why: str) -> None:
    """Why a panel is empty."""
    axes.text(0.5, 0.55, why, transform=axes.transAxes, ha="center", va="center", color=FAINT, fontsize=11)
