"""Matches: openings shared within pairs, colours swapped, every game once, results that do not depend on the lanes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import pytest

from keisei.arena import GameResult, MatchResult, Sprt, Winner, elo_difference, evaluate, rate
from keisei.environment import (
    NO_SEAT,
    PASS,
    Array,
    Environment,
    Group,
    LegalForm,
    Observation,
    Step,
    legal_list,
    new_observation,
)
from keisei.errors import ActionError, ConfigError, ContractError
from keisei.opponents import GreedyOpponent, Opponent, RandomOpponent
from keisei.shogi import ShogiEnvironment
from keisei.shogi.captures import capture_values
from tictactoe import ROWS, TicTacToe

LINES = [sum(1 << int(square) for square in row) for row in ROWS]


class First:
    """Plays the legal action with the lowest number."""

    def __call__(self, group: Group, observation: Observation) -> Array:
        legal = legal_list(group, observation.legal)
        return legal.actions[legal.offsets[:-1]].astype(np.int32)


class Perfect:
    """Plays tic-tac-toe as well as it can be played."""

    def __call__(self, group: Group, observation: Observation) -> Array:
        boards = (observation.values != 0).reshape(-1, 2, 9) @ (1 << np.arange(9))
        return np.array([best(own, other)[1] for own, other in boards.tolist()])


@cache
def best(own: int, other: int) -> tuple[int, int]:
    """What the side to move can get with these stones on the board (1, 0, -1), and by which square."""
    if any(line & other == line for line in LINES):
        return -1, PASS
    free = [square for square in range(9) if not (own | other) >> square & 1]
    if not free:
        return 0, PASS
    value, square = min((best(other, own | 1 << square)[0], square) for square in free)
    return -value, square


class Diary:
    """What both sides of a match are asked, by game."""

    def __init__(self) -> None:
        self.first: dict[int, bytes] = {}  # the first position that anyone is asked about
        self.stones: dict[int, int] = {}  # how many stones lie there
        self.asked: Counter[int] = Counter()
        self.seats: dict[str, set[tuple[int, int]]] = {"challenger": set(), "against": set()}  # (game, seat)


class Noted:
    """An opponent that writes in a diary what it is asked, and checks the form of it."""

    def __init__(self, diary: Diary, name: str, player: Opponent) -> None:
        self.diary, self.name, self.player = diary, name, player

    def __call__(self, group: Group, observation: Observation) -> Array:
        legal = legal_list(group, observation.legal)
        assert len(group.lanes) == len(observation.values) == len(observation.seat) == len(legal.offsets) - 1 > 0
        assert (np.diff(group.lanes) > 0).all()
        for row, (game, seat) in enumerate(zip(group.lanes.tolist(), observation.seat.tolist(), strict=True)):
            values = observation.values[row]
            free = np.flatnonzero((values == 0).all(axis=0).reshape(-1))
            assert legal.actions[legal.offsets[row] : legal.offsets[row + 1]].tolist() == free.tolist()
            self.diary.first.setdefault(game, values.tobytes())
            self.diary.stones.setdefault(game, int((values != 0).sum()))
            self.diary.asked[game] += 1
            self.diary.seats[self.name].add((game, seat))
        return self.player(group, observation)


def noted_match(environment: Environment, games: int, opening_plies: int, seed: int = 3) -> tuple[MatchResult, Diary]:
    diary = Diary()
    players = [Noted(diary, name, RandomOpponent(number)) for number, name in enumerate(("challenger", "against"))]
    return evaluate(environment, *players, games=games, seed=seed, opening_plies=opening_plies), diary


def random_match(
    copies: int = 4, *, games: int = 20, seed: int = 3, opening_plies: int = 3, legal: LegalForm = "list"
) -> MatchResult:
    players = RandomOpponent(1), RandomOpponent(2)
    return evaluate(TicTacToe(copies, legal=legal), *players, games=games, seed=seed, opening_plies=opening_plies)


def first_match(games: int, sprt: Sprt | None = None, environment: Environment | None = None) -> MatchResult:
    return evaluate(environment or TicTacToe(), First(), First(), games=games, seed=0, opening_plies=0, sprt=sprt)


def result_of(points: str) -> MatchResult:
    """A match with these results of the challenger: w, d, l."""
    winners: dict[str, Winner | None] = {"w": "challenger", "d": None, "l": "against"}
    games = [GameResult(number, number % 2, winners[letter], "", 9, 0) for number, letter in enumerate(points)]
    return MatchResult(tuple(games))


def test_small_match_by_hand() -> None:
    # Squares 0, 2, 4, 6 for cross, 1, 3, 5 for nought: 2-4-6 is three in a row at ply 7, for whoever begins.
    result = first_match(games=5)
    winners: list[Winner] = ["challenger", "against", "challenger", "against", "challenger"]
    assert result.played == tuple(GameResult(number, number % 2, winners[number], "three", 7, 0) for number in range(5))
    assert (result.games, result.wins, result.draws, result.losses, result.pairs) == (5, 3, 0, 2, (0, 0, 2, 0, 0))
    assert [game.pair for game in result.played] == [0, 0, 1, 1, 2]
    assert result.as_dict() == {
        "games": 5,
        "wins": 3,
        "draws": 0,
        "losses": 2,
        "score": 0.6,
        "elo": elo_difference(0.6),
        "elo_low": rate([0, 0, 2, 0, 0]).elo_low,
        "elo_high": rate([0, 0, 2, 0, 0]).elo_high,
        "pairs": [0, 0, 2, 0, 0],
        "reasons": {"three": 5},
        "mean_length": 7.0,
    }


@pytest.mark.parametrize("legal", ["list", "mask", "bits"])
def test_games_of_a_pair_share_the_opening_and_swap_the_colours(legal: LegalForm) -> None:
    result, diary = noted_match(TicTacToe(7, legal=legal), games=60, opening_plies=3)
    assert sorted(diary.first) == list(range(60))
    for game in result.played:
        assert diary.first[game.number] == diary.first[game.number ^ 1]
        assert diary.stones[game.number] == game.opening == result.played[game.number ^ 1].opening
    assert len(set(diary.first.values())) > 20  # of 30
    assert {game.opening for game in result.played} == {2, 3}
    assert all(seat == game % 2 for game, seat in diary.seats["challenger"])
    assert all(seat != game % 2 for game, seat in diary.seats["against"])
    assert all(game.seat == game.number % 2 for game in result.played)


def test_players_are_asked_once_for_each_ply_that_is_theirs() -> None:
    result, diary = noted_match(TicTacToe(7), games=31, opening_plies=2)
    assert diary.asked == {game.number: game.length - game.opening for game in result.played}


def test_openings_depend_on_the_seed() -> None:
    (_, one), (_, same), (_, other) = (noted_match(TicTacToe(), 20, 4, seed) for seed in (3, 3, 4))
    assert one.first == same.first
    assert one.first != other.first


def test_openings_do_not_follow_a_random_opponent_of_the_same_seed() -> None:
    environment, opponent = TicTacToe(30), RandomOpponent(3)
    (empty,) = observation = new_observation(environment)
    environment.reset(observation)
    _, diary = noted_match(TicTacToe(30), games=60, opening_plies=1, seed=3)
    opened = [int(np.frombuffer(diary.first[2 * pair], np.uint8)[9:].argmax()) for pair in range(30)]
    for _ in range(2):
        assert (opponent(environment.groups[0], empty) == opened).sum() < 15


def test_same_seed_gives_the_same_match() -> None:
    assert random_match() == random_match()
    assert random_match() != random_match(seed=4)


@pytest.mark.parametrize("copies", [2, 3, 8, 50])
def test_result_does_not_depend_on_the_number_of_lanes(copies: int) -> None:
    assert random_match(copies, games=33) == random_match(1, games=33)


@pytest.mark.parametrize("legal", ["mask", "bits"])
def test_result_does_not_depend_on_how_legal_actions_are_written(legal: LegalForm) -> None:
    assert random_match(legal=legal) == random_match()


def test_environment_may_have_been_played_before() -> None:
    environment = TicTacToe()
    assert first_match(3, environment=environment) == first_match(3, environment=environment)


def test_every_game_is_there_and_counts_add_up() -> None:
    result = random_match(games=41)
    assert [game.number for game in result.played] == list(range(41))
    assert result.wins + result.draws + result.losses == sum(result.reasons.values()) == 41
    assert result.wins > 0 < result.losses
    assert sum(result.pairs) == 20
    assert sum(game.points for game in result.played) == result.rating.score * 41 == result.wins + result.draws / 2
    assert list(result.reasons) == ["three", "full"]


def test_perfect_player_never_loses_and_beats_a_random_one() -> None:
    result = evaluate(TicTacToe(8), Perfect(), RandomOpponent(1), games=60, seed=1, opening_plies=1)
    assert result.losses == 0
    assert result.rating.elo_low > 200
    swapped = evaluate(TicTacToe(8), RandomOpponent(1), Perfect(), games=60, seed=1, opening_plies=1)
    assert swapped.wins == 0
    assert swapped.rating.elo_high < -200


def test_perfect_players_draw() -> None:
    result = evaluate(TicTacToe(8), Perfect(), Perfect(), games=20, seed=1, opening_plies=1)
    assert (result.draws, result.reasons, result.mean_length) == (20, {"full": 20}, 9.0)


def test_game_that_is_cut_off_is_a_draw() -> None:
    result = first_match(6, environment=TicTacToe(move_limit=5))
    assert (result.draws, result.reasons) == (6, {"move limit": 6})


class Paying(TicTacToe):
    """Whoever makes the last ply before the limit is paid for it."""

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        super().step(actions, step, observation)
        step.reward[step.cut_off] = 0.5


def test_reward_of_the_ply_that_is_cut_off_is_no_win() -> None:
    assert first_match(6, environment=Paying(move_limit=5)).draws == 6


class Misere(TicTacToe):
    """Three in a row loses."""

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        super().step(actions, step, observation)
        step.reward[:] = -step.reward


def test_last_move_may_lose() -> None:
    winners = [game.winner for game in first_match(4, environment=Misere()).played]
    assert winners == ["against", "challenger"] * 2


class Counting(TicTacToe):
    ended = 0

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        super().step(actions, step, observation)
        self.ended += int(step.ended.sum())


def test_opening_that_ends_the_game_is_drawn_again_for_both() -> None:
    environment = Counting(5)
    result, diary = noted_match(environment, games=40, opening_plies=8)
    assert environment.ended > 40 == len(result.played)
    for game in result.played:
        assert game.length > game.opening == diary.stones[game.number]
        assert diary.first[game.number] == diary.first[game.number ^ 1]


def test_openings_that_no_game_outlasts_are_refused() -> None:
    with pytest.raises(ConfigError, match="opening_plies: 18 are too many"):
        random_match(1, games=1, opening_plies=18)


def test_environment_that_starts_from_different_positions_is_refused() -> None:
    with pytest.raises(ConfigError, match="pair 0 came to different positions"):
        first_match(2, environment=TicTacToe(random_plies=2))


@pytest.mark.parametrize("copies", [1, 4, 64])
def test_sprt_stops_at_the_first_pair_that_decides(copies: int) -> None:
    sprt = Sprt(0, 100)

    def match(sprt: Sprt | None) -> MatchResult:
        players = Perfect(), RandomOpponent(1)
        return evaluate(TicTacToe(copies), *players, games=100, seed=5, opening_plies=2, sprt=sprt)

    stopped, whole = match(sprt), match(None)
    undecided = [MatchResult(whole.played[: 2 * pairs]) for pairs in range(1, stopped.games // 2)]
    assert stopped.played == whole.played[: stopped.games]
    assert 2 < stopped.games < 100
    assert all(sprt.decide(earlier.pairs) is None for earlier in undecided)
    assert sprt.decide(stopped.pairs) == "H1"


def test_sprt_by_hand() -> None:
    # Whoever begins wins, so every pair is shared and counts log((1 - 0.7597) / 0.5) = -0.733; the bound is -2.944.
    result = first_match(50, Sprt(0, 200))
    assert result.pairs == (0, 0, 5, 0, 0)
    test = result.as_dict()["sprt"]
    assert isinstance(test, dict)
    assert test["log_likelihood_ratio"] == pytest.approx(-3.6638, abs=1e-3)
    assert test | {"log_likelihood_ratio": 0} == {
        "elo0": 0,
        "elo1": 200,
        "alpha": 0.05,
        "beta": 0.05,
        "log_likelihood_ratio": 0,
        "decision": "H0",
    }


def test_match_may_end_before_its_sprt_decides() -> None:
    result = first_match(7, Sprt(0, 200))
    assert result.games == 7
    assert Sprt(0, 200).decide(result.pairs) is None


def test_single_game_is_rated_by_itself() -> None:
    assert first_match(1).rating == rate([0, 0, 1])


def test_odd_game_counts_for_the_score_and_stays_within_the_interval() -> None:
    for letters in product("wdl", repeat=5):
        rating = result_of("".join(letters)).rating
        assert rating.elo_low <= rating.elo <= rating.elo_high
    for pair in product("wdl", repeat=2):
        for last in "wdl":
            rating = result_of("".join(pair) * 200 + last).rating
            assert rating.elo_low <= rating.elo <= rating.elo_high
    assert result_of("wdl").rating.score == 0.5


def test_pairs_are_counted_by_their_points() -> None:
    assert result_of("llldlwddwdwwww").pairs == (1, 1, 2, 1, 2)


def test_result_is_json_and_reads_as_a_line() -> None:
    result = result_of("wwwwwwwwww")
    assert json.loads(json.dumps(result.as_dict(), allow_nan=False)) == result.as_dict()
    assert str(result) == (
        "10 games: 10 won, 0 drawn, 0 lost; score 100.0%, Elo +1200 or more (95 %: +132 to +1200 or more)"
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.array([PASS]), "passed in game 0, where it is to move"),
        (np.array([0.0]), r"expected integers \[1\] from .*, found float64 \[1\]"),
        (np.array([0, 0]), r"expected integers \[1\] from .*, found int64 \[2\]"),
        (np.array([9]), "illegal action 9 in lane 0"),
    ],
)
def test_wrong_answer_of_a_player_is_refused(answer: Array, message: str) -> None:
    with pytest.raises(ActionError, match=message):
        evaluate(TicTacToe(3), lambda group, seen: answer, First(), games=1, seed=0, opening_plies=0)


class ThreeSeats(TicTacToe):
    def __init__(self) -> None:
        super().__init__()
        self.seats = ("cross", "nought", "circle")


class Asleep(TicTacToe):
    def observe(self, observation: Sequence[Observation]) -> None:
        super().observe(observation)
        observation[0].seat[2] = NO_SEAT


def test_matches_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"two seats take turns in one lane.* found 3 seats"):
        first_match(1, environment=ThreeSeats())
    with pytest.raises(ConfigError, match="games: expected 1 or more, found 0"):
        first_match(0)
    with pytest.raises(ConfigError, match="opening_plies: expected 0 or more, found -1"):
        random_match(opening_plies=-1)
    with pytest.raises(ContractError, match="nobody decides in lane 2"):
        first_match(3, environment=Asleep())


def shogi_match(copies: int, random_plies: int = 0) -> MatchResult:
    environment = ShogiEnvironment(copies=copies, observation="packed", move_limit=400, random_plies=random_plies)
    players = GreedyOpponent(1, capture_values), RandomOpponent(1)
    return evaluate(environment, *players, games=20, seed=2, opening_plies=12)


def test_shogi_is_played_like_any_game() -> None:
    result = shogi_match(copies=6)
    assert set(result.reasons) <= set(ShogiEnvironment.reasons[1:])
    assert all(6 <= game.opening <= 12 < game.length <= 400 for game in result.played)
    assert result.wins > result.losses
    assert result == shogi_match(copies=20)


def test_shogi_with_random_starts_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of openings, random_plies 0"):
        shogi_match(copies=2, random_plies=4)
