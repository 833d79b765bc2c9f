"""What the updates of a rollout have to report, as means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Means over the updates of one rollout."""

    sums: dict[str, float] = field(default_factory=dict)
    updates: int = 0

    def add(self, numbers: Mapping[str, float]) -> None:
        """Count one update."""
        self.updates += 1
        for name, number in numbers.items():
            self.sums[name] = self.sums.get(name, 0.0) + number

    def means(self) -> dict[str, float]:
        """The mean of each number."""
        return {name: total / self.updates for name, total in self.sums.items()}
