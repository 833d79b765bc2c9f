"""Copies of any Gymnasium environment with discrete actions, behind the `Environment` contract.

Everything that comes in is checked here: what a foreign environment gets wrong never goes further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np

from keisei.adapters import missing
from keisei.environment import PASS, Array, Group, Int64, Observation, Step, UInt8
from keisei.errors import ActionError, ConfigError, ContractError, StateError

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise missing(error) from error

ForeignEnvironment = gymnasium.Env[Any, Any]  # Gymnasium leaves open what is seen and done

_MASK = "action_mask"
_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS, _TRUTHS, _ARRAYS = (int, float, np.integer, np.floating), (bool, np.bool_), (np.ndarray, np.generic)


def gymnasium_builder(id: str, options: Mapping[str, object]) -> Callable[[], ForeignEnvironment]:
    """What builds an environment of Gymnasium's registry; it can be sent to another process."""
    return partial(_make, id, {"disable_env_checker": True, **options})  # what comes out is checked here


def _make(id: str, options: dict[str, Any]) -> ForeignEnvironment:
    try:
        return gymnasium.make(id, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise ConfigError(f"'environment.id' must name an environment of Gymnasium, not '{id}': {error}") from error


class GymnasiumEnvironment:
    """Each copy is a lane of one seat, with generators of its own that belong to (seed, lane). States cannot be saved.

    What is legal is read from `action_mask` in the observation's dictionary, from `action_masks()`, or from
    `info["action_mask"]`; without any of them every action is. `terminated` is the end of the game, `truncated` alone
    cuts it off. Raises `ContractError`, naming the field, where a copy hands out what it must not.
    """

    seats = ("agent",)
    reasons = ("going on", "terminated", "truncated")
    state_bytes = 0

    def __init__(
        self, build: Callable[[], ForeignEnvironment], *, copies: int = 1, seed: int = 0, first_lane: int = 0
    ) -> None:
        """Lane `i` is lane `first_lane + i` of the run, and behaves alike wherever and beside whatever it is played."""
        if copies < 1:
            raise ConfigError(f"copies: expected 1 or more, found {copies}")
        self._environments = [build() for _ in range(copies)]
        self._form = _Form(self._environments)
        self._seeds = [_seed(seed, first_lane + lane) for lane in range(copies)]
        self.copies = self.lanes = copies
        lanes = np.arange(copies, dtype=np.int32)
        actions = self._form.actions
        self.groups = (Group(lanes, self._form.shape, self._form.dtype, actions, "mask", actions),)
        self._values: Array = np.zeros((copies, *self._form.shape), self._form.dtype)
        self._mask: UInt8 = np.ones((copies, actions), np.uint8)
        self._length: Int64 = np.zeros(copies, np.int64)
        self._current = 0  # the copy at work
        self._restart()

    def _restart(self) -> None:
        with self._saying_where():
            for lane, seed in enumerate(self._seeds):
                self._current = lane
                self._begin(lane, *self._environments[lane].reset(seed=seed))
        self._check()

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every copy anew from its seed, and write what is seen."""
        self._restart()
        self.observe(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what the copies show now."""
        (seen,) = observation
        seen.values[:] = self._values
        seen.legal.actions[:] = self._mask
        seen.seat[:] = 0

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per copy (`PASS`: none), one copy after the other."""
        chosen = self._checked_actions(actions)
        step.reward[:], step.discount[:] = 0, 1
        step.ended[:], step.cut_off[:], step.reason[:], step.length[:] = False, False, 0, 0
        with self._saying_where():
            for lane in np.flatnonzero(chosen != PASS).tolist():
                self._current = lane
                self._play(lane, int(chosen[lane]), step)
        self._check()
        self.observe(observation)

    def _checked_actions(self, actions: Sequence[Array]) -> Int64:
        if len(actions) != 1 or actions[0].shape != (self.lanes,) or actions[0].dtype.kind not in "iu":
            found = ", ".join(f"{array.dtype} {list(array.shape)}" for array in actions)
            raise ActionError(f"expected actions as one integer array [{self.lanes}], found {found or 'none'}")
        chosen = actions[0].astype(np.int64)
        known = (chosen >= 0) & (chosen < self._form.actions)
        legal = known & (self._mask[np.arange(self.lanes), np.where(known, chosen, 0)] != 0)
        wrong = np.flatnonzero(~legal & (chosen != PASS))
        if len(wrong):
            lane = int(wrong[0])
            why = "is illegal" if known[lane] else f"is not in 0..{self._form.actions - 1}"
            raise ActionError(
                f"action {chosen[lane]} of lane {lane} {why}, in step {self._length[lane]} of its episode"
            )
        return chosen

    def _play(self, lane: int, action: int, step: Step) -> None:
        environment = self._environments[lane]
        self._length[lane] += 1
        seen, reward, terminated, truncated, info = environment.step(action + self._form.first_action)
        step.reward[lane] = _number("reward", reward)
        over, cut_off = _truth("terminated", terminated), _truth("truncated", truncated) and not terminated
        if not over and not cut_off:
            self._keep(lane, seen, info)
            return
        step.ended[lane], step.cut_off[lane] = True, cut_off
        step.discount[lane] = 0 if over else 1
        step.reason[lane] = 1 if over else 2
        step.length[lane] = self._length[lane]
        last = self._form.values(seen)
        if not np.isfinite(last).all():
            raise ContractError("observation: the last one of an episode is not finite")
        step.final[0][lane] = last
        self._begin(lane, *environment.reset())

    def _begin(self, lane: int, seen: object, info: Mapping[str, object]) -> None:
        self._length[lane] = 0
        self._keep(lane, seen, info)

    def _keep(self, lane: int, seen: object, info: Mapping[str, object]) -> None:
        self._values[lane] = self._form.values(seen)
        self._mask[lane] = self._form.mask(lane, seen, info)

    @contextmanager
    def _saying_where(self) -> Iterator[None]:
        """Let what goes wrong in a copy say in which."""
        try:
            yield
        except Exception as error:
            lane = self._current
            where = f"in copy {lane} ({self._environments[lane]}), step {self._length[lane]} of its episode"
            if isinstance(error, ContractError):
                raise ContractError(f"{error}, {where}") from None
            error.add_note(where)
            raise

    def _check(self) -> None:
        """Look at all copies at once: it costs less."""
        finite = np.isfinite(self._values).reshape(self.lanes, -1).all(axis=1)
        if not finite.all():
            raise ContractError(f"observation: not finite, in copy {finite.argmin()}")
        playable = self._mask.any(axis=1)
        if not playable.all():
            raise ContractError(f"{_MASK}: no action is legal, in copy {playable.argmin()}")

    def save_state(self, out: UInt8) -> None:
        """Not possible: always raises `StateError`."""
        raise StateError("a Gymnasium environment cannot save its state")

    def load_state(self, saved: UInt8) -> None:
        """Not possible: always raises `StateError`."""
        raise StateError("a Gymnasium environment cannot load a state")

    def close(self) -> None:
        """Close every copy, once."""
        while self._environments:
            self._environments.pop().close()


class _Form:
    """How what the copies show becomes arrays, and where it says what is legal."""

    def __init__(self, environments: Sequence[ForeignEnvironment]) -> None:
        first = environments[0]
        for number, other in enumerate(environments):
            if other.observation_space != first.observation_space or other.action_space != first.action_space:
                raise ConfigError(f"spaces: copy {number} has others than copy 0")
        if not isinstance(first.action_space, spaces.Discrete):
            raise ConfigError(f"action_space: expected Discrete, found {first.action_space}")
        self.actions, self.first_action = int(first.action_space.n), int(first.action_space.start)
        self._in_view = isinstance(first.observation_space, spaces.Dict) and _MASK in first.observation_space.spaces
        self._space, self._key = _value_space(first.observation_space)
        kept = self._space if isinstance(self._space, spaces.Box) else _flat_space(self._space)
        self.shape, self.dtype = kept.shape, kept.dtype
        self._methods = [_mask_method(environment) for environment in environments]
        self._in_info = False

    def values(self, seen: object) -> Array:
        """One observation, checked: an array of `shape` and `dtype`."""
        if self._key is not None:
            seen = _entry("observation", seen, self._key)
        elif self._in_view:
            seen = {key: _entry("observation", seen, key) for key in cast(spaces.Dict, self._space)}
        if not isinstance(self._space, spaces.Box):
            if not self._space.contains(seen):
                raise ContractError(f"observation: expected one of {self._space}, found {seen!r}")
            return np.asarray(spaces.flatten(self._space, seen), self.dtype)
        if not isinstance(seen, _ARRAYS) or seen.shape != self.shape or seen.dtype != self.dtype:
            raise ContractError(f"observation: expected {self.dtype} {list(self.shape)}, found {_described(seen)}")
        return np.asarray(seen)

    def mask(self, lane: int, seen: object, info: Mapping[str, object]) -> Array:
        """What a copy allows, checked `[A]`."""
        method = self._methods[lane]
        if self._in_view:
            mask = _entry("observation", seen, _MASK)
        elif method is not None:
            mask = method()
        elif _MASK in info or self._in_info:
            mask = _entry("info", info, _MASK)
            self._in_info = True
        else:
            return np.ones(self.actions, np.uint8)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.actions,) or mask.dtype.kind not in "biuf":
            raise ContractError(f"{_MASK}: expected numbers [{self.actions}], found {_described(mask)}")
        if mask.dtype != np.bool_ and not ((mask == 0) | (mask == 1)).all():
            raise ContractError(f"{_MASK}: expected 0 and 1, found {mask.tolist()}")
        return mask


def _value_space(space: spaces.Space[Any]) -> tuple[spaces.Space[Any], str | None]:
    """The space of what is seen, less the mask, and its key where it is alone in a dictionary."""
    if not isinstance(space, spaces.Dict):
        return space, None
    rest = {key: part for key, part in space.spaces.items() if key != _MASK}
    if len(rest) != 1:
        return spaces.Dict(rest), None
    ((key, part),) = rest.items()
    return part, key


def _flat_space(space: spaces.Space[Any]) -> spaces.Box:
    flat = spaces.flatten_space(space) if space.is_np_flattenable else None
    if not isinstance(flat, spaces.Box):
        raise ConfigError(f"observation_space: expected one that flattens to an array, found {space}")
    return flat


def _mask_method(environment: ForeignEnvironment) -> Callable[[], object] | None:
    if not environment.has_wrapper_attr("action_masks"):
        return None
    method: Callable[[], object] = environment.get_wrapper_attr("action_masks")
    return method


def _entry(field: str, holder: object, key: str) -> object:
    if not isinstance(holder, Mapping) or key not in holder:
        raise ContractError(f"{field}[{key!r}]: missing")
    return holder[key]


def _described(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, _ARRAYS) else type(value).__name__


def _number(field: str, value: object) -> float:
    if not isinstance(value, _NUMBERS) or not -_LARGEST <= value <= _LARGEST:
        raise ContractError(f"{field}: expected a finite number, found {value!r}")
    return float(value)


def _truth(field: str, value: object) -> bool:
    if not isinstance(value, _TRUTHS):
        raise ContractError(f"{field}: expected True or False, found {value!r}")
    return bool(value)


def _seed(seed: int, lane: int) -> int:
    """A copy's own seed, of 31 bits: some environments take no more."""
    return int(np.random.SeedSequence([seed, lane]).generate_state(1)[0]) >> 1
