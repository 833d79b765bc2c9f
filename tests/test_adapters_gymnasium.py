"""Gymnasium environments brought in keep the contract; what they get wrong is refused by the name of the field."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from foreign_games import Result, Walk
from keisei.adapters import GymnasiumEnvironment, gymnasium_builder
from keisei.environment import PASS, Array, Observation, Step, new_observation, new_step
from keisei.errors import ActionError, ConfigError, ContractError, StateError
from keisei.testing import check_environment


class Player:
    """Plays an environment at random, to have its arrays at hand."""

    def __init__(self, environment: GymnasiumEnvironment) -> None:
        self.environment = environment
        self.observation: tuple[Observation, ...] = new_observation(environment)
        self.outcome: Step = new_step(environment)
        environment.observe(self.observation)

    def step(self, *actions: int) -> None:
        self.environment.step([np.array(actions)], self.outcome, self.observation)

    @property
    def values(self) -> Array:
        return self.observation[0].values

    @property
    def mask(self) -> list[list[int]]:
        allowed: list[list[int]] = self.observation[0].legal.actions.tolist()
        return allowed


@pytest.mark.parametrize("mask", ["", "dictionary", "method", "info"])
def test_foreign_environment_keeps_the_contract(mask: str) -> None:
    check_environment(GymnasiumEnvironment(lambda: Walk(mask), copies=5, seed=3), steps=60)


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"])
def test_gymnasiums_own_environments_keep_the_contract(name: str) -> None:
    build = pickle.loads(pickle.dumps(gymnasium_builder(name, {"max_episode_steps": 30})))
    made = GymnasiumEnvironment(build, copies=3)
    assert made.longest_game == 30
    check_environment(made, steps=50)


@pytest.mark.parametrize("name", ["CartPole-v99", "NoSuchGame-v0", "no_such_module:Game-v0"])
def test_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'environment.id' must name an environment of Gymnasium, not '{name}'"):
        GymnasiumEnvironment(gymnasium_builder(name, {}))


def test_class_in_a_module_is_found_by_its_name() -> None:
    build = pickle.loads(pickle.dumps(gymnasium_builder("foreign_games:Walk", {"mask": "info"})))
    player = Player(GymnasiumEnvironment(build, copies=2))
    assert isinstance(player.environment._copies[1], Walk)
    assert player.environment._copies[1].mask == "info"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("foreign_games:Nothing", {}, "'environment.id' must name an environment of Gymnasium, not 'foreign_games:No"),
        ("foreign_games:Pile", {}, "'environment.id' must name an environment of Gymnasium, and 'foreign_games:Pile'"),
        ("foreign_games:Walk", {"masks": 1}, "'environment.options' do not fit 'foreign_games:Walk': .*'masks'"),
        ("CartPole-v1", {"poles": 2}, "'environment.options' do not fit 'CartPole-v1': .*'poles'"),
        (":Walk", {}, "'environment.id' must name an environment of Gymnasium, not ':Walk'"),
        ("", {}, "'environment.id' must name an environment of Gymnasium, not ''"),
    ],
)
def test_name_or_options_that_do_not_fit_are_refused_in_one_line(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        GymnasiumEnvironment(gymnasium_builder(name, options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mask", ["dictionary", "method", "info"])
def test_mask_is_read_wherever_it_is(mask: str) -> None:
    player = Player(GymnasiumEnvironment(lambda: gymnasium.Wrapper(Walk(mask)), copies=12, seed=1))
    at_the_end = player.values[:, 6] == 1
    assert 0 < at_the_end.sum() < 12
    assert player.mask == [[1, not end] for end in at_the_end]
    with pytest.raises(ActionError, match=f"action 1 of lane {at_the_end.argmax()} is illegal"):
        player.step(*[1] * 12)


def test_without_a_mask_everything_is_legal() -> None:
    assert Player(GymnasiumEnvironment(Walk, copies=4)).mask == [[1, 1]] * 4


def test_end_and_cut_off_are_told_apart() -> None:
    player = Player(GymnasiumEnvironment(Walk, copies=4, seed=2))
    start = player.values.argmax(axis=1)
    for number in range(1, 8):
        player.step(0, 0, 0, PASS)
        outcome = player.outcome
        ended = (start + 1 == number) & (np.arange(4) < 3)
        if ended.any():
            break
    assert (outcome.ended == ended).all()
    assert outcome.discount.tolist() == np.where(ended, 0, 1).tolist()
    assert outcome.reward.tolist() == [-0.5, -0.5, -0.5, 0]
    assert (outcome.length[ended] == number).all()
    assert (outcome.final[0][ended] == 0).all()
    assert [player.environment.reasons[reason] for reason in outcome.reason[ended]] == ["terminated"] * ended.sum()
    player = Player(GymnasiumEnvironment(Walk, copies=2, seed=2))
    for _ in range(10):
        player.step(1, 1)
    assert player.outcome.cut_off.tolist() == [True, True]
    assert player.outcome.discount.tolist() == [1, 1]
    assert player.outcome.final[0].argmax(axis=1).tolist() == [6, 6]
    assert player.outcome.reason.tolist() == [2, 2]


def test_lane_lives_the_same_whatever_the_number_of_copies() -> None:
    def views(copies: int, first_lane: int) -> Array:
        player = Player(GymnasiumEnvironment(Walk, copies=copies, seed=6, first_lane=first_lane))
        seen = []
        for _ in range(60):
            player.step(*[0] * copies)
            seen.append(player.values.copy())
        return np.stack(seen, axis=1)

    many = views(9, 0)
    assert (many[4:7] == views(3, 4)).all()
    assert len({lane.tobytes() for lane in many}) == 9


@pytest.mark.parametrize(
    ("mask", "broken", "message"),
    [
        ("", "shape", r"observation: expected float32 \[7\], found float32 \[6\]"),
        ("", "dtype", r"observation: expected float32 \[7\], found float64 \[7\]"),
        (
            "",
            "type",
            r"observation: expected float32 \[7\], found list, in copy 0 \(<Walk instance>\), step 0 of its episode",
        ),
        ("", "numbers", "observation: not finite, in copy 0"),
        ("", "last", "observation: the last one of an episode is not finite"),
        ("", "reward", "reward: expected a finite number, found nan"),
        ("", "reward size", "reward: expected a finite number, found 1e\\+39, in copy 0"),
        ("", "reward type", r"reward: expected a finite number, found array\(\[1.\]\)"),
        ("", "terminated", "terminated: expected True or False, found 1"),
        ("", "truncated", "truncated: expected True or False, found None"),
        ("method", "mask shape", r"action_mask: expected numbers \[2\], found int8 \[3\]"),
        ("info", "mask type", r"action_mask: expected numbers \[2\], found list"),
        ("dictionary", "mask numbers", r"action_mask: expected 0 and 1, found \[0.5, 1.0\]"),
        ("method", "mask empty", "action_mask: no action is legal, in copy 0"),
        ("dictionary", "mask bytes", r"action_mask: expected 0 and 1, found \[-1, 1\], in copy 0"),
        ("", "reset", r"reset\(\): expected a tuple of observation and info, found ndarray, in copy 0"),
        ("", "step", r"step\(\): expected a tuple of observation, .* and info, found tuple of 4, in copy 0"),
        ("info", "mask lost", r"info\['action_mask'\]: missing"),
    ],
)
def test_what_a_foreign_environment_gets_wrong_is_refused(mask: str, broken: str, message: str) -> None:
    def plays() -> None:
        player = Player(GymnasiumEnvironment(lambda: Walk(mask, broken), copies=2))
        for _ in range(8):
            player.step(0, 0)

    with pytest.raises(ContractError, match=message):
        plays()


def test_error_inside_says_where_it_happened() -> None:
    player = Player(GymnasiumEnvironment(lambda: Walk(broken="raises"), copies=3))
    with pytest.raises(ZeroDivisionError, match="inside") as caught:
        player.step(0, 0, 0)
    assert caught.value.__notes__ == ["in copy 0 (<Walk instance>), step 1 of its episode"]


def test_wrong_actions_are_refused() -> None:
    player = Player(GymnasiumEnvironment(Walk, copies=2))
    with pytest.raises(ActionError, match=r"action 2 of lane 1 is not in 0..1, in step 0 of its episode"):
        player.step(0, 2)
    with pytest.raises(ActionError, match=r"expected actions as one integer array \[2\], found int64 \[3\]"):
        player.step(0, 0, 0)


class Seen(gymnasium.Env[Any, Any]):
    """Shows one thing, whatever is done."""

    def __init__(self, space: spaces.Space[Any], seen: object, actions: spaces.Space[Any] | None = None) -> None:
        self.observation_space, self.seen = space, seen
        self.action_space = actions or spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Result:
        return self.seen, {}


DIGIT = spaces.Discrete(3)
PIXELS = spaces.Box(0, 255, (2, 2), np.uint8)


@pytest.mark.parametrize(
    ("space", "seen", "expected"),
    [
        (DIGIT, 2, [0, 0, 1]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (PIXELS, np.array([[1, 2], [3, 4]], np.uint8), [[1, 2], [3, 4]]),
        (spaces.Dict({"pixels": PIXELS}), {"pixels": np.array([[1, 2], [3, 4]], np.uint8)}, [[1, 2], [3, 4]]),
        (spaces.Dict({"a": DIGIT, "b": PIXELS}), {"a": 1, "b": np.full((2, 2), 9, np.uint8)}, [0, 1, 0, 9, 9, 9, 9]),
        (spaces.Tuple([DIGIT, DIGIT]), (0, 2), [1, 0, 0, 0, 0, 1]),
    ],
)
def test_every_flat_space_becomes_an_array(space: spaces.Space[Any], seen: object, expected: list[object]) -> None:
    player = Player(GymnasiumEnvironment(lambda: Seen(space, seen), copies=2))
    assert player.values.tolist() == [expected, expected]


def test_mask_is_taken_out_of_a_dictionary_of_several_things() -> None:
    space = spaces.Dict({"a": DIGIT, "action_mask": spaces.MultiBinary(2), "b": PIXELS})
    seen = {"a": 0, "action_mask": np.array([0, 1], np.int8), "b": np.full((2, 2), 7, np.uint8)}
    player = Player(GymnasiumEnvironment(lambda: Seen(space, seen)))
    assert player.values.tolist() == [[1, 0, 0, 7, 7, 7, 7]]
    assert player.mask == [[0, 1]]


def test_what_is_not_in_its_space_is_refused() -> None:
    with pytest.raises(ContractError, match=r"observation: expected one of Discrete\(3\), found 3"):
        GymnasiumEnvironment(lambda: Seen(DIGIT, 3))
    with pytest.raises(ContractError, match=r"observation\['pixels'\]: missing"):
        GymnasiumEnvironment(lambda: Seen(spaces.Dict({"pixels": PIXELS}), {"pixel": 0}))


def test_unfit_spaces_are_refused() -> None:
    with pytest.raises(ConfigError, match="action_space: expected Discrete, found Box"):
        GymnasiumEnvironment(lambda: Seen(DIGIT, 0, PIXELS))
    with pytest.raises(ConfigError, match="observation_space: expected one that flattens to an array, found Sequence"):
        GymnasiumEnvironment(lambda: Seen(spaces.Sequence(DIGIT), ()))
    other = iter([spaces.Discrete(3), spaces.Discrete(4)])
    with pytest.raises(ConfigError, match="spaces: copy 1 has others than copy 0"):
        GymnasiumEnvironment(lambda: Seen(next(other), 0), copies=2)
    with pytest.raises(ConfigError, match="copies: expected 1 or more, found 0"):
        GymnasiumEnvironment(Walk, copies=0)


def test_state_cannot_be_saved() -> None:
    environment = GymnasiumEnvironment(Walk)
    assert environment.state_bytes == 0
    with pytest.raises(StateError):
        environment.save_state(np.zeros((1, 0), np.uint8))
    with pytest.raises(StateError):
        environment.load_state(np.zeros((1, 0), np.uint8))


def test_every_copy_is_closed_once() -> None:
    walks = [Walk(), Walk()]
    environment = GymnasiumEnvironment(iter(walks).__next__, copies=2)
    environment.close()
    environment.close()
    assert [walk.closed for walk in walks] == [1, 1]
