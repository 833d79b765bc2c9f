"""A run's learning curves as one picture: how strong it is, how its games go, what learning says, how fast it is.

Where several agents learn, the upper panels are those of `plot_societies.py`. Each panel is a function that draws what
the records have and says so where they have nothing.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import FuncFormatter, PercentFormatter

from keisei.errors import RunError
from keisei.history import Evaluation, Record, read
from keisei.plot_pieces import (
    COLOURS,
    FAINT,
    INK,
    MOST_MARKS,
    Array,
    curve,
    from_zero,
    furnish,
    legend,
    line,
    nothing,
    steps_of,
    title,
    values_of,
)
from keisei.plot_societies import agents_of, deeds, inequality, returns, sustainability
from keisei.screen import label, shown_numbers
from keisei.words import amount, duration, number

Panel = Callable[[Axes, Sequence[Record]], None]

SHARES = ("#3c8d53", "#d9b44a", "#6aa5c9", "#a889c4", "#c0434d", "#8c959f", "#c8ccd2")
MOST_BINS = 120
MOST_OPPONENTS = 6


def plot(run: Path, out: Path) -> None:
    """Draw a run's learning curves into a file; its ending says the format. Raises RunError where that cannot be."""
    records = read(run).records
    if not records:
        raise RunError(f"there is nothing to draw yet: no iteration is finished in {run}")
    figure = draw(records, run.resolve().name)
    partial = out.with_name(f".{out.name}.{os.getpid()}{out.suffix}")
    try:
        figure.savefig(partial, dpi=130)
        partial.replace(out)
    except ValueError as error:
        raise RunError(f"cannot draw {out}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def draw(records: Sequence[Record], name: str) -> Figure:
    """All panels, with the run's name above them."""
    figure = Figure(figsize=(13, 9.6), facecolor="white")
    last = records[-1]
    budget = f" of {amount(last.total_steps)}" if last.steps < last.total_steps else ""
    facts = f"{amount(last.steps)}{budget} steps · {last.games:,} games · {duration(last.seconds)}"
    figure.text(0.055, 0.965, name, fontsize=17, fontweight="bold", color=INK, va="center", parse_math=False)
    figure.text(0.055, 0.937, facts, fontsize=10.5, color=FAINT, va="center")
    grid = GridSpec(3, 12, figure, 0.055, 0.065, 0.98, 0.885, wspace=1.6, hspace=0.42, height_ratios=(1.25, 1, 0.85))
    for panel, row, start, end in _layout(records):
        axes = figure.add_subplot(grid[row, start:end])
        furnish(axes, last.steps)
        panel(axes, records)
        if not (axes.lines or axes.patches or axes.texts):
            nothing(axes, "not recorded")
    return figure


def _layout(records: Sequence[Record]) -> list[tuple[Panel, int, int, int]]:
    """Which panel stands in which row, from which to which of twelve columns."""
    upper = _OF_SOCIETIES if agents_of(records) else _OF_GAMES
    known: dict[str, float] = {}
    for record in records:  # the last record may be an evaluation alone
        known |= record.numbers
    names = shown_numbers(Record(records[-1].iteration, known))[:4]
    return [*upper, *((learning(name, COLOURS[at]), 2, 3 * at, 3 * at + 3) for at, name in enumerate(names))]


# --- panels ----------------------------------------------------------------------------------------------------------


def evaluations(axes: Axes, records: Sequence[Record]) -> None:
    """The score against each opponent, with its 95 % interval."""
    title(axes, "score in evaluation games against … (95% interval)")
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.axhline(0.5, color=FAINT, linewidth=0.9, linestyle=(0, (4, 4)), zorder=1)
    found: dict[str, list[tuple[int, Evaluation]]] = defaultdict(list)
    for record in records:
        for each in record.evaluations():
            found[each.opponent].append((record.steps, each))
    most = sorted(found, key=lambda opponent: -len(found[opponent]))[:MOST_OPPONENTS]
    for opponent, colour in zip((name for name in found if name in most), COLOURS, strict=False):
        steps = [at for at, _ in found[opponent]]
        scores = [each.score for _, each in found[opponent]]
        low = [_score(each.elo_low) for _, each in found[opponent]]
        high = [_score(each.elo_high) for _, each in found[opponent]]
        few = len(steps) <= MOST_MARKS
        axes.fill_between(steps, low, high, color=colour, alpha=0.14, linewidth=0)
        if few:
            axes.vlines(steps, low, high, color=colour, alpha=0.35, linewidth=1.2)
        line(axes, steps, scores, colour, opponent, marked=few)
    legend(axes)
    if not found:
        nothing(axes, "no evaluation yet")


def game_length(axes: Axes, records: Sequence[Record]) -> None:
    """How long games are."""
    title(axes, "mean length of games, in plies")
    curve(axes, steps_of(records), values_of(records, "collect/mean_length"), COLOURS[5])
    from_zero(axes)


def endings(axes: Axes, records: Sequence[Record]) -> None:
    """The shares of the ways in which games end, stacked."""
    title(axes, "how games end")
    edges, shares = _shares(records)
    if not shares:
        nothing(axes, "no game has ended yet")
        return
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(visible=False)
    below = np.zeros(len(edges) - 1)
    for (name, share), colour in zip(shares.items(), SHARES, strict=False):
        axes.stairs(below + share, edges, baseline=below, fill=True, color=colour, alpha=0.85, label=label(name))
        below = below + share
    legend(axes)


def speed(axes: Axes, records: Sequence[Record]) -> None:
    """Plies per second while collecting, and steps per second in all."""
    title(axes, "speed, per second")
    steps, seconds = steps_of(records), values_of(records, "seconds")
    done, passed = np.diff(steps, prepend=0.0), np.diff(seconds, prepend=0.0)
    whole = np.divide(done, passed, out=np.full(len(done), np.nan), where=(done > 0) & (passed > 0))
    curve(axes, steps, values_of(records, "collect/plies_per_second"), COLOURS[0], "plies, playing")
    curve(axes, steps, whole, COLOURS[1], "steps, in all")
    from_zero(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    legend(axes)


def learning(name: str, colour: str) -> Panel:
    """The panel of one of the learner's numbers."""

    def panel(axes: Axes, records: Sequence[Record]) -> None:
        title(axes, label(name))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        curve(axes, steps_of(records), values_of(records, f"learn/{name}"), colour)

    return panel


_OF_GAMES: tuple[tuple[Panel, int, int, int], ...] = (
    (evaluations, 0, 0, 8),
    (game_length, 0, 8, 12),
    (endings, 1, 0, 8),
    (speed, 1, 8, 12),
)
_OF_SOCIETIES: tuple[tuple[Panel, int, int, int], ...] = (
    (returns, 0, 0, 8),
    (deeds, 0, 8, 12),
    (inequality, 1, 0, 4),
    (sustainability, 1, 4, 8),
    (speed, 1, 8, 12),
)


# --- helpers of panels ----------------------------------------------------------------------------------------------


def _shares(records: Sequence[Record]) -> tuple[Array, dict[str, Array]]:
    """The edges of bins of iterations, in steps, and for each way to end a game its share in each bin."""
    counts = [record.group("collect/reason") for record in records]
    total: Counter[str] = Counter()
    for each in counts:
        total.update({name: int(count) for name, count in each.items() if math.isfinite(count)})
    names = [name for name, count in total.most_common() if count > 0]
    bounds = np.linspace(0, len(records), min(len(records), MOST_BINS) + 1).round().astype(int)
    edges = np.array([0, *(records[end - 1].steps for end in bounds[1:])], dtype=np.float64)
    table = np.array([[each.get(name, 0) for each in counts] for name in names], dtype=np.float64)
    if not names:
        return edges, {}
    binned = np.add.reduceat(table, bounds[:-1], axis=1)
    with np.errstate(invalid="ignore"):
        shares = binned / binned.sum(axis=0)
    if len(names) > len(SHARES):
        shares = np.vstack([shares[: len(SHARES) - 1], shares[len(SHARES) - 1 :].sum(axis=0)])
        names = [*names[: len(SHARES) - 1], "other"]
    return edges, dict(zip(names, np.nan_to_num(shares), strict=True))


def _score(elo: float) -> float:
    """The score that is expected at a difference in Elo."""
    return 1 / (1 + 10 ** (-elo / 400)) if elo > -4000 else 0.0
