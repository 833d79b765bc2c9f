"""What comes out of a match: a `GameResult` for each game, and the `MatchResult` that counts them. Plays nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Literal

from keisei.arena.rating import Rating, Sprt, elo_difference, rate

Winner = Literal["challenger", "against"]


@dataclass(frozen=True)
class GameResult:
    """How one game ended. Its number says more: games `2p` and `2p + 1` are pair `p`, with one opening."""

    number: int
    seat: int  # the challenger's
    winner: Winner | None  # None: drawn, or cut off by a limit
    reason: str  # one of the environment's
    length: int  # plies, those of the opening included
    opening: int  # plies of its opening

    @property
    def pair(self) -> int:
        """The pair that it belongs to; the opening is the pair's."""
        return self.number // 2

    @property
    def points(self) -> float:
        """What the challenger got: 0, ½ or 1."""
        return 0.5 if self.winner is None else float(self.winner == "challenger")


@dataclass(frozen=True)
class MatchResult:
    """The games of a match in the order of their numbers, and what they say about the challenger."""

    played: tuple[GameResult, ...]  # one at least
    sprt: Sprt | None = None  # the test that watched over it

    @property
    def games(self) -> int:
        """How many games count."""
        return len(self.played)

    @property
    def wins(self) -> int:
        """The games that the challenger won."""
        return self._counts[2]

    @property
    def draws(self) -> int:
        """The games that nobody won; a limit cuts a game off to a draw."""
        return self._counts[1]

    @property
    def losses(self) -> int:
        """The games that the challenger lost."""
        return self._counts[0]

    @cached_property
    def pairs(self) -> tuple[int, ...]:
        """In how many pairs the challenger got 0, ½, 1, 1½ and 2 points [5]; an odd last game is in none."""
        points = [
            first.points + second.points for first, second in zip(self.played[::2], self.played[1::2], strict=False)
        ]
        return tuple(points.count(half / 2) for half in range(5))

    @cached_property
    def rating(self) -> Rating:
        """Score and Elo difference of all games, with the interval of the pairs; of a single game, its own."""
        if self.games == 1:
            return rate(self._counts)
        score = (self.wins + self.draws / 2) / self.games
        return replace(rate(self.pairs), score=score, elo=elo_difference(score))

    @property
    def reasons(self) -> dict[str, int]:
        """How many games ended in which way, the most frequent first."""
        return dict(Counter(game.reason for game in self.played).most_common())

    @property
    def mean_length(self) -> float:
        """Plies per game, openings included."""
        return sum(game.length for game in self.played) / self.games

    def as_dict(self) -> dict[str, object]:
        """The result for JSON: counts, score, Elo (finite, see `Rating`), how games ended, and what the test says."""
        result: dict[str, object] = {"games": self.games, "wins": self.wins, "draws": self.draws, "losses": self.losses}
        result |= asdict(self.rating)
        result |= {"pairs": list(self.pairs), "reasons": self.reasons, "mean_length": self.mean_length}
        if self.sprt is not None:
            test = asdict(self.sprt)
            test["log_likelihood_ratio"] = self.sprt.log_likelihood_ratio(self.pairs)
            result["sprt"] = test | {"decision": self.sprt.decide(self.pairs)}
        return result

    def __str__(self) -> str:
        return f"{self.games} games: {self.wins} won, {self.draws} drawn, {self.losses} lost; {self.rating}"

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """Games lost, drawn and won."""
        wins = sum(game.winner == "challenger" for game in self.played)
        draws = sum(game.winner is None for game in self.played)
        return self.games - wins - draws, draws, wins
