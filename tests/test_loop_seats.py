"""The acting loop where not every ply is the learner's: frozen opponents, and lanes in which nobody decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from keisei.collect.loop import Frozen, action_noise
from keisei.environment import NO_SEAT, PASS, Array, Int64, LegalForm, Observation, Step, legal_mask
from keisei.rollout import Rollout
from keisei.shogi import Board
from keisei.shogi.actions import action_to_usi
from plain_network import stubborn_policy, told
from played import LANES, alternating, check_sampled, column_of, played, stored_legal, written
from small_shogi import small_game, small_policy
from tictactoe import TicTacToe

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


# --- frozen opponents


def replayed_squares(rollout: Rollout) -> Int64:
    """Which squares of tic-tac-toe were taken `[T, B]`, as the next positions show; -1 where a game ended."""
    occupied = rollout.observation[0].sum(axis=2).reshape(rollout.observation.shape[1], -1, 9).astype(int)
    taken = occupied[1:] - occupied[:-1]
    return np.where(rollout.ended[0], -1, taken.argmax(axis=2))


@EVERY_FORM
def test_frozen_opponent_plays_its_seat_and_only_that(form: LegalForm) -> None:
    environment = TicTacToe(LANES, legal=form, random_plies=1)
    seat = alternating()
    lowest, highest = stubborn_policy(9, -1), stubborn_policy(9, 1, value=0.75)
    rollout = played(environment, lowest, frozen=Frozen(highest, seat), steps=30)
    assert (rollout.acted[0] == (rollout.seat[0, :-1] != seat)).all()
    assert 0.3 < rollout.acted.mean() < 0.7
    squares = replayed_squares(rollout)
    for t, b in np.argwhere(squares >= 0):
        legal = stored_legal(rollout, int(t), int(b))
        assert squares[t, b] == (min(legal) if rollout.acted[0, t, b] else max(legal))


def test_nothing_is_said_of_plies_that_are_not_the_learners() -> None:
    environment = TicTacToe(LANES, random_plies=1)
    frozen = Frozen(stubborn_policy(9, 1, value=0.75), alternating())
    rollout = played(environment, stubborn_policy(9, -1, value=0.25), frozen=frozen, steps=30)
    waits = ~rollout.acted
    for array in (rollout.choice, rollout.log_probability, rollout.value):
        assert not array[waits].any()
    assert (rollout.value[rollout.acted] == 0.25).all()
    assert (rollout.bootstrap == 0.25).all()  # the learner's own word for whatever comes next


@pytest.mark.parametrize("seat", [0, 1])
def test_opponent_in_the_same_seat_everywhere_decides_all_lanes_or_none(seat: int) -> None:
    game = small_game(block_size=LANES, move_limit=6)
    frozen = Frozen(small_policy("mlp", game=game), np.full(LANES, seat, np.int8))
    policy = small_policy(game=game)
    rollout = played(game.build_environment(0), policy, frozen=frozen)
    assert rollout.acted[0].tolist() == [[t % 2 != seat] * LANES for t in range(12)]
    alone = played(game.build_environment(0), policy)
    assert rollout.observation[0, 0].tobytes() == alone.observation[0, 0].tobytes()
    if seat == 1:  # the first ply of all lanes is the learner's: it plays as without an opponent
        assert rollout.choice[0, 0].tolist() == alone.choice[0, 0].tolist()
        assert rollout.log_probability[0, 0].tobytes() == alone.log_probability[0, 0].tobytes()


@EVERY_FORM
def test_both_sides_of_a_game_sample_with_their_lanes_numbers(form: LegalForm) -> None:
    game = small_game(block_size=LANES, legal=form)
    policy, other = small_policy(game=game), small_policy("mlp", game=game)
    rollout = played(game.build_environment(0), policy, frozen=Frozen(other, alternating()), steps=12)
    noise = action_noise(3, np.arange(LANES), 0, 12)
    for b in range(LANES):
        board = Board()
        for t in range(12):
            uniform = float(noise[t, b])
            if rollout.acted[0, t, b]:
                column = column_of(rollout, t, b)
                expected = check_sampled(rollout, (t, b), policy, column, uniform)
                assert rollout.log_probability[0, t, b] == pytest.approx(expected, abs=1e-5)
                (value,) = policy.values(rollout.observation[0, t, b : b + 1])
                assert rollout.value[0, t, b] == pytest.approx(value, abs=1e-5)
            else:
                column = column_that_leads_to(rollout, t, b, board)
                check_sampled(rollout, (t, b), other, column, uniform)
            board.push(action_to_usi(stored_legal(rollout, t, b)[column], board.turn))


def column_that_leads_to(rollout: Rollout, t: int, b: int, board: Board) -> int:
    """Which of the legal actions was played, as the next position shows."""
    found = []
    for column, action in enumerate(stored_legal(rollout, t, b)):
        board.push(action_to_usi(action, board.turn))
        if board.observation("packed").tobytes() == rollout.observation[0, t + 1, b].tobytes():
            found.append(column)
        board.pop()
    (column,) = found
    return column


# --- lanes in which nobody decides


class WaitingTicTacToe(TicTacToe):
    """Now and then some lanes, or all of them, have nobody to decide; they must be passed."""

    clock = 0

    @property
    def waits(self) -> Array:
        return (np.arange(self.copies) + self.clock) % 3 == 0 if self.clock % 4 else np.ones(self.copies, np.bool_)

    def observe(self, observation: Sequence[Observation]) -> None:
        super().observe(observation)
        (seen,) = observation
        mask = legal_mask(self.groups[0], seen.legal).astype(np.bool_)
        mask[self.waits] = False
        seen.seat[self.waits] = NO_SEAT
        legal = told(mask, self.groups[0].legal)
        seen.legal.offsets[:] = legal.offsets
        seen.legal.actions[: len(legal.actions)] = legal.actions

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        assert ((np.asarray(actions[0]) == PASS) == self.waits).all()
        self.clock += 1
        super().step(actions, step, observation)


@EVERY_FORM
@pytest.mark.parametrize("opponent", [False, True])
def test_lanes_in_which_nobody_decides_are_passed_and_not_learnt_from(form: LegalForm, opponent: bool) -> None:
    rollouts = []
    for fill in (0xFF, 0x5A):
        environment = WaitingTicTacToe(LANES, legal=form, move_limit=6)
        frozen = Frozen(stubborn_policy(9, 1), alternating()) if opponent else None
        rollouts.append(played(environment, stubborn_policy(9, -1), frozen=frozen, steps=24, fill=fill, reset=False))
    assert written(rollouts[0]) == written(rollouts[1])
    rollout = rollouts[0]
    waits = rollout.seat[0, :-1] == NO_SEAT
    assert waits.all(axis=1).any()
    assert not rollout.acted[0][waits].any()
    assert (rollout.discount[0][waits] == 1).all()
    assert not rollout.value[0][waits].any()
    if not opponent:
        assert rollout.acted[0][~waits].all()
