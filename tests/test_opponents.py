"""Scripted opponents play legally, by chance of (seed, lane, step) alone; the greedy one takes what is worth most."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from keisei.environment import NO_SEAT, PASS, Array, Int32, Int64, LegalForm, Observation, new_observation, new_step
from keisei.opponents import Draws, GreedyOpponent, Opponent, RandomOpponent, philox, random_actions, uniform
from shogi_table import Table
from small_shogi import MOST_MOVES
from tictactoe import TicTacToe


def seen_by(environment: TicTacToe) -> Observation:
    observation = new_observation(environment)
    environment.observe(observation)
    return observation[0]


def self_play(environment: TicTacToe, opponent: Opponent, steps: int) -> Int32:
    """What is played [steps, lanes]."""
    observation, step = new_observation(environment), new_step(environment)
    environment.reset(observation)
    played = []
    for _ in range(steps):
        actions = opponent(environment.groups[0], observation[0])
        environment.step([actions], step, observation)
        played.append(actions)
    return np.stack(played).astype(np.int32)


def by_number(seen: Array, rows: Int64, actions: Int64) -> Int64:
    return actions


def all_alike(seen: Array, rows: Int64, actions: Int64) -> Int64:
    return np.zeros(len(actions), np.int64)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_numbers_of_its_authors(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    a, b, c, d = (np.full(2, word, np.uint64) for word in counter)
    assert [word.tolist() for word in philox((a, b, c, d), key)] == [[word] * 2 for word in expected]


def test_uniform_numbers_lie_evenly_in_the_unit_interval() -> None:
    lanes, steps = np.repeat(np.arange(100, dtype=np.uint64), 100), np.tile(np.arange(100, dtype=np.uint64), 100)
    numbers = uniform(2**63 + 5, lanes, steps)
    assert len(set(numbers.tolist())) == 10_000
    counts = np.histogram(numbers, bins=10, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 27.9  # chi-squared of 9 degrees of freedom, p = 0.001


@pytest.mark.parametrize("legal", ["list", "mask", "bits"])
def test_random_opponent_plays_the_same_legal_moves_from_every_form(legal: LegalForm) -> None:
    played = self_play(TicTacToe(50, legal=legal), RandomOpponent(3), 60)  # an illegal move would raise
    assert (played == self_play(TicTacToe(50), RandomOpponent(3), 60)).all()


def test_random_opponent_plays_every_legal_move_equally_often() -> None:
    environment = TicTacToe(9000, random_plies=3)
    seen = seen_by(environment)
    chosen = RandomOpponent(0)(environment.groups[0], seen)
    free = environment.board == 0
    rank = (np.cumsum(free, axis=1) - 1)[np.arange(9000), chosen]
    assert free[np.arange(9000), chosen].all()
    assert ((np.bincount(rank, minlength=6) - 1500) ** 2 / 1500).sum() < 20.6  # 5 degrees of freedom, p = 0.001


def test_lane_plays_the_same_whatever_the_number_of_lanes() -> None:
    many = self_play(TicTacToe(40, random_plies=2), RandomOpponent(9), 50)
    few = self_play(TicTacToe(3, random_plies=2), RandomOpponent(9), 50)
    block = self_play(TicTacToe(5, random_plies=2, first_lane=20), RandomOpponent(9, first_lane=20), 50)
    assert (many[:, :3] == few).all()
    assert (many[:, 20:25] == block).all()


def test_other_seed_or_lane_plays_otherwise() -> None:
    one, other = (self_play(TicTacToe(20), RandomOpponent(seed), 30) for seed in (1, 2))
    assert (one != other).any(axis=0).all()
    assert len({tuple(lane) for lane in one.T.tolist()}) == 20


@pytest.mark.parametrize("opponent", [RandomOpponent(4), GreedyOpponent(4, all_alike)])
def test_lane_in_which_nobody_decides_passes_and_uses_nothing_up(opponent: RandomOpponent | GreedyOpponent) -> None:
    environment = TicTacToe(6)
    seen, group = seen_by(environment), environment.groups[0]
    waits = np.array([True, False, False, True, False, True])
    first = opponent(group, replace(seen, seat=np.where(waits, NO_SEAT, 0).astype(np.int8)))
    assert (first[waits] == PASS).all()
    assert (first[~waits] >= 0).all()
    assert opponent.draws.drawn.tolist() == [0, 1, 1, 0, 1, 0]
    fresh = RandomOpponent(4)(group, seen)
    assert (opponent(group, seen)[waits] == fresh[waits]).all()


def test_greedy_opponent_takes_what_is_worth_most() -> None:
    environment = TicTacToe(50, random_plies=4)
    chosen = GreedyOpponent(0, by_number)(environment.groups[0], seen_by(environment))
    assert chosen.tolist() == [max(np.flatnonzero(board == 0)) for board in environment.board]


def test_greedy_opponent_breaks_ties_like_a_random_one() -> None:
    played = self_play(TicTacToe(30), GreedyOpponent(5, all_alike), 40)
    assert (played == self_play(TicTacToe(30), RandomOpponent(5), 40)).all()


def test_greedy_opponent_values_only_what_is_to_be_decided() -> None:
    environment = TicTacToe(4)
    asked: list[int] = []

    def values(seen: Array, rows: Int64, actions: Int64) -> Int64:
        asked.extend(rows.tolist())
        return by_number(seen, rows, actions)

    seat = np.array([0, NO_SEAT, 0, NO_SEAT], np.int8)
    chosen = GreedyOpponent(0, values)(environment.groups[0], replace(seen_by(environment), seat=seat))
    assert chosen.tolist() == [8, PASS, 8, PASS]
    assert asked == [0] * 9 + [2] * 9
    nobody = replace(seen_by(environment), seat=np.full(4, NO_SEAT, np.int8))
    assert GreedyOpponent(0, values)(environment.groups[0], nobody).tolist() == [PASS] * 4


def test_opponent_goes_on_from_a_copy_of_itself() -> None:
    opponent = GreedyOpponent(7, all_alike)
    self_play(TicTacToe(10), opponent, 13)
    copied = pickle.loads(pickle.dumps(opponent))
    assert (self_play(TicTacToe(10), opponent, 20) == self_play(TicTacToe(10), copied, 20)).all()


def test_draws_follow_the_lane_and_not_its_place_in_the_group() -> None:
    environment = TicTacToe(8)
    whole = Draws(1).next(environment.groups[0], np.ones(8, np.bool_))
    part = replace(environment.groups[0], lanes=np.array([2, 5], np.int32))
    assert (Draws(1).next(part, np.ones(2, np.bool_)) == whole[[2, 5]]).all()


def test_random_actions_are_legal_and_pass_where_none_is() -> None:
    environment = TicTacToe(20, legal="bits", random_plies=3)
    seen, generator = seen_by(environment), np.random.default_rng(0)
    seen.legal.actions[4] = 0
    chosen = random_actions(environment.groups[0], seen, generator)
    others = np.arange(20) != 4
    assert chosen[4] == PASS
    assert (environment.board[np.arange(20), chosen] == 0)[others].all()


def test_each_of_593_moves_is_chosen_at_random() -> None:
    table = Table(500, openings=(MOST_MOVES,), move_limit=8)
    random = RandomOpponent(4)
    chosen = [random(table.environment.groups[0], table.observation[0]) for _ in range(24)]
    assert np.unique(chosen).tolist() == table.legal(0)
    table.play(chosen[0].tolist())
