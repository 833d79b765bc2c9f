"""The agents of a society: what is written about some seats, and what of it comes from the top level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from keisei.config import NetworkConfig
from keisei.config_learner import LearnerConfig, PPOConfig
from keisei.errors import ConfigError
from keisei.sections import Section, check


class AgentsConfig(Section):
    """Some agents of a world; what is left out comes from the top level."""

    seats: str = Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")
    """Which seats, such as `0-3` or `0,2,5`."""
    network: dict[str, object] = Field(default_factory=dict)
    """Keys of the section `network` that are different for them."""
    learner: dict[str, object] = Field(default_factory=dict)
    """Keys of the section `learner` that are different for them; another `kind` begins with that kind's defaults."""


class _Learner(Section):
    """A learner's section alone."""

    learner: LearnerConfig = PPOConfig()


class _Network(Section):
    """A network's section alone."""

    network: NetworkConfig = NetworkConfig()


@dataclass(frozen=True)
class Agent:
    """What one agent is made of."""

    network: NetworkConfig
    learner: LearnerConfig


def agents(
    count: int, listed: Sequence[AgentsConfig], network: NetworkConfig, learner: LearnerConfig
) -> tuple[Agent, ...]:
    """What each of so many agents is made of; seats that are not listed are as the top level says."""
    found: list[Agent | None] = [None] * count
    for number, section in enumerate(listed):
        agent = _resolved(number, section, network, learner)
        for seat in seats(section.seats):
            if seat >= count:
                raise ConfigError(f"'agents.{number}.seats' names seat {seat}, but there are {count} agents")
            if found[seat] is not None:
                raise ConfigError(f"'agents.{number}.seats' names seat {seat}, which is listed before")
            found[seat] = agent
    return tuple(agent or Agent(network, learner) for agent in found)


def seats(text: str) -> Iterator[int]:
    """The numbers in a list such as `0-3,7`; raises ConfigError where a range goes backwards."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ConfigError(f"expected seats such as 0-3, got '{part}'")
        yield from range(int(first), int(last or first) + 1)


def _resolved(number: int, section: AgentsConfig, network: NetworkConfig, learner: LearnerConfig) -> Agent:
    where = f"in agents.{number}"
    same_kind = section.learner.get("kind", learner.kind) == learner.kind
    own = {**(learner.model_dump() if same_kind else {}), **section.learner}
    return Agent(
        network=check(_Network, {"network": _over(network, section.network)}, where).network,
        learner=check(_Learner, {"learner": own}, where).learner,
    )


def _over(top: Section, own: Mapping[str, object]) -> dict[str, object]:
    return {**top.model_dump(), **own}
