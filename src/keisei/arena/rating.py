"""What results say about strength: score, Elo difference with its 95 % confidence interval, and the SPRT.

Results are counts, from worst to best: `[losses, draws, wins]` of single games (trinomial), or of pairs of games with
colours swapped, by the points won in both: `[0, ½, 1, 1½, 2]` (pentanomial). Knows no game and plays none.

Interval and test rest on one quantity, the *shortfall* of a score: how much log-likelihood, per result, the counts lose
where their distribution, otherwise free, must have that score as its mean (M. Van den Bergh, "Comments on Normalized
Elo"; A. Owen, "Empirical Likelihood").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from keisei.errors import ConfigError

ELO_LIMIT = 1200.0
"""Elo differences are given up to here, a score of 99.9 %; a perfect score, which has none, is given as this one."""

Decision = Literal["H0", "H1"]
"""What a test accepts. H0: the difference is `elo0`, or less; H1: it is `elo1`, or more."""

_MOST_LOST = NormalDist().inv_cdf(0.975) ** 2 / 2
"""The log-likelihood that a score within the 95 % interval may lose: half of chi-square's 95 % point (Wilks), 1.92."""

_HALVINGS = 60

_Shares = list[tuple[float, float]]
"""The outcomes that occurred: (score from 0 to 1, share of all results)."""


@dataclass(frozen=True)
class Rating:
    """A score from 0 to 1, the Elo difference that it means, and where that lies with 95 % confidence.

    All are finite and in order: `-ELO_LIMIT ≤ elo_low ≤ elo ≤ elo_high ≤ ELO_LIMIT`.
    """

    score: float
    elo: float
    elo_low: float
    elo_high: float

    def __str__(self) -> str:
        return (
            f"score {self.score:.1%}, Elo {_spell(self.elo)} (95 %: {_spell(self.elo_low)} to {_spell(self.elo_high)})"
        )


def rate(counts: Sequence[int]) -> Rating:
    """The rating that three counts of games, or five of pairs, give.

    The interval holds every score that loses at most 1.92 of log-likelihood. With many games it is score ± 1.96
    standard errors, but it has a width at a perfect score as well: 100 of 100 pairs mean exp(-1.92 / 100) = 98.1 %
    or more.
    """
    shares, total = _shares(counts)
    score = sum(value * share for value, share in shares)

    def lies_within(other: float) -> bool:
        return total * _shortfall(shares, other) <= _MOST_LOST

    low, high = _last(lies_within, score, 0.0), _last(lies_within, score, 1.0)
    return Rating(score, elo_difference(score), elo_difference(low), elo_difference(high))


def elo_difference(score: float) -> float:
    """The Elo difference at which a score from 0 to 1 is expected, within ±`ELO_LIMIT`."""
    if score <= 0.0 or score >= 1.0:
        return math.copysign(ELO_LIMIT, score - 0.5)
    return min(max(400 * math.log10(score / (1 - score)), -ELO_LIMIT), ELO_LIMIT)


def expected_score(elo: float) -> float:
    """The score that an Elo difference lets expect, from 0 to 1."""
    return float(1 / (1 + 10 ** (-elo / 400)))


@dataclass(frozen=True)
class Sprt:
    """A sequential test of "the Elo difference is `elo1`" (H1) against "it is `elo0`" (H0), logistic Elo.

    With probability `alpha` at most it accepts H1 where H0 is true, with `beta` H0 where H1 is. It is the generalised
    test of fishtest and fastchess: the shares of draws, and the spread within pairs, are fitted to either hypothesis.
    """

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not -ELO_LIMIT <= self.elo0 < self.elo1 <= ELO_LIMIT:
            raise ConfigError(f"sprt: expected elo0 < elo1 within ±{ELO_LIMIT:.0f}, found {self.elo0} and {self.elo1}")
        if not (self.alpha > 0 and self.beta > 0 and self.alpha + self.beta < 1):
            raise ConfigError(
                f"sprt: expected alpha and beta above 0, together below 1, found {self.alpha} and {self.beta}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """The log-likelihood ratios at which H0 and H1 are accepted."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def log_likelihood_ratio(self, counts: Sequence[int]) -> float:
        """How much likelier the counts are under H1 than under H0."""
        shares, total = _shares(counts)
        first, second = (_shortfall(shares, expected_score(elo)) for elo in (self.elo0, self.elo1))
        return total * (first - second)

    def decide(self, counts: Sequence[int]) -> Decision | None:
        """What the counts let accept; None: play on."""
        ratio = self.log_likelihood_ratio(counts)
        low, high = self.bounds
        return "H0" if ratio <= low else "H1" if ratio >= high else None


def _shares(counts: Sequence[int]) -> tuple[_Shares, int]:
    """The shares of the outcomes that occurred, and how many results there are."""
    total = sum(counts)
    if len(counts) not in (3, 5) or min(counts) < 0 or total == 0:
        raise ConfigError(f"expected counts of 3 or 5 outcomes, one of them above 0, found {list(counts)}")
    best = len(counts) - 1
    return [(index / best, count / total) for index, count in enumerate(counts) if count], total


def _shortfall(shares: _Shares, score: float) -> float:
    """How much log-likelihood per result is lost where the mean must be `score`, strictly between 0 and 1.

    It is the largest sum of share · log(1 + x · (value - score)), concave in x, between the x at which an outcome of 1
    and one of 0 would make the logarithm infinite. Where neither occurred, the largest may lie at that end: then the
    likeliest distribution of that mean gives some probability to an outcome that was not seen.
    """
    distances = [(value - score, share) for value, share in shares]

    def rises(x: float) -> bool:
        return sum(share * distance / (1 + x * distance) for distance, share in distances) > 0

    x = _last(rises, -1 / (1 - score), 1 / score)
    return sum(share * math.log1p(x * distance) for distance, share in distances)


def _last(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last number, going from `inside` to `outside`, of which `holds`, once false, stays false."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _spell(elo: float) -> str:
    return f"{elo:+.0f}" if abs(elo) < ELO_LIMIT else f"{elo:+.0f} or {'more' if elo > 0 else 'less'}"
