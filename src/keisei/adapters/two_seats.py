"""What the adapters that hand out ask of an environment: a game of two seats, each game one lane."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from keisei.adapters import missing
from keisei.environment import Array, Environment, Group, Int8, Legal, Step, legal_mask
from keisei.errors import ConfigError

try:
    from gymnasium import spaces
except ImportError as error:
    raise missing(error) from error


def only_group(environment: Environment) -> Group:
    """The one group of a game of two seats; others are refused."""
    if len(environment.seats) != 2 or environment.lanes != environment.copies or len(environment.groups) != 1:
        raise ConfigError(
            "expected an environment of two seats and one lane per copy, "
            f"found {len(environment.seats)} seats, {environment.lanes} lanes, {environment.copies} copies"
        )
    return environment.groups[0]


def observation_space(group: Group) -> spaces.Box:
    """The space of one view: whatever the dtype can hold."""
    numbers: np.dtype[np.float32] = cast(Any, group.dtype)  # Box takes any dtype, its types know a few
    if group.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, group.shape, numbers)
    limits = np.iinfo(group.dtype.name)
    return spaces.Box(limits.min, limits.max, group.shape, numbers)


def action_mask(group: Group, legal: Legal) -> Int8:
    """The legal actions as Gymnasium and PettingZoo want them [G, A]; the memory is the caller's."""
    mask = legal_mask(group, legal)
    return (mask.copy() if group.legal == "mask" else mask).view(np.int8)


def next_seat(mover: int, step: Step, lane: int) -> int:
    """Who would decide next in a lane whose game has ended, and sees `step.final`; after a result, the other seat."""
    return mover if step.discount[lane] == 1 else 1 - mover


def last_view(step: Step, lane: int) -> Array:
    """The last position of a lane whose game has ended, as `next_seat` sees it."""
    view: Array = step.final[0][lane]
    return view.copy()
