"""A two-seat game as PettingZoo has it: its own tests pass, and the last position stays to be looked at."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from pettingzoo.test import api_test, render_test, seed_test

import keisei
from keisei.adapters import PettingZooAECEnvironment
from keisei.environment import Array
from keisei.errors import ActionError, ConfigError
from keisei.shogi import Board, ShogiEnvironment
from keisei.shogi.views import other_view, sfen
from tictactoe import TicTacToe


def turned(view: Array) -> Array:
    """What the other side sees of tic-tac-toe."""
    return view[::-1].copy()


def text(view: Array, moves: int) -> str:
    own, other = "xo" if moves % 2 == 0 else "ox"
    return "".join(own if mine else other if theirs else "." for mine, theirs in view.reshape(2, 9).T)


def tictactoe(render_mode: str | None = None, move_limit: int = 9) -> PettingZooAECEnvironment:
    return PettingZooAECEnvironment(
        lambda seed: TicTacToe(1, seed, move_limit=move_limit),
        name="tictactoe_v0",
        other_view=turned,
        draw=text,
        render_mode=render_mode,
    )


def shogi(render_mode: str | None = None) -> PettingZooAECEnvironment:
    return PettingZooAECEnvironment(
        lambda seed: keisei.make("shogi", seed=seed, random_plies=4, move_limit=60),
        name="shogi_v0",
        other_view=other_view,
        draw=lambda view, moves: str(Board(sfen(view, moves + 1))),
        render_mode=render_mode,
    )


@pytest.mark.parametrize("build", [tictactoe, shogi])
@pytest.mark.parametrize("mode", [None, "human", "ansi"])
def test_pettingzoo_finds_nothing_wrong(
    build: Callable[..., PettingZooAECEnvironment], mode: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():  # PettingZoo knows a fixed list of games that may have dictionaries and masks
        warnings.filterwarnings("ignore", "Observation is not a NumPy array")
        warnings.filterwarnings("ignore", "Observation space for each agent probably should be")
        warnings.filterwarnings("ignore", "Action mask numpy array is all zeros")
        warnings.filterwarnings("ignore", "Observation numpy array is all zeros")
        api_test(build(render_mode=mode), num_cycles=200)
    seed_test(build, num_cycles=200)
    render_test(build)
    assert "Passed API test" in capsys.readouterr().out


def play(environment: PettingZooAECEnvironment, actions: list[int]) -> None:
    environment.reset(seed=0)
    for action in actions:
        environment.step(action)


def test_agents_take_turns_and_the_winner_gains_what_the_loser_loses() -> None:
    environment = tictactoe()
    play(environment, [0, 3, 1, 4])
    assert environment.agent_selection == "cross_0"
    assert environment.rewards == {"cross_0": 0, "nought_1": 0}
    environment.step(2)
    assert environment.rewards == {"cross_0": 1, "nought_1": -1}
    assert environment.terminations == {"cross_0": True, "nought_1": True}
    assert environment.truncations == {"cross_0": False, "nought_1": False}
    assert environment.infos["nought_1"] == {"reason": "three"}
    rewards = {}
    for agent in environment.agent_iter():
        rewards[agent] = environment.last()[1]
        environment.step(None)
    assert rewards == {"cross_0": 1, "nought_1": -1}
    assert environment.agents == []


def test_move_limit_truncates() -> None:
    environment = tictactoe(move_limit=3)
    play(environment, [0, 1, 2])
    assert environment.truncations == {"cross_0": True, "nought_1": True}
    assert not any(environment.terminations.values())
    assert environment.infos["cross_0"] == {"reason": "move limit"}


def test_both_agents_see_the_board_from_their_own_side() -> None:
    environment = tictactoe()
    play(environment, [0, 3, 1])
    to_move, waiting = environment.observe("nought_1"), environment.observe("cross_0")
    assert to_move["observation"].reshape(2, 9).tolist() == [[0, 0, 0, 1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0, 0]]
    assert (waiting["observation"] == to_move["observation"][::-1]).all()
    assert to_move["action_mask"].tolist() == [0, 0, 1, 0, 1, 1, 1, 1, 1]
    assert not waiting["action_mask"].any()
    to_move["observation"][:] = 7
    assert environment.observe("nought_1")["observation"].max() == 1


def test_last_position_stays_until_the_next_reset() -> None:
    environment = tictactoe("ansi")
    play(environment, [0, 3, 1, 4, 2])
    assert environment.render() == "xxxoo...."
    assert environment.observe("cross_0")["observation"].sum() == 5
    assert not environment.observe("nought_1")["action_mask"].any()
    environment.reset()
    assert environment.render() == "........."


def test_shogi_is_drawn_from_what_the_side_to_move_sees() -> None:
    environment = shogi("ansi")
    environment.reset(seed=3)
    game = keisei.make("shogi", seed=3, random_plies=4, move_limit=60)
    assert isinstance(game, ShogiEnvironment)
    board = str(Board(game.sfen(0))).splitlines()
    drawn = str(environment.render()).splitlines()
    assert len(board) == len(drawn)
    assert [line for line in drawn if "move" not in line] == [line for line in board if "move" not in line]


def test_wrong_actions_are_refused_and_change_nothing() -> None:
    environment = tictactoe("ansi")
    play(environment, [0])
    for wrong in (0, 9, -1, None, 1.0, "1", [1]):
        with pytest.raises(ActionError):
            environment.step(wrong)  # type: ignore[arg-type]  # that is the point
    assert environment.render() == "x........"
    environment.step(1)
    assert environment.render() == "xo......."


def test_seeds_begin_the_same_game_and_none_begins_another() -> None:
    environment = shogi()
    boards = []
    for seed in (5, 5, None, None):
        environment.reset(seed=seed)
        boards.append(environment.observe(environment.agent_selection)["observation"])
    assert (boards[0] == boards[1]).all()
    assert (boards[1] != boards[2]).any()
    assert (boards[2] != boards[3]).any()


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="render_mode: expected human, ansi or None, found 'rgb_array'"):
        tictactoe("rgb_array")
    with pytest.raises(ConfigError, match="render_mode: expected human or ansi to render, found None"):
        tictactoe().render()
    with pytest.raises(ConfigError, match="copies: expected 1, found 4"):
        PettingZooAECEnvironment(lambda _: TicTacToe(4), name="many", other_view=turned, draw=text)
