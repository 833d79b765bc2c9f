"""Games by their name in the clothes of Gymnasium and PettingZoo, as the README builds them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from pettingzoo.test import api_test

from keisei import build
from keisei.adapters import GymnasiumVectorEnvironment, PettingZooAECEnvironment
from keisei.environment import Array, Group, Observation, legal_mask
from keisei.errors import ConfigError
from keisei.opponents import Opponent
from small_shogi import MOST_MOVES


def first_legal(group: Group, observation: Observation) -> Array:
    """The legal action with the lowest number, in every lane."""
    chosen: Array = legal_mask(group, observation.legal).argmax(axis=1)
    return chosen


def last_legal(mask: Array) -> Array:
    """The legal action with the highest number, in every lane."""
    chosen: Array = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    return chosen


def views(opponent: str | Opponent, *, seed: int = 7, steps: int = 25) -> list[bytes]:
    """What an agent sees that plays the last legal move in four games, step by step."""
    games = build.gymnasium("shogi", copies=4, opponent=opponent, seed=seed)
    assert isinstance(games, VectorEnv)
    seen, info = games.reset()
    told = [seen.tobytes()]
    for _ in range(steps):
        actions = last_legal(info["action_mask"])
        assert all(games.single_action_space.contains(action) for action in actions)
        seen, _, _, _, info = games.step(actions)
        assert games.observation_space.contains(seen)
        assert info["action_mask"].any(axis=1).all()
        told.append(seen.tobytes())
    games.close()
    return told


@pytest.mark.parametrize("opponent", ["random", "greedy", first_legal])
def test_shogi_by_name_is_the_same_vector_environment_each_time(opponent: str | Opponent) -> None:
    told = views(opponent)
    assert len(set(told)) == len(told), "somebody moves in every step"
    assert views(opponent) == told


def test_whoever_is_named_answers() -> None:
    answers = [views("random"), views("random", seed=8), views("greedy"), views(first_legal)]
    assert len({tuple(told) for told in answers}) == 4


def test_a_callable_answers_for_the_other_seat() -> None:
    asked: list[list[int]] = []

    def asking(group: Group, observation: Observation) -> Array:
        asked.append(observation.seat.tolist())
        return first_legal(group, observation)

    assert views(asking) == views(first_legal)
    assert {seat for seats in asked for seat in seats} >= {0, 1}, "it has either seat: they alternate by lane"


@pytest.mark.parametrize("opponent", ["strong", "past", "", None])
def test_unknown_opponent_is_refused_in_a_line(opponent: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build.gymnasium("shogi", copies=4, opponent=opponent, seed=7)
    assert str(caught.value) == f"opponent: expected 'random', 'greedy' or a callable, found {opponent!r}"


def test_pettingzoo_finds_nothing_wrong_with_shogi_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():  # PettingZoo knows a fixed list of games that may have dictionaries and masks
        warnings.filterwarnings("ignore", "Observation is not a NumPy array")
        warnings.filterwarnings("ignore", "Observation space for each agent probably should be")
        warnings.filterwarnings("ignore", "Action mask numpy array is all zeros")
        warnings.filterwarnings("ignore", "Observation numpy array is all zeros")
        api_test(build.pettingzoo("shogi"), num_cycles=20)
    assert "Passed API test" in capsys.readouterr().out


# --- the position with the most moves


def test_mask_of_a_vector_environment_has_all_593_moves() -> None:
    games = build.gymnasium("shogi", copies=2, agent_seat="black", openings=(MOST_MOVES,))
    assert isinstance(games, GymnasiumVectorEnvironment)
    _, info = games.reset(seed=1)
    assert np.count_nonzero(info["action_mask"], axis=1).tolist() == [593, 593]
    games.close()


def test_mask_of_a_game_of_pettingzoo_has_all_593_moves() -> None:
    game = build.pettingzoo("shogi", openings=(MOST_MOVES,))
    assert isinstance(game, PettingZooAECEnvironment)
    game.reset(seed=1)
    assert [np.count_nonzero(game.observe(agent)["action_mask"]) for agent in ("black_0", "white_1")] == [593, 0]
