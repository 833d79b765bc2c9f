"""A two-seat game as a Gymnasium vector environment: each lane is an ordinary game against an opponent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import keisei
from keisei.adapters import GymnasiumVectorEnvironment
from keisei.environment import PASS, Array, Bool, Group, Observation, legal_mask, new_observation, new_step
from keisei.errors import ActionError, ConfigError, ContractError
from keisei.opponents import GreedyOpponent, Opponent, RandomOpponent
from keisei.shogi.captures import capture_values
from tictactoe import TicTacToe

Record = list[tuple[list[float], float, bool, bool]]


def tictactoe(copies: int, *, move_limit: int = 9, random_plies: int = 0) -> Callable[[int], TicTacToe]:
    return lambda seed: TicTacToe(copies, seed, move_limit=move_limit, random_plies=random_plies)


def vector(copies: int = 6, agent_seat: str = "alternate", move_limit: int = 9) -> GymnasiumVectorEnvironment:
    return GymnasiumVectorEnvironment(tictactoe(copies, move_limit=move_limit), RandomOpponent, agent_seat=agent_seat)


def choice(number: int, lane: int, allowed: Sequence[int]) -> int:
    """Any rule will do, if it depends on nothing but these."""
    return allowed[(5 * number + 3 * lane) % len(allowed)]


def alone(lane: int, seed: int, options: dict[str, int], steps: int) -> Iterator[tuple[list[float], float, bool, bool]]:
    """The games of one lane, played one ply after the other without any lanes beside it."""
    environment = TicTacToe(1, seed, first_lane=lane, **options)  # type: ignore[arg-type]
    opponent = RandomOpponent(seed, first_lane=lane)
    observation, step, group = new_observation(environment), new_step(environment), environment.groups[0]
    environment.reset(observation)
    game = 0

    def opponent_moves() -> None:
        environment.step([opponent(group, observation[0])], step, observation)

    def seat() -> int:
        return (lane + game) % 2

    while observation[0].seat[0] != seat():
        opponent_moves()
    for number in range(steps):
        free = np.flatnonzero(environment.board[0] == 0).tolist()
        environment.step([np.array([choice(number, lane, free)])], step, observation)
        reward = float(step.reward[0])
        if not step.ended[0]:
            opponent_moves()
            reward = -float(step.reward[0])
        ended, cut_off = bool(step.ended[0]), bool(step.cut_off[0])
        game += ended
        while observation[0].seat[0] != seat():
            opponent_moves()
        yield observation[0].values.ravel().tolist(), reward, ended and not cut_off, cut_off


@pytest.mark.parametrize("options", [{}, {"move_limit": 5}, {"move_limit": 6}, {"random_plies": 3}])
def test_every_lane_is_what_it_would_be_alone(options: dict[str, int]) -> None:
    environment = GymnasiumVectorEnvironment(tictactoe(7, **options), RandomOpponent)
    _, info = environment.reset(seed=4)
    records: list[Record] = [[] for _ in range(7)]
    for number in range(60):
        allowed = [np.flatnonzero(mask).tolist() for mask in info["action_mask"]]
        actions = np.array([choice(number, lane, allowed[lane]) for lane in range(7)])
        seen, reward, terminated, truncated, info = environment.step(actions)
        for lane, record in enumerate(records):
            outcome = float(reward[lane]), bool(terminated[lane]), bool(truncated[lane])
            record.append((seen[lane].ravel().tolist(), *outcome))
    for lane, record in enumerate(records):
        assert record == list(alone(lane, 4, options, 60))
    assert {outcome[1] for record in records for outcome in record} >= {-1.0, 0.0, 1.0}


def play(
    environment: GymnasiumVectorEnvironment, steps: int
) -> Iterator[tuple[Array, Array, Bool, Bool, dict[str, Any]]]:
    _, info = environment.reset(seed=1)
    for number in range(steps):
        allowed = [np.flatnonzero(mask).tolist() for mask in info["action_mask"]]
        result = environment.step(np.array([choice(number, lane, mask) for lane, mask in enumerate(allowed)]))
        info = result[4]
        yield result


@pytest.mark.parametrize(("agent_seat", "stones"), [("cross", 0), ("nought", 1)])
def test_opponent_opens_every_game_of_the_second_seat(agent_seat: str, stones: int) -> None:
    for seen, _, terminated, truncated, info in play(vector(agent_seat=agent_seat), 40):
        placed = seen.reshape(6, 18).sum(axis=1)
        assert (placed % 2 == stones).all()
        assert (placed[terminated | truncated] == stones).all()
        assert (info["agent_seat"] == stones).all()


def test_seats_alternate_by_lane_and_by_game() -> None:
    environment = vector()
    _, info = environment.reset(seed=1)
    seats = info["agent_seat"]
    assert seats.tolist() == [0, 1, 0, 1, 0, 1]
    for _, _, terminated, _, info in play(environment, 40):
        seats = np.where(terminated, 1 - seats, seats)
        assert (info["agent_seat"] == seats).all()


def test_random_seats_are_drawn_for_each_game_from_the_seed() -> None:
    runs = [[info["agent_seat"].tolist() for *_, info in play(vector(20, "random"), 30)] for _ in range(2)]
    assert runs[0] == runs[1]
    share = np.mean(runs[0])
    assert 0.35 < share < 0.65


def test_cut_off_is_truncation_and_tells_whose_view_is_last() -> None:
    views = set()
    for _, reward, terminated, truncated, info in play(vector(move_limit=3), 20):
        assert not terminated.any()
        assert (reward == 0).all()
        for lane in np.flatnonzero(truncated):
            assert info["final_info"]["reason"][lane] == "move limit"
            assert info["final_info"]["length"][lane] == 3
            assert info["final_info"]["view"][lane] == 1  # nought would have played the fourth stone
            own = info["final_obs"][lane][0].sum()
            assert own == 1  # nought's stones come first in nought's view
            views.add(int(info["final_info"]["agent_seat"][lane]))
    assert views == {0, 1}


def test_last_position_comes_as_gymnasium_gives_it() -> None:
    theirs = SyncVectorEnv([CartPoleEnv] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    theirs.reset(seed=0)
    their_info: dict[str, Any] = {}
    while "final_obs" not in their_info:
        their_info = theirs.step(np.array([1, 1, 0]))[4]
    our_info = next(info for *_, info in play(vector(), 40) if "final_obs" in info)
    for key in ("final_obs", "_final_obs", "_final_info"):
        assert type(our_info[key]) is type(their_info[key])
        assert our_info[key].dtype == their_info[key].dtype
    assert (our_info["_final_obs"] == our_info["_final_info"]).all()
    for lane, is_last in enumerate(our_info["_final_obs"]):
        assert (our_info["final_obs"][lane] is not None) == is_last
        assert our_info["final_info"]["_reason"][lane] == is_last


def test_it_speaks_gymnasium() -> None:
    environment = vector()
    assert environment.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert isinstance(environment.single_action_space, spaces.Discrete)
    counted = RecordEpisodeStatistics(environment)
    seen, info = counted.reset(seed=1)
    assert environment.observation_space.contains(seen)
    kept = seen.copy()
    lengths: list[int] = []
    for _ in range(40):
        mask = info["action_mask"]
        assert (environment.action_masks() == mask).all()
        actions = environment.action_space.sample(mask=tuple(mask))
        newer, reward, terminated, truncated, info = counted.step(actions)
        assert environment.observation_space.contains(newer)
        assert reward.shape == terminated.shape == truncated.shape == (6,)
        lengths += info["episode"]["l"][info["_episode"]].tolist() if "episode" in info else []
    assert (seen == kept).all()
    assert len(lengths) > 20
    assert max(lengths) <= 5
    counted.close()
    counted.close()


def test_seed_starts_the_same_games_and_none_starts_others() -> None:
    environment = GymnasiumVectorEnvironment(tictactoe(20, random_plies=4), RandomOpponent)
    first, again, other, another = (environment.reset(seed=seed)[0] for seed in (3, 3, None, None))
    assert (first == again).all()
    assert (first != other).any()
    assert (other != another).any()
    environment.reset(seed=3)
    assert (environment.reset()[0] == other).all()


def test_wrong_actions_are_refused() -> None:
    environment = vector(2, "cross")
    environment.reset(seed=0)
    for wrong in (np.array([-1, 0]), np.array([0, 9]), np.array([0.0, 0.0]), np.array([0]), np.zeros((2, 1), int)):
        with pytest.raises(ActionError):
            environment.step(wrong)
    environment.step(np.array([4, 4]))
    with pytest.raises(ActionError):
        environment.step(np.array([4, 4]))


def test_wrong_options_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="agent_seat: expected one of cross, nought, alternate, random, found 'white'"
    ):
        vector(agent_seat="white")
    with pytest.raises(ConfigError, match="reset_mask"):
        vector().reset(options={"reset_mask": np.ones(6, np.bool_)})

    class Society(TicTacToe):
        """More agents than two."""

        seats: tuple[str, ...]

        def __init__(self) -> None:
            super().__init__()
            self.seats = ("first", "second", "third")

    with pytest.raises(ConfigError, match="expected an environment of two seats"):
        GymnasiumVectorEnvironment(lambda _: Society(), RandomOpponent)


class FirstMoveWins(TicTacToe):
    """Whoever moves first has won."""

    def _reasons(self) -> Array:  # type: ignore[override]
        return np.ones(self.lanes, np.int64)


def test_game_that_ends_before_the_agents_first_move_is_passed_over() -> None:
    environment = GymnasiumVectorEnvironment(lambda _: FirstMoveWins(4), RandomOpponent)
    _, info = environment.reset(seed=0)
    for _ in range(5):
        assert (info["agent_seat"] == 0).all()
        _, reward, terminated, _, info = environment.step(np.zeros(4, np.int64))
        assert (reward == 1).all()
        assert terminated.all()
    with pytest.raises(ContractError, match="lane 0: 100 games in a row end before the agent's first move"):
        GymnasiumVectorEnvironment(lambda _: FirstMoveWins(4), RandomOpponent, agent_seat="nought").reset()


def test_any_callable_may_be_the_opponent() -> None:
    asked = []

    def lowest(group: Group, observation: Observation) -> Array:
        asked.append(observation.seat.tolist())
        chosen: Array = legal_mask(group, observation.legal).argmax(axis=1)
        return chosen

    def build(seed: int) -> Opponent:
        return lowest

    environment = GymnasiumVectorEnvironment(tictactoe(2), build, agent_seat="alternate")
    seen, _ = environment.reset(seed=0)
    assert asked == [[-1, 0]]
    assert seen[1].ravel().tolist() == [0] * 9 + [1] + [0] * 8
    environment.step(np.array([8, 8]))
    assert asked[1] == [1, 0]


def test_opponent_that_does_not_answer_is_refused() -> None:
    def silent(group: Group, observation: Observation) -> Array:
        return np.full(2, PASS)

    environment = GymnasiumVectorEnvironment(tictactoe(2), lambda _: silent)
    with pytest.raises(ActionError, match="the opponent has no answer in lane 1, where it is to move"):
        environment.reset()


@pytest.mark.parametrize("observation", ["packed", "uint8", "float32"])
def test_shogi_is_handed_out(observation: str) -> None:
    environment = GymnasiumVectorEnvironment(
        lambda seed: keisei.make("shogi", copies=16, seed=seed, observation=observation),
        lambda seed: GreedyOpponent(seed, capture_values),
        agent_seat="alternate",
    )
    _, info = environment.reset(seed=2)
    results: list[float] = []
    for _ in range(250):
        rows = [np.flatnonzero(mask) for mask in info["action_mask"]]
        _, reward, _, _, info = environment.step(np.array([row[len(row) // 2] for row in rows]))
        results += reward[reward != 0].tolist()
    assert len(results) > 5
    assert sum(results) < -0.8 * len(results)
