"""One two-seat game as PettingZoo has it: the agents take turns (AEC)."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from keisei.adapters import missing
from keisei.adapters.two_seats import action_mask, last_view, next_seat, observation_space, only_group
from keisei.environment import Array, Environment, Int8, new_observation, new_step
from keisei.errors import ActionError, ConfigError

try:
    from gymnasium import spaces
    from pettingzoo import AECEnv
except ImportError as error:
    raise missing(error) from error


class PettingZooAECEnvironment(AECEnv):  # type: ignore[misc]
    """A two-seat game; observations are `{"observation", "action_mask"}`, and agents see the board from their side.

    `other_view` turns what the side to move sees into what the other one does; `draw` makes text of what the side to
    move sees and the number of moves made. A game that is over stays at its last position until `reset`.
    """

    def __init__(
        self,
        build_environment: Callable[[int], Environment],
        *,
        name: str,
        other_view: Callable[[Array], Array],
        draw: Callable[[Array, int], str],
        render_mode: str | None = None,
        seed: int = 0,
    ) -> None:
        """`build_environment` takes a seed and gives an environment of one copy."""
        super().__init__()
        if render_mode not in (None, "human", "ansi"):
            raise ConfigError(f"render_mode: expected human, ansi or None, found {render_mode!r}")
        self.metadata = {"name": name, "render_modes": ["human", "ansi"], "is_parallelizable": False, "render_fps": 1}
        self.render_mode = render_mode
        self._build_environment, self._other_view, self._draw = build_environment, other_view, draw
        self._seeds = np.random.default_rng(seed)
        self._environment = build_environment(seed)
        self._group = only_group(self._environment)
        if self._environment.copies != 1:
            raise ConfigError(f"copies: expected 1, found {self._environment.copies}")
        self._seen, self._step = new_observation(self._environment)[0], new_step(self._environment)
        self.possible_agents = [f"{seat}_{number}" for number, seat in enumerate(self._environment.seats)]
        self.action_spaces = {agent: spaces.Discrete(self._group.actions) for agent in self.possible_agents}
        self.observation_spaces = {agent: self._space() for agent in self.possible_agents}
        self._begin()

    def _begin(self) -> None:
        """Put the first position of a game on the board."""
        self._environment.reset([self._seen])
        self._moves = 0
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._show(self._seen.values[0], int(self._seen.seat[0]), self._mask())

    def _space(self) -> spaces.Dict:
        mask = spaces.Box(0, 1, (self._group.actions,), np.int8)
        return spaces.Dict({"observation": observation_space(self._group), "action_mask": mask})

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent may see."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent may do, legal or not."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start the game of a seed; without one, a game that has not been played yet. There are no options."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        self._environment.close()
        self._environment = self._build_environment(int(self._seeds.integers(2**63)) if seed is None else seed)
        self._begin()
        if self.render_mode == "human":
            self.render()

    def step(self, action: int | None) -> None:
        """Play one action for the selected agent; `None` for one whose game is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, SupportsIndex) or not 0 <= index(action) < self._group.actions:
            raise ActionError(f"action {action} of {agent} is not in 0..{self._group.actions - 1}")
        mover, step = self._mover, self._step
        self._environment.step([np.array([action], np.int64)], step, [self._seen])
        self._moves += 1
        self._cumulative_rewards[agent] = 0.0
        reward = float(step.reward[0])
        self.rewards = {name: reward if name == agent else -reward for name in self.agents}
        self._accumulate_rewards()
        if step.ended[0]:
            self._end(bool(step.cut_off[0]), self._environment.reasons[step.reason[0]])
            self._show(last_view(step, 0), next_seat(mover, step, 0), np.zeros(self._group.actions, np.int8))
        else:
            self._show(self._seen.values[0], int(self._seen.seat[0]), self._mask())
        if self.render_mode == "human":
            self.render()

    def _end(self, cut_off: bool, reason: str) -> None:
        for agent in self.agents:
            self.terminations[agent], self.truncations[agent] = not cut_off, cut_off
            self.infos[agent] = {"reason": reason}

    def _mask(self) -> Int8:
        mask: Int8 = action_mask(self._group, self._seen.legal)[0]
        return mask

    def _show(self, view: Array, mover: int, mask: Int8) -> None:
        """Make this the position on the board."""
        self._view, self._mover, self._legal = view.copy(), mover, mask
        self.agent_selection = self.possible_agents[mover]

    def observe(self, agent: str) -> dict[str, Array]:
        """The position as an agent sees it, and what it may play: nothing, where it is not to move."""
        if self.possible_agents.index(agent) == self._mover:
            return {"observation": self._view.copy(), "action_mask": self._legal.copy()}
        return {"observation": self._other_view(self._view), "action_mask": np.zeros_like(self._legal)}

    def render(self) -> str | None:
        """The position as text: printed when the mode is `human`, given when it is `ansi`."""
        if self.render_mode is None:
            raise ConfigError("render_mode: expected human or ansi to render, found None")
        text = self._draw(self._view, self._moves)
        if self.render_mode == "ansi":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Close the environment that was built."""
        self._environment.close()
