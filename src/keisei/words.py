"""Numbers as people read them: durations, amounts, shares and little curves. Knows nothing of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from keisei.history import Evaluation

BLOCKS = "▁▂▃▄▅▆▇█"


def duration(seconds: float) -> str:
    """`0:07`, `4:12`, `1:02:03`, `3 d 04 h`."""
    whole = max(0, round(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours:02} h"
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def amount(value: float) -> str:
    """Three digits and a letter: `417`, `41.2 k`, `1.25 M`."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def memory(size: float) -> str:
    """Bytes: `412 MiB`, `1.2 GiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def number(value: float) -> str:
    """At most eight characters: four digits of a large number, three of a small one, and a minus that one can see."""
    if 1e4 <= abs(value) < math.inf:
        text = amount(value)
    else:
        text = f"{value:.4g}" if abs(value) >= 0.1 else f"{value:.3g}"
        text = text if len(text) <= 8 else f"{value:.2e}"
    return text.replace("e-0", "e-").replace("-", "−").replace("inf", "∞")


def elo(evaluation: Evaluation) -> str:
    """`+402 Elo, 350 to 470`; nothing where it is not known."""
    if math.isnan(evaluation.elo):
        return ""
    shown, low, high = (
        "−∞" if value == -math.inf else "∞" if value == math.inf else f"{value:.0f}".replace("-", "−")
        for value in (evaluation.elo, evaluation.elo_low, evaluation.elo_high)
    )
    interval = "" if math.isnan(evaluation.elo_low) or math.isnan(evaluation.elo_high) else f", {low} to {high}"
    return f"{'+' if evaluation.elo > 0 else ''}{shown} Elo{interval}"


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve of at most `width` characters through all values; a gap where none is finite."""
    shown = condensed(values, width)
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] if math.isfinite(value) else " " for value in shown)


def condensed(values: Sequence[float], most: int) -> list[float]:
    """At most so many values: the means of neighbours that are finite, NaN where none is."""
    if len(values) <= most:
        return list(values)
    edges = [index * len(values) // most for index in range(most + 1)] if most > 0 else []
    return [_mean(values[start:end]) for start, end in pairwise(edges)]


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def portions(shares: Sequence[float], width: int) -> list[int]:
    """A width in whole characters for each share, together exactly `width` (nothing where all are 0)."""
    total = sum(shares)
    if total <= 0:
        return [0] * len(shares)
    exact = [share / total * width for share in shares]
    widths = [int(each) for each in exact]
    by_rest = sorted(range(len(exact)), key=lambda index: widths[index] - exact[index])
    for index in by_rest[: width - sum(widths)]:
        widths[index] += 1
    return widths
