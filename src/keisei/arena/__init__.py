"""Opponents meet: matches over any two-seat environment, and what their results say about strength."""

from keisei.arena.match import evaluate
from keisei.arena.rating import ELO_LIMIT, Decision, Rating, Sprt, elo_difference, expected_score, rate
from keisei.arena.result import GameResult, MatchResult, Winner

__all__ = [
    "ELO_LIMIT",
    "Decision",
    "GameResult",
    "MatchResult",
    "Rating",
    "Sprt",
    "Winner",
    "elo_difference",
    "evaluate",
    "expected_score",
    "rate",
]
