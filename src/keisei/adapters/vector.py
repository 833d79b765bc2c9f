"""One seat of many two-seat games, as a Gymnasium vector environment; the other seat answers inside `step`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from keisei.adapters import missing
from keisei.adapters.two_seats import action_mask, last_view, next_seat, observation_space, only_group
from keisei.environment import NO_SEAT, PASS, Array, Bool, Environment, Float64, Int8, new_observation, new_step
from keisei.errors import ActionError, ConfigError, ContractError
from keisei.opponents import Opponent

try:
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise missing(error) from error

Info = dict[str, Any]  # Gymnasium's own type

_MOST_PASSED_OVER = 100


class GymnasiumVectorEnvironment(VectorEnv[Array, Array, npt.NDArray[Any]]):
    """One seat of a two-seat game, many times; rewards are the agent's, and it always has the move.

    `info["action_mask"]` `[L, A]` says what is legal, `info["agent_seat"]` `[L]` where the agent sits. An ended game
    starts again in the same step. `info["final_obs"]` is its last position as whoever would decide next sees it: where
    that seat, `final_info["view"]`, is not `final_info["agent_seat"]`, its value to the agent has the opposite sign.
    A game that ends before the agent's first move is passed over for the next one.
    """

    def __init__(
        self,
        build_environment: Callable[[int], Environment],
        build_opponent: Callable[[int], Opponent],
        *,
        agent_seat: str = "alternate",
        seed: int = 0,
    ) -> None:
        """Both builders take a seed. `agent_seat`: the name of a seat, `alternate` (by lane and game) or `random`."""
        super().reset(seed=seed)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._build_environment, self._build_opponent, self._agent_seat = build_environment, build_opponent, agent_seat
        self._start(seed)
        self.num_envs = self.environment.lanes
        self.single_observation_space = observation_space(self._group)
        self.single_action_space = spaces.Discrete(self._group.actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _start(self, seed: int) -> None:
        self.environment = self._build_environment(seed)
        self._group = only_group(self.environment)
        self._opponent = self._build_opponent(seed)
        self._seating = _Seating(self.environment.seats, self._agent_seat, seed, self.environment.lanes)
        self._seen, self._step = new_observation(self.environment)[0], new_step(self.environment)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """Start all games from a seed; without one, start games that have not been played yet."""
        if options and "reset_mask" in options:
            raise ConfigError("options['reset_mask']: lanes start again by themselves and cannot be reset one by one")
        super().reset(seed=seed)
        self.environment.close()
        self._start(int(self.np_random.integers(2**63)) if seed is None else seed)
        self.environment.reset([self._seen])
        outcome = _Outcome(self.num_envs)
        outcome.over[:] = True
        self._reply(outcome)
        return self._seen.values.copy(), self._info(outcome)

    def step(self, actions: Array) -> tuple[Array, Float64, Bool, Bool, Info]:
        """Play the agent's actions `[L]`, then the opponent's, until the agent decides again in every lane."""
        chosen = np.asarray(actions)
        wrong = np.flatnonzero(chosen.ravel() == PASS)
        if len(wrong):
            raise ActionError(f"action {PASS} of lane {wrong[0]} is not in 0..{self._group.actions - 1}")
        outcome = _Outcome(self.num_envs)
        self._ply(chosen, outcome)
        self._reply(outcome)
        info = self._info(outcome)
        return self._seen.values.copy(), outcome.reward, outcome.terminated, outcome.truncated, info

    def action_masks(self) -> Bool:
        """What the agent may play in each lane `[L, A]`."""
        return action_mask(self._group, self._seen.legal).view(np.bool_)

    def close_extras(self, **_: object) -> None:
        """Close the environment that was built."""
        self.environment.close()

    def _reply(self, outcome: _Outcome) -> None:
        """Let the opponent play wherever it is to move; the other lanes wait."""
        while (waits := self._seen.seat != self._seating.seat).any():
            asked = replace(self._seen, seat=np.where(waits, self._seen.seat, NO_SEAT).astype(np.int8))
            answers = np.where(waits, self._opponent(self._group, asked), PASS)
            silent = np.flatnonzero(waits & (answers == PASS))
            if len(silent):
                raise ActionError(f"the opponent has no answer in lane {silent[0]}, where it is to move")
            self._ply(answers, outcome)

    def _ply(self, actions: Array, outcome: _Outcome) -> None:
        """Play one action in each lane that does not pass, and book what comes of it from the agent's side."""
        movers, step = self._seen.seat.copy(), self._step
        self.environment.step([actions], step, [self._seen])
        seats = self._seating.seat
        outcome.reward += np.where(outcome.over, 0, np.where(movers == seats, step.reward, -step.reward))
        for lane in np.flatnonzero(step.ended).tolist():
            if outcome.over[lane]:
                outcome.pass_over(lane)
            else:
                info = {"agent_seat": int(seats[lane]), "view": next_seat(int(movers[lane]), step, lane)}
                info |= {"reason": self.environment.reasons[step.reason[lane]], "length": int(step.length[lane])}
                outcome.end(lane, bool(step.cut_off[lane]), last_view(step, lane), info)
            self._seating.begin_game(lane)

    def _info(self, outcome: _Outcome) -> Info:
        info: Info = {
            "action_mask": action_mask(self._group, self._seen.legal),
            "_action_mask": np.ones(self.num_envs, np.bool_),
            "agent_seat": self._seating.seat.copy(),
            "_agent_seat": np.ones(self.num_envs, np.bool_),
        }
        for lane, (position, final_info) in outcome.finals.items():
            info = self._add_info(info, {"final_obs": position, "final_info": final_info}, lane)
        return info


