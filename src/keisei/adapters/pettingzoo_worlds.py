"""One PettingZoo environment, whichever of its two interfaces it has: who lives, who decides, what all see and get.

Here the dictionaries of PettingZoo are checked and read; what becomes of them in lanes is in `pettingzoo_lanes.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from keisei.adapters import missing
from keisei.adapters.named import called, named, one_line
from keisei.adapters.spaces import Space, entry, not_a_tuple, number, truth
from keisei.errors import ConfigError, ContractError

try:
    import gymnasium
    import pettingzoo
    from pettingzoo import AECEnv, ParallelEnv
except ImportError as error:
    raise missing(error) from error

try:
    from pettingzoo.env_registry.exceptions import PettingZooRegistryError
except ImportError:  # before 1.27 there is no registry
    PettingZooRegistryError = ImportError

Agent = Hashable
Api = Literal["auto", "aec", "parallel"]

_MOST_AGENTS = 127  # the number of a seat is a signed byte
_KINDS: Mapping[Api, tuple[str, ...]] = {"auto": ("parallel", "aec"), "aec": ("aec",), "parallel": ("parallel",)}
_FACTORIES = {"parallel": "parallel_env", "aec": "env"}
_EXPECTED = "'environment.id' must name an environment of PettingZoo"


class World(ABC):
    """One environment. After `reset` and `act`, it is asked for what has come of it."""

    inside: Any  # PettingZoo has no types

    def __init__(self, inside: object) -> None:
        self.inside = inside
        self.agents: tuple[Agent, ...] = tuple(getattr(inside, "possible_agents", None) or ())
        if not self.agents:
            raise ConfigError(f"possible_agents: expected their names before the first reset, '{inside}' has none")
        if len(self.agents) > _MOST_AGENTS:
            raise ConfigError(f"possible_agents: expected at most {_MOST_AGENTS}, '{inside}' has {len(self.agents)}")
        self.living: tuple[Agent, ...] = ()
        self.deciding: tuple[Agent, ...] = ()  # of those who live
        self.died: dict[Agent, bool] = {}  # in this step: whether by an end, or else cut off
        self.rewards: dict[Agent, float] = {}  # of this step, for all who lived before it
        self.has_masks = callable(getattr(inside, "action_masks", None))

    @abstractmethod
    def reset(self, seed: int | None) -> None:
        """Begin an episode."""

    @abstractmethod
    def act(self, actions: Mapping[Agent, int]) -> None:
        """Let those who decide act."""

    @abstractmethod
    def seen(self, agent: Agent) -> object:
        """What an agent sees that lives, or has died in this step."""

    @abstractmethod
    def info(self, agent: Agent) -> object:
        """What else is said to an agent that lives, if anything."""

    @abstractmethod
    def mask(self, agent: Agent) -> object:
        """What `action_masks()` says that an agent may do who decides."""

    def spaces(self, agent: Agent) -> tuple[Space, Space]:
        """What an agent may see and do."""
        return self.inside.observation_space(agent), self.inside.action_space(agent)

    def close(self) -> None:
        """Close the environment."""
        self.inside.close()

    def __str__(self) -> str:
        return str(self.inside)

    def _settle(self, rewards: object, terminations: object, truncations: object) -> None:
        """Read what those got who lived before this step, and who of them died in it."""
        self.rewards, self.died = {}, {}
        for agent in self.living:
            self.rewards[agent] = number(f"rewards[{agent!r}]", entry("rewards", rewards, agent))
            over = truth(f"terminations[{agent!r}]", entry("terminations", terminations, agent))
            cut_off = truth(f"truncations[{agent!r}]", entry("truncations", truncations, agent))
            if over or cut_off:
                self.died[agent] = over

    def _survivors(self, agents: Sequence[Agent]) -> tuple[Agent, ...]:
        """Those who live after a step: who lived before it and has not died, and who is new."""
        for agent in agents:
            if agent not in self.agents:
                raise ContractError(f"agents: expected some of {list(self.agents)}, found {agent!r}")
        for agent in self.living:
            if agent not in agents and agent not in self.died:
                raise ContractError(f"agents: {agent!r} is gone, and was neither terminated nor truncated")
        return tuple(agents)


class TogetherWorld(World):
    """An environment of the Parallel interface: all who live decide at once."""

    def reset(self, seed: int | None) -> None:
        """Begin an episode."""
        result: object = self.inside.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise not_a_tuple("reset()", result, "observations and infos")
        self._seen, self._infos = result
        self.living, self.died = (), {}
        self._look(self.inside.agents)

    def act(self, actions: Mapping[Agent, int]) -> None:
        """Let everybody act."""
        result: object = self.inside.step(dict(actions))
        if not isinstance(result, tuple) or len(result) != 5:
            raise not_a_tuple("step()", result, "observations, rewards, terminations, truncations and infos")
        self._seen, rewards, terminations, truncations, self._infos = result
        self._settle(rewards, terminations, truncations)
        there = [] if len(self.died) == len(self.living) else self.inside.agents
        for agent in self.died:
            if agent in there:
                raise ContractError(f"agents: {agent!r} has died, and is still among them")
        self._look(there)

    def _look(self, agents: Sequence[Agent]) -> None:
        self.living = self.deciding = self._survivors(agents)
        self._masks: object = self.inside.action_masks() if self.has_masks and agents else {}

    def seen(self, agent: Agent) -> object:
        """What an agent sees."""
        return entry("observations", self._seen, agent)

    def info(self, agent: Agent) -> object:
        """What else is said to an agent, if anything."""
        return self._infos.get(agent) if isinstance(self._infos, Mapping) else None

    def mask(self, agent: Agent) -> object:
        """What an agent may do: `action_masks()` gives all masks, by agent."""
        return entry("action_masks()", self._masks, agent)


class TurnsWorld(World):
    """An environment of the AEC interface: one decides after the other."""

    def __init__(self, inside: object) -> None:
        super().__init__(inside)
        self.would_decide: Agent = None  # where somebody has died in this step: whose turn it would be
        self._last_seen: dict[Agent, object] = {}  # by those who died in this step
        self._dead: set[Agent] = set()  # who still stand in `agents`

    def reset(self, seed: int | None) -> None:
        """Begin an episode."""
        self.inside.reset(seed=seed)
        self.living, self.died, self._last_seen, self._dead = (), {}, {}, set()
        self._look()

    def act(self, actions: Mapping[Agent, int]) -> None:
        """Let the one who decides act, and then the dead, who have no choice."""
        inside = self.inside
        inside.step(actions[self.deciding[0]])
        self._settle(inside.rewards, inside.terminations, inside.truncations)
        for agent in self._dead:
            if inside.rewards.get(agent):
                raise ContractError(f"rewards[{agent!r}]: {inside.rewards[agent]!r} for one who has died before")
        self._last_seen = {agent: inside.observe(agent) for agent in self.died}
        if self.died:
            # The dead may have been put before whoever would decide.
            skipped = getattr(inside.unwrapped, "_skip_agent_selection", None)
            self.would_decide = inside.agent_selection if skipped is None else skipped
        self._dead |= self.died.keys()
        for _ in self.agents:
            if inside.agents and inside.agent_selection in self._dead:
                inside.step(None)
        self._look()

    def _look(self) -> None:
        there = list(self.inside.agents)
        self._dead &= set(there)
        self.living = self._survivors([agent for agent in there if agent not in self._dead])
        if self.living and self.inside.agent_selection not in self.living:
            raise ContractError(f"agent_selection: expected one who lives, found {self.inside.agent_selection!r}")
        self.deciding = (self.inside.agent_selection,) if self.living else ()

    def seen(self, agent: Agent) -> object:
        """What an agent sees."""
        return self._last_seen[agent] if agent in self._last_seen else self.inside.observe(agent)

    def info(self, agent: Agent) -> object:
        """What else is said to an agent, if anything."""
        found: object = self.inside.infos.get(agent)
        return found

    def mask(self, agent: Agent) -> object:
        """What an agent may do: `action_masks()` speaks of the one who decides."""
        masks: object = self.inside.action_masks()
        return masks


def pettingzoo_builder(id: str, api: Api, options: Mapping[str, object]) -> Callable[[], World]:
    """What builds `family/name` of PettingZoo's registry, that of a module, or a `module:name`; it can be sent away."""
    return partial(_make, id, api, dict(options))


