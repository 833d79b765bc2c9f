"""The agents of a society: what is written about some seats, and what of it comes from the top level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from keisei.config_learner import LearnerConfig, PPOConfig
from keisei.config_network import NetworkConfig
from keisei.config_worlds import Seats, ViewConfig
from keisei.errors import ConfigError
from keisei.sections import Section, check


class AgentsConfig(Section):
    """Some agents of a world; what is left out comes from the top level."""

    seats: Seats
    """Which seats, such as `0-3` or `0,2,5`; where agents are listed, every seat is, and once."""
    window: ViewConfig = ViewConfig()
    """What they see: keys of the section `environment.views`, such as `radius`."""
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
    window: ViewConfig = field(default_factory=ViewConfig)  # what it sees otherwise than the environment's section says
    device: str = "cpu"  # where its network is computed


def agents(
    count: int, listed: Sequence[AgentsConfig], network: NetworkConfig, learner: LearnerConfig
) -> tuple[Agent, ...]:
    """What each of so many agents is made of; where none is listed, all are as the top level says."""
    if not listed:
        return (Agent(network, learner),) * count
    found: list[Agent | None] = [None] * count
    for number, section in enumerate(listed):
        agent = _resolved(number, section, network, learner)
        for seat in seats(section.seats):
            if seat >= count:
                raise ConfigError(f"'agents.{number}.seats' names seat {seat}, but there are {count} agents")
            if found[seat] is not None:
                raise ConfigError(f"'agents.{number}.seats' names seat {seat}, which is listed before")
            found[seat] = agent
    missing = [str(seat) for seat, agent in enumerate(found) if agent is None]
    if missing:
        raise ConfigError(f"'agents' leaves out {_seats(missing)}, but there are {count} agents")
    return tuple(agent for agent in found if agent is not None)


def _seats(numbers: Sequence[str]) -> str:
    return f"seat {numbers[0]}" if len(numbers) == 1 else f"seats {', '.join(numbers)}"


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
        window=section.window,
    )


def _over(top: Section, own: Mapping[str, object]) -> dict[str, object]:
    return {**top.model_dump(), **own}