class _Outcome:
    """What one call of `step` has led to so far, from the agent's side."""

    def __init__(self, lanes: int) -> None:
        self.reward = np.zeros(lanes)
        self.terminated = np.zeros(lanes, np.bool_)
        self.truncated = np.zeros(lanes, np.bool_)
        self.over = np.zeros(
            lanes, np.bool_
        )  # the agent's game has ended; what is played now is the next one's opening
        self.finals: dict[int, tuple[Array, Info]] = {}
        self._passed_over = np.zeros(lanes, np.int64)

    def end(self, lane: int, cut_off: bool, position: Array, info: Info) -> None:
        self.over[lane] = True
        self.terminated[lane], self.truncated[lane] = not cut_off, cut_off
        self.finals[lane] = position, info

    def pass_over(self, lane: int) -> None:
        self._passed_over[lane] += 1
        if self._passed_over[lane] > _MOST_PASSED_OVER:
            raise ContractError(f"lane {lane}: {_MOST_PASSED_OVER} games in a row end before the agent's first move")


class _Seating:
    """Where the agent sits in each lane, game after game."""

    def __init__(self, seats: Sequence[str], wanted: str, seed: int, lanes: int) -> None:
        choices = (*seats, "alternate", "random")
        if wanted not in choices:
            raise ConfigError(f"agent_seat: expected one of {', '.join(choices)}, found {wanted!r}")
        self._seats, self._wanted, self._seed = seats, wanted, seed
        self._games = np.full(lanes, -1, np.int64)
        self.seat: Int8 = np.zeros(lanes, np.int8)
        for lane in range(lanes):
            self.begin_game(lane)

    def begin_game(self, lane: int) -> None:
        self._games[lane] += 1
        self.seat[lane] = self._seat(lane, int(self._games[lane]))

    def _seat(self, lane: int, game: int) -> int:
        if self._wanted == "alternate":
            return (lane + game) % 2
        if self._wanted == "random":
            stream = np.random.Philox(key=self._seed, counter=[game, lane, 0, 0])
            return int(np.random.Generator(stream).integers(2))
        return self._seats.index(self._wanted)
