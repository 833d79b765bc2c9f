"""How far a run is: the counters that are part of every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from keisei.checkpoint import JSON
from keisei.errors import CheckpointError


@dataclass
class Progress:
    """How far the run is, and what happened to it on the way."""

    iteration: int = 0
    steps: int = 0
    games: int = 0
    seconds: float = 0.0
    version: int = 0  # of the published weights
    evaluated_at: int = 0  # the iteration of the last matches
    skipped_updates: int = 0  # because a loss or gradient was not finite
    failed_updates: int = 0  # because of an exception
    resumed: int = 0
    refused_checkpoints: int = 0

    def complete(self, total_steps: int, final_games: int) -> bool:
        """Whether there is nothing left to do."""
        return self.steps >= total_steps and (not final_games or self.evaluated_at == self.iteration)

    def facts(self) -> dict[str, JSON]:
        """As a checkpoint keeps it."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, JSON]) -> Progress:
        """As a checkpoint kept it."""
        names = {field.name for field in fields(cls)}
        if facts.keys() != names or not all(type(value) in (int, float) for value in facts.values()):
            raise CheckpointError(f"expected the progress of a run, found {dict(facts)!r:.200}")
        return cls(**facts)  # type: ignore[arg-type]


def part(facts: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    """A part of a checkpoint's facts. Raises CheckpointError where there is none."""
    found = facts.get(name)
    if not isinstance(found, Mapping):
        raise CheckpointError(f"the checkpoint's facts have no part '{name}'")
    return found
