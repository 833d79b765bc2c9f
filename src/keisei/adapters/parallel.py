"""One world as PettingZoo has it where all decide at once (Parallel): every agent its own view, reward and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from keisei.adapters import missing
from keisei.adapters.two_seats import action_mask, observation_space
from keisei.environment import NO_SEAT, PASS, Array, Bool, Environment, Int8, UInt8, new_observation, new_step
from keisei.errors import ActionError, ConfigError

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise missing(error) from error


class Onlooker(Protocol):
    """What is to be known of a world beyond what its agents see: `over` says to look at the last episode's end."""

    def finished(self, *, over: bool) -> Bool:
        """Which agents have come to their own end `[agents]`."""

    def picture(self, *, over: bool) -> UInt8:
        """The world as `[height, width, 3]`."""

    def text(self, *, over: bool) -> str:
        """The world in lines."""


Views = dict[str, Any]  # arrays, or with masks dictionaries of two: PettingZoo leaves it open
Numbers = dict[str, float]
Truths = dict[str, bool]


class PettingZooParallelEnvironment(ParallelEnv):  # type: ignore[misc]
    """A world whose agents decide at once; each turn takes an action of every agent that lives.

    What an agent sees is an array, or with `masked` `{"observation", "action_mask"}`. An agent that misses turns may do
    whatever there is, and it counts for nothing; its info says so (`decides`). A world that is over waits for `reset`.
    """

    def __init__(
        self,
        build_environment: Callable[[int], Environment],
        *,
        name: str,
        look_at: Callable[[Environment], Onlooker],
        masked: bool,
        render_mode: str | None = None,
        seed: int = 0,
    ) -> None:
        """`build_environment` takes a seed and gives an environment of one copy, with a lane for each seat."""
        if render_mode not in (None, "human", "ansi", "rgb_array"):
            raise ConfigError(f"render_mode: expected human, ansi, rgb_array or None, found {render_mode!r}")
        modes = ["human", "ansi", "rgb_array"]
        self.metadata = {"name": name, "render_modes": modes, "is_parallelizable": True, "render_fps": 6}
        self.render_mode = render_mode
        self._build, self._look_at, self._masked = build_environment, look_at, masked
        self._seeds = np.random.default_rng(seed)
        self._open(build_environment(seed))
        seats = self._environment.seats
        if self._environment.copies != 1 or self._environment.lanes != len(seats):
            raise ConfigError(f"expected one copy with a lane for each seat, found {self._environment.lanes} lanes")
        self.possible_agents = [seat.replace(" ", "_") for seat in seats]
        self._places = {  # where each agent's lane lies: in which group, and in which of its rows
            self.possible_agents[lane]: (number, row)
            for number, group in enumerate(self._environment.groups)
            for row, lane in enumerate(group.lanes.tolist())
        }
        groups = self._environment.groups
        self.action_spaces = {agent: spaces.Discrete(groups[i].actions) for agent, (i, _) in self._places.items()}
        self.observation_spaces = {agent: self._space(i) for agent, (i, _) in self._places.items()}
        self.agents: list[str] = []

    def _open(self, environment: Environment) -> None:
        self._environment, self._onlooker = environment, self._look_at(environment)
        self._seen, self._step = new_observation(environment), new_step(environment)
        environment.reset(self._seen)
        self._over = False

    def _space(self, number: int) -> spaces.Space[Any]:
        group = self._environment.groups[number]
        values = observation_space(group)
        if not self._masked:
            return values
        return spaces.Dict({"observation": values, "action_mask": spaces.Box(0, 1, (group.actions,), np.int8)})

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent may see."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent may do, allowed now or not."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Views, dict[str, Views]]:
        """Start the world of a seed; without one, a world that nobody has lived in. There are no options."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        self._environment.close()
        self._open(self._build(int(self._seeds.integers(2**63)) if seed is None else seed))
        self.agents = list(self.possible_agents)
        self._show()
        return self._views(self.agents, over=False), self._infos(self.agents)

    def step(self, actions: Mapping[str, int]) -> tuple[Views, Numbers, Truths, Truths, dict[str, Views]]:
        """Let everybody act who lives; gives views, rewards, terminations, truncations and infos of all of them."""
        if not self.agents:
            raise ActionError("the episode is over: expected reset()")
        step = self._step
        self._environment.step(self._chosen(actions), step, self._seen)
        living, self._over = self.agents, bool(step.ended[0])
        finished = self._onlooker.finished(over=self._over)
        lanes = {agent: self.possible_agents.index(agent) for agent in living}
        terminated = {
            agent: bool(finished[lane]) or (self._over and not step.cut_off[lane]) for agent, lane in lanes.items()
        }
        truncated = {agent: self._over and not terminated[agent] for agent in living}
        rewards = {agent: float(step.reward[lane]) for agent, lane in lanes.items()}
        views, infos = self._views(living, over=self._over), self._infos(living)
        for agent, lane in lanes.items():
            if self._over:
                infos[agent]["reason"] = self._environment.reasons[step.reason[lane]]
        self.agents = [agent for agent in living if not (terminated[agent] or truncated[agent])]
        self._show()
        return views, rewards, terminated, truncated, infos

    def _chosen(self, actions: Mapping[str, int]) -> list[Array]:
        """The actions of all lanes by group; of those that do not decide, any."""
        chosen: list[Array] = [np.full(len(group.lanes), PASS, np.int64) for group in self._environment.groups]
        for agent in self.agents:
            number, row = self._places[agent]
            if self._seen[number].seat[row] == NO_SEAT:
                continue
            action, most = actions.get(agent), self._environment.groups[number].actions
            if action is None or not 0 <= action < most:
                raise ActionError(f"action {action} of {agent} is not in 0..{most - 1}")
            chosen[number][row] = action
        return chosen

    def _views(self, agents: list[str], *, over: bool) -> Views:
        return {agent: self._view(agent, over=over) for agent in agents}

    def _view(self, agent: str, *, over: bool) -> Array | dict[str, Array]:
        number, row = self._places[agent]
        values = (self._step.final if over else [seen.values for seen in self._seen])[number][row].copy()
        return {"observation": values, "action_mask": self._mask(agent)} if self._masked else values

    def _infos(self, agents: list[str]) -> dict[str, Views]:
        return {agent: {"action_mask": self._mask(agent), "decides": self._decides(agent)} for agent in agents}

    def _decides(self, agent: str) -> bool:
        number, row = self._places[agent]
        return not self._over and bool(self._seen[number].seat[row] != NO_SEAT)

    def _mask(self, agent: str) -> Int8:
        """What an agent may do now; when all is over, nothing."""
        number, row = self._places[agent]
        group = self._environment.groups[number]
        if not self._decides(agent):
            return np.full(group.actions, not self._over, np.int8)
        mask: Int8 = action_mask(group, self._seen[number].legal)[row]
        return mask

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def render(self) -> UInt8 | str | None:
        """The world: as a picture (`rgb_array`), as text (`ansi`), or printed (`human`)."""
        if self.render_mode is None:
            raise ConfigError("render_mode: expected human, ansi or rgb_array to render, found None")
        if self.render_mode == "rgb_array":
            return self._onlooker.picture(over=self._over)
        text = self._onlooker.text(over=self._over)
        if self.render_mode == "ansi":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Close the environment that was built."""
        self._environment.close()
