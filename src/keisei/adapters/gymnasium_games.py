"""Any Gymnasium environment with discrete actions brought in: each copy is a lane of one seat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from keisei.adapters import missing
from keisei.adapters.foreign import ForeignCopies, built
from keisei.adapters.named import called, named, one_line
from keisei.adapters.spaces import MaskMethod, common_form, not_a_tuple, number, truth
from keisei.environment import LONGEST_GAME, Step
from keisei.errors import ConfigError

try:
    import gymnasium
except ImportError as error:
    raise missing(error) from error

ForeignEnvironment = gymnasium.Env[Any, Any]  # Gymnasium leaves open what is seen and done


def gymnasium_builder(id: str, options: Mapping[str, object]) -> Callable[[], ForeignEnvironment]:
    """What builds an environment of Gymnasium's registry, or of a `module:name`; it can be sent to another process."""
    return partial(_make, id, dict(options))


def _make(id: str, options: Mapping[str, object]) -> ForeignEnvironment:
    unchecked = partial(gymnasium.make, id, disable_env_checker=True)  # what comes out is checked by the adapter
    try:
        inside = named(id) if ":" in id else None
        made = called(inside if callable(inside) else unchecked, id, options)
    except (gymnasium.error.Error, ImportError) as error:
        reason = one_line(error)
        raise ConfigError(f"'environment.id' must name an environment of Gymnasium, not '{id}': {reason}") from error
    if not isinstance(made, gymnasium.Env):
        raise ConfigError(f"'environment.id' must name an environment of Gymnasium, and '{id}' gives {made!r}")
    return made


class GymnasiumEnvironment(ForeignCopies):
    """Each copy is a lane of one seat, with generators of its own that belong to (seed, lane). States cannot be saved.

    What is legal is read from `action_mask` in the observation's dictionary, from `action_masks()`, or from
    `info["action_mask"]`; without any of them every action is. `terminated` is the end of the game, `truncated` alone
    cuts it off. Raises `ContractError`, naming the field, where a copy hands out what it must not.
    """

    def __init__(
        self, build: Callable[[], ForeignEnvironment], *, copies: int = 1, seed: int = 0, first_lane: int = 0
    ) -> None:
        """Lane `i` is lane `first_lane + i` of the run, and behaves alike wherever and beside whatever it is played."""
        self._copies = built(build, copies)
        self._methods = [_mask_method(copy) for copy in self._copies]
        form = common_form(
            (f"copy {i}", copy.observation_space, copy.action_space) for i, copy in enumerate(self._copies)
        )
        spec = self._copies[0].spec
        self.longest_game = (spec and spec.max_episode_steps) or LONGEST_GAME
        self._steppers = [copy.step for copy in self._copies]
        super().__init__(self._copies, form, ("agent",), lanes=1, seed=seed, first_lane=first_lane)

    def _begin(self, copy: int, seed: int | None) -> None:
        result: object = self._copies[copy].reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise not_a_tuple("reset()", result, "observation and info")
        seen, info = result
        self._steps[copy], self._seat[copy] = 0, 0
        self._keep(copy, self._form.values(seen), self._form.mask(seen, self._methods[copy], info))

    def _play(self, copy: int, actions: list[int], step: Step) -> None:
        form = self._form
        result: object = self._steppers[copy](actions[copy] + form.first_action)
        if not isinstance(result, tuple) or len(result) != 5:
            raise not_a_tuple("step()", result, "observation, reward, terminated, truncated and info")
        seen, reward, terminated, truncated, info = result
        step.reward[copy] = number("reward", reward)
        if terminated is not False or truncated is not False:
            over, cut_off = truth("terminated", terminated), truth("truncated", truncated)
            if over or cut_off:
                self._end(step, copy, over=over, sign=1, length=self._steps[copy], last=form.values(seen))
                self._begin(copy, None)
                return
        self._keep(copy, form.values(seen), form.mask(seen, self._methods[copy], info))


def _mask_method(environment: ForeignEnvironment) -> MaskMethod | None:
    if not environment.has_wrapper_attr("action_masks"):
        return None
    method: MaskMethod = environment.get_wrapper_attr("action_masks")
    return method
