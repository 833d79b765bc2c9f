"""Shogi: a friendly `Board`, and many games at once behind the `Environment` contract."""

from keisei.shogi.board import Board, Outcome
from keisei.shogi.environment import ShogiEnvironment

__all__ = ["Board", "Outcome", "ShogiEnvironment"]
