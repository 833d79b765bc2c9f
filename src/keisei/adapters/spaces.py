"""What foreign environments show and allow, checked and as arrays: observations, masks, numbers and truth values.

Everything that comes in passes here or in `foreign.py`: what a foreign environment gets wrong never goes further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from keisei.adapters import missing
from keisei.environment import Array
from keisei.errors import ConfigError, ContractError

try:
    from gymnasium import spaces
except ImportError as error:
    raise missing(error) from error

Space = spaces.Space[Any]  # Gymnasium leaves open what is seen and done
MaskMethod = Callable[[], object]

MASK = "action_mask"
_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS, _TRUTHS, _ARRAYS = (int, float, np.integer, np.floating), (bool, np.bool_), (np.ndarray, np.generic)


class Form:
    """How what is seen becomes an array, and where it says what is legal."""

    def __init__(self, observation: Space, action: Space) -> None:
        if not isinstance(action, spaces.Discrete):
            raise ConfigError(f"action_space: expected Discrete, found {action}")
        self.actions, self.first_action = int(action.n), int(action.start)
        self._in_view = isinstance(observation, spaces.Dict) and MASK in observation.spaces
        self._in_info = False
        self._space, self._key = _value_space(observation)
        kept = self._space if isinstance(self._space, spaces.Box) else _flat_space(self._space)
        self._as_it_is = kept is self._space
        self.shape, self.dtype = kept.shape, kept.dtype

    def values(self, seen: object) -> Array:
        """One observation, checked: an array of `shape` and `dtype`."""
        if self._key is not None:
            seen = entry("observation", seen, self._key)
        elif self._in_view:
            seen = {key: entry("observation", seen, key) for key in cast(spaces.Dict, self._space)}
        if not self._as_it_is:
            if not self._space.contains(seen):
                raise ContractError(f"observation: expected one of {self._space}, found {seen!r}")
            return np.asarray(spaces.flatten(self._space, seen), self.dtype)
        if not isinstance(seen, np.ndarray):
            seen = np.asarray(seen) if isinstance(seen, np.generic) else seen
        if not isinstance(seen, np.ndarray) or seen.shape != self.shape or seen.dtype != self.dtype:
            raise ContractError(f"observation: expected {self.dtype} {list(self.shape)}, found {_described(seen)}")
        return seen

    def mask(self, seen: object, method: MaskMethod | None, info: object) -> Array | None:
        """What is allowed: `[A]`, where single bytes are still to be looked at: that they are 0 or 1; None: everything.

        It is in the observation's dictionary, or a method tells, or it is in `info`, and then always.
        """
        if self._in_view:
            mask = entry("observation", seen, MASK)
        elif method is not None:
            mask = method()
        elif self._in_info or (isinstance(info, Mapping) and MASK in info):
            self._in_info = True
            mask = entry("info", info, MASK)
        else:
            return None
        if not isinstance(mask, np.ndarray) or mask.shape != (self.actions,) or mask.dtype.kind not in "biuf":
            raise ContractError(f"{MASK}: expected numbers [{self.actions}], found {_described(mask)}")
        if mask.itemsize > 1 and not ((mask == 0) | (mask == 1)).all():
            raise ContractError(f"{MASK}: expected 0 and 1, found {mask.tolist()}")
        return mask


def common_form(pairs: Iterable[tuple[str, Space, Space]]) -> Form:
    """The form of things that must all have the same spaces, each with its name, what it sees and what it may do."""
    (first, observation, action), *others = pairs
    for name, *theirs in others:
        if theirs != [observation, action]:
            raise ConfigError(f"spaces: {name} has others than {first}")
    return Form(observation, action)


def _value_space(space: Space) -> tuple[Space, str | None]:
    """The space of what is seen, less the mask, and its key where it is alone in a dictionary."""
    if not isinstance(space, spaces.Dict):
        return space, None
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    if len(rest) != 1:
        return spaces.Dict(rest), None
    ((key, part),) = rest.items()
    return part, key


def _flat_space(space: Space) -> spaces.Box:
    flat = spaces.flatten_space(space) if space.is_np_flattenable else None
    if not isinstance(flat, spaces.Box):
        raise ConfigError(f"observation_space: expected one that flattens to an array, found {space}")
    return flat


def entry(field: str, holder: object, key: object) -> object:
    """One entry of what must be a dictionary that has it."""
    if not isinstance(holder, Mapping) or key not in holder:
        raise ContractError(f"{field}[{key!r}]: missing")
    return holder[key]


def not_a_tuple(what: str, found: object, names: str) -> ContractError:
    """What to raise where a call gave something else than a tuple of what is named."""
    size = f" of {len(found)}" if isinstance(found, tuple) else ""
    return ContractError(f"{what}: expected a tuple of {names}, found {type(found).__name__}{size}")


def number(field: str, value: object) -> float:
    """A finite number that float32 can hold."""
    if not isinstance(value, _NUMBERS) or not -_LARGEST <= value <= _LARGEST:
        raise ContractError(f"{field}: expected a finite number, found {value!r}")
    return float(value)


def truth(field: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, _TRUTHS):
        raise ContractError(f"{field}: expected True or False, found {value!r}")
    return bool(value)


def _described(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, _ARRAYS) else type(value).__name__
