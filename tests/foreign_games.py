"""Environments as other people write them: small, complete, fit for worker processes, and to be broken on purpose."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv

from keisei.environment import Array

Info = dict[str, Any]
Result = tuple[object, Info]
Outcome = tuple[object, object, object, object, Info]


class Walk(gymnasium.Env[Any, Any]):
    """A walk on seven squares: off the left end is the end, ten steps cut it off. It starts somewhere at random.

    `mask` says where it tells what is legal (no step to the right from the last square); `broken` what it gets wrong.
    """

    action_space: spaces.Space[Any]
    observation_space: spaces.Space[Any]

    def __init__(self, mask: str = "", broken: str = "") -> None:
        self.mask, self.broken = mask, broken
        self.action_space = spaces.Discrete(2, start=5)
        self.observation_space = spaces.Box(0, 1, (7,), np.float32)
        if mask == "dictionary":
            view = {"action_mask": spaces.MultiBinary(2), "board": self.observation_space}
            self.observation_space = spaces.Dict(view)
        if mask == "method":
            self.action_masks = self.allowed
        self.closed = 0

    def allowed(self) -> Array:
        if self.broken == "mask shape":
            return np.ones(3, np.int8)
        if self.broken == "mask type":
            return [True, True]  # type: ignore[return-value]
        if self.broken == "mask numbers":
            return np.array([0.5, 1])
        if self.broken == "mask bytes":
            return np.array([-1, 1], np.int8)
        if self.broken == "mask empty":
            return np.zeros(2, np.int8)
        return np.array([1, self.square < 6], np.int8)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> Result:
        super().reset(seed=seed)
        self.square, self.steps = int(self.np_random.integers(1, 7)), 0
        if self.broken == "reset":
            return self.view()  # type: ignore[return-value]
        return self.view(), self.info()

    def step(self, action: int) -> Outcome:  # type: ignore[override]
        self.square, self.steps = self.square + (1 if action == 6 else -1), self.steps + 1
        if self.mask == "":
            self.square = min(self.square, 6)
        if self.broken == "raises":
            raise ZeroDivisionError("inside")
        reward = {"reward": np.nan, "reward size": 1e39, "reward type": np.ones(1)}.get(self.broken, -0.5)
        terminated = 1 if self.broken == "terminated" else self.square < 0
        truncated = None if self.broken == "truncated" else self.steps == 10
        if self.broken == "step":
            return self.view(), reward, terminated, self.info()  # type: ignore[return-value]
        return self.view(), reward, terminated, truncated, self.info()

    def view(self) -> object:
        seen = np.zeros(7, np.float32)
        seen[self.square] = self.square >= 0
        if (self.broken == "last" and self.square < 0) or self.broken == "numbers":
            seen[3] = np.inf
        if self.broken == "shape":
            seen = seen[:6]
        if self.broken == "dtype":
            return seen.astype(np.float64)
        if self.broken == "type":
            return seen.tolist()
        return {"board": seen, "action_mask": self.allowed()} if self.mask == "dictionary" else seen

    def info(self) -> Info:
        late = self.broken == "mask lost" and getattr(self, "steps", 0) > 2
        return {"action_mask": self.allowed()} if self.mask == "info" and not late else {}

    def close(self) -> None:
        self.closed += 1


class _Taking(AECEnv):  # type: ignore[misc]
    """What the games have in common in which one after the other takes."""

    def __init__(self, name: str, agents: list[str], shape: int, broken: str = "") -> None:
        self.metadata = {"name": name, "render_modes": []}
        self.render_mode, self.broken, self.closed = None, broken, 0
        self.possible_agents = agents
        self.box = spaces.Box(-9, 99, (shape,), np.float32)
        self.np_random, _ = seeding.np_random(0)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.box

    def action_space(self, agent: str) -> spaces.Space[Any]:
        others = self.broken == "spaces" and agent == self.possible_agents[-1]
        return spaces.Discrete(4 if others else 3, start=1)

    def reset(self, seed: int | None = None, options: Info | None = None) -> None:
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Info] = {agent: {} for agent in self.agents}
        self.agent_selection, self.steps = self.agents[0], 0

    def close(self) -> None:
        self.closed += 1


class Pile(_Taking):
    """Two seats take 1 to 3 stones of a pile, and one gains what the other loses. Whoever takes the last gets 1.

    Each stone pays a tenth, but for an even number left, for which the mover pays the other half a point. With a
    multiple of five left the same seat takes again. Nine plies cut it off. `mask` says where it tells what is legal.
    """

    def __init__(self, mask: str = "dictionary", deads_first: bool = False, broken: str = "") -> None:
        super().__init__("pile_v0", ["left", "right"], 2, broken)
        self.mask, self.deads_first = mask, deads_first
        if mask == "method":
            self.action_masks = self.allowed

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        view = {"observation": self.box, "action_mask": spaces.MultiBinary(3)}
        return spaces.Dict(view) if self.mask == "dictionary" else self.box

    def allowed(self) -> Array:
        return (np.arange(1, 4) <= self.stones).astype(np.int8)

    def reset(self, seed: int | None = None, options: Info | None = None) -> None:
        super().reset(seed)
        self.stones = int(self.np_random.integers(6, 30))
        self._tell()

    def _tell(self) -> None:
        if self.mask == "info":
            self.infos[self.agent_selection] = {"action_mask": self.allowed()}

    def observe(self, agent: str) -> object:
        seen = np.array([self.stones, agent == self.agent_selection], np.float32)
        return {"observation": seen, "action_mask": self.allowed()} if self.mask == "dictionary" else seen

    def step(self, action: int | None) -> None:
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        assert action is not None
        other = next(agent for agent in self.agents if agent != mover)
        self._cumulative_rewards[mover] = 0.0
        self.stones, self.steps = self.stones - action, self.steps + 1
        gain = action / 10 - (0.5 if self.stones % 2 == 0 else 0) + (self.stones == 0)
        self.rewards = {mover: gain, other: -gain}
        if self.broken == "sum":
            self.rewards[other] = 1.0
        if self.broken == "number":
            self.rewards[mover] = np.nan
        if self.broken == "key":
            del self.rewards[other]
        self.terminations = dict.fromkeys(self.agents, self.stones == 0)
        if self.broken == "alone" and self.stones == 0:
            self.terminations[mover] = False
        self.truncations = dict.fromkeys(self.agents, self.steps == 9)
        self.agent_selection = mover if self.stones % 5 == 0 else other
        self._tell()
        self._accumulate_rewards()
        if self.deads_first and self.stones * (9 - self.steps) == 0:
            self._deads_step_first()


class Market(_Taking):
    """Three traders take in turns. Each step pays all who live by chance, and may ruin any of them, on turn or off it.

    The last one left goes on alone; twelve steps cut it off for those who are left.
    """

    def __init__(self, deads_first: bool = True, broken: str = "") -> None:
        super().__init__("market_v0", ["ann", "bob", "cid"], 4, broken)
        self.deads_first = deads_first

    def reset(self, seed: int | None = None, options: Info | None = None) -> None:
        super().reset(seed)
        self.goods = self.np_random.random(3).astype(np.float32)

    def observe(self, agent: str) -> object:
        return np.append(self.goods, np.float32(self.possible_agents.index(agent)))

    def step(self, action: int | None) -> None:
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action) if self.deads_first else self._bury(mover)
            return
        assert action is not None
        self.steps += 1
        self._cumulative_rewards[mover] = 0.0
        self.goods = self.np_random.random(3).astype(np.float32)
        for agent in self.agents:
            dead = self.terminations[agent]
            self.rewards[agent] = 0.0 if dead else float(self.np_random.integers(-2, 3)) + (agent == mover) * action
            self.terminations[agent] = dead or bool(self.np_random.random() < 0.15)
            if self.broken == "paid when dead" and dead:
                self.rewards[agent] = 1.0
        self._accumulate_rewards()
        self.truncations = {agent: self.steps == 12 and not over for agent, over in self.terminations.items()}
        self.agent_selection = self._after(mover)
        if self.broken == "selection":
            self.agent_selection = "dan"
        if self.deads_first:
            self._deads_step_first()

    def _after(self, agent: str) -> str:
        """Who comes next; where the dead do not step first, each steps on its own turn."""
        place = self.agents.index(agent)
        around = self.agents[place + 1 :] + self.agents[: place + 1]
        living = [one for one in around if not (self.terminations[one] or self.truncations[one])]
        return living[0] if living and self.deads_first else around[0]

    def _bury(self, agent: str) -> None:
        self.agent_selection = self._after(agent)
        self.agents.remove(agent)
        for kept in (self.rewards, self._cumulative_rewards, self.terminations, self.truncations, self.infos):
            del kept[agent]


class Meadow(ParallelEnv):  # type: ignore[misc]
    """Three sheep eat at once, and a lamb comes later. Each is paid by chance, and may leave at any step.

    Ten steps cut it off. `mask` says where it tells what is legal (one action less in odd steps).
    """

    def __init__(self, mask: str = "", broken: str = "") -> None:
        self.metadata = {"name": "meadow_v0", "render_modes": []}
        self.render_mode, self.mask, self.broken, self.closed = None, mask, broken, 0
        self.possible_agents = [] if broken == "possible agents" else ["a", "b", "c", "lamb"]
        self.np_random, _ = seeding.np_random(0)
        if mask == "method":
            self.action_masks = lambda: {agent: self.allowed() for agent in self.agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        box = spaces.Box(0, 99, (3,), np.float32)
        return spaces.Dict({"grass": box, "action_mask": spaces.MultiBinary(3)}) if self.mask == "dictionary" else box

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(3)

    def allowed(self) -> Array:
        return np.array([1, 1, self.steps % 2 == 0], np.int8)

    def see(self, agents: list[str]) -> dict[str, object]:
        names = [*self.possible_agents, "wolf"]
        grass = {agent: np.array([self.steps, self.grass, names.index(agent)], np.float32) for agent in agents}
        if self.broken == "view":
            grass.pop("b", None)
        if self.mask == "dictionary":
            return {agent: {"grass": seen, "action_mask": self.allowed()} for agent, seen in grass.items()}
        return dict(grass)

    def tell(self, agents: list[str]) -> dict[str, Info]:
        return {agent: {"action_mask": self.allowed()} if self.mask == "info" else {} for agent in agents}

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[dict[str, object], dict[str, Info]]:
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        self.agents, self.steps, self.grass = ["a", "b", "c"], 0, float(self.np_random.random())
        return self.see(self.agents), self.tell(self.agents)

    def step(self, actions: dict[str, int]) -> tuple[Info, Info, Info, Info, Info]:
        assert sorted(actions) == sorted(self.agents)
        self.steps, self.grass = self.steps + 1, float(self.np_random.random())
        there = list(self.agents)
        rewards = {agent: float(self.np_random.integers(-3, 4)) + actions[agent] for agent in there}
        leaves = {agent: bool(self.np_random.random() < 0.15) for agent in there}
        stops = dict.fromkeys(there, self.steps == 10)
        self.agents = [agent for agent in there if not leaves[agent] and not stops[agent]]
        if self.broken == "stays":
            self.agents = [agent for agent in there if not stops[agent]]
        if self.broken == "gone":
            self.agents = self.agents[1:]
        if self.broken == "stranger":
            self.agents.append("wolf")
        if self.steps == 3 and self.agents:
            self.agents.append("lamb")
        seen = self.see(list(dict.fromkeys(there + self.agents)))
        return seen, rewards, leaves, stops, self.tell(self.agents)

    def close(self) -> None:
        self.closed += 1