def _make(id: str, api: Api, options: Mapping[str, object]) -> World:
    try:
        make = _registered(id, api) if "/" in id else _in_module(id, api)
        return _world(called(make, id, options), id, api)
    except (ImportError, gymnasium.error.Error, PettingZooRegistryError) as error:
        raise ConfigError(f"{_EXPECTED}, not '{id}': {one_line(error)}") from error


def _registered(id: str, api: Api) -> Callable[..., object]:
    """What makes an environment of the registry that newer versions of PettingZoo have."""
    if not hasattr(pettingzoo, "make"):
        raise ConfigError(f"{_EXPECTED}, not '{id}': this version of PettingZoo has no registry, so name a module")
    for kind in _KINDS[api][:-1]:
        with suppress(PettingZooRegistryError):
            pettingzoo.spec(kind, id)
            return partial(pettingzoo.make, kind, id)
    pettingzoo.spec(_KINDS[api][-1], id)
    return partial(pettingzoo.make, _KINDS[api][-1], id)


def _in_module(id: str, api: Api) -> Callable[..., object]:
    """The thing named in a module, or one of those that a module of PettingZoo has."""
    found, expected = named(id), "callable of that name"
    if ":" not in id:
        names = [_FACTORIES[kind] for kind in _KINDS[api]]
        found, expected = (
            next((getattr(found, name) for name in names if hasattr(found, name)), None),
            " or ".join(names),
        )
    if not callable(found):
        raise ConfigError(f"{_EXPECTED}: '{id}' has no {expected}")
    return found


def _world(inside: object, id: str, api: Api) -> World:
    if isinstance(inside, AECEnv) and api != "parallel":
        return TurnsWorld(inside)
    if isinstance(inside, ParallelEnv) and api != "aec":
        return TogetherWorld(inside)
    wanted = {"auto": "an AECEnv or ParallelEnv", "aec": "an AECEnv", "parallel": "a ParallelEnv"}[api]
    raise ConfigError(f"'environment.id' must name {wanted} of PettingZoo, and '{id}' gives {inside!r}")
