"""Matches while a run goes on: the learner's network against fixed opponents and the run's own past."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from keisei.arena.match import evaluate
from keisei.arena.player import NetworkOpponent, PastSelf, Play
from keisei.arena.result import MatchResult
from keisei.environment import Array, Environment, Group, Observation
from keisei.opponents import Opponent
from keisei.policy import Actor
from keisei.stopping import StopRequest

BuildOpponent = Callable[[int], Opponent | None]
"""From a seed to an opponent; None where there is none yet."""


@dataclass(frozen=True)
class MatchEvaluator:
    """Plays matches with a policy; nothing else of a run changes by it."""

    policy: Actor
    build_environment: Callable[[], Environment]  # whose games all begin in one position
    opponents: Mapping[str, BuildOpponent]
    play: Play
    opening_plies: int
    seed: int
    stop: StopRequest

    def evaluate(self, iteration: int, games: int) -> dict[str, float]:
        """Numbers to record, such as `evaluate/random/score`. Raises Stopped where the run is asked to stop.

        An earlier self of the run is told by its iteration.
        """
        numbers: dict[str, float] = {}
        for name, build in self.opponents.items():
            opponent = build(self.seed)
            if opponent is None or not games:
                continue
            rating = self.match(opponent, games).rating
            found = {"score": rating.score, "elo": rating.elo, "elo_low": rating.elo_low, "elo_high": rating.elo_high}
            if isinstance(opponent, PastSelf):
                found["iteration"] = opponent.iteration
            numbers |= {f"evaluate/{name}/{what}": value for what, value in found.items()}
        return numbers

    def match(self, opponent: Opponent, games: int) -> MatchResult:
        """One match."""
        environment = self.build_environment()
        try:
            return evaluate(
                environment,
                self._challenger(),
                opponent,
                games=games,
                seed=self.seed,
                opening_plies=self.opening_plies,
            )
        finally:
            environment.close()

    def _challenger(self) -> Opponent:
        network = NetworkOpponent(self.policy, self.seed + 1, self.play)

        def reply(group: Group, observation: Observation) -> Array:
            self.stop.check()
            return network(group, observation)

        return reply
