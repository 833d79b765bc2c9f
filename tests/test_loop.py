"""The acting loop: what it stores is what happened, cell for cell, move for move, number for number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import pytest
import torch

from keisei.collect.loop import Frozen, action_noise, play
from keisei.environment import Array, LegalForm
from keisei.policy import Policy
from keisei.rollout import Rollout, RolloutLayout
from keisei.shogi import Board
from keisei.shogi.actions import action_to_usi
from keisei.shogi.environment import ObservationForm
from plain_network import stubborn_policy
from played import LANES, alternating, check_sampled, column_of, played, stored_legal, written
from small_shogi import MOST_MOVES, small_game, small_policy
from tictactoe import TicTacToe

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")
EVERY_FORM = pytest.mark.parametrize("form", FORMS)
FEW_MOVES = "k8/2G6/1P7/9/9/9/9/9/K8 b - 1"  # G7b8b mates


# --- every cell


@EVERY_FORM
@pytest.mark.parametrize("observation", get_args(ObservationForm))
@pytest.mark.parametrize("opponent", [False, True])
def test_every_cell_is_written(form: LegalForm, observation: ObservationForm, opponent: bool) -> None:
    game = small_game(
        block_size=LANES,
        legal=form,
        observation=observation,
        openings=("startpos", FEW_MOVES),
        move_limit=5,
    )
    policy, environment = small_policy(game=game), game.build_environment(0)
    frozen = Frozen(small_policy("mlp", game=game), alternating()) if opponent else None
    over_ones, over_others = (played(environment, policy, frozen=frozen, fill=fill) for fill in (0xFF, 0x5A))
    assert over_ones.ended.any()
    assert over_ones.cut_off.any()
    assert written(over_ones) == written(over_others)  # what nobody wrote would still be different
    for name in ("log_probability", "value", "bootstrap", "reward", "discount", "final_value"):
        assert np.isfinite(getattr(over_ones, name)).all(), name
    if form == "list":
        assert (over_ones.legal_actions[0, over_ones.legal_offsets[0, -1, -1] :] == 0xFFFF).all()


@EVERY_FORM
def test_blocks_of_positions_with_593_moves_are_stored_whole(form: LegalForm) -> None:
    game = small_game(block_size=2, legal=form, openings=(MOST_MOVES,), move_limit=1)
    rollout = played(game.build_environment(0), small_policy(game=game), steps=3)
    for t in range(4):
        for b in range(2):
            assert len(set(stored_legal(rollout, t, b))) == 593
    if form == "list":
        assert rollout.legal_offsets[0, -1, -1] == rollout.legal_actions.shape[1] == 4 * 2 * 593


# --- move for move


@dataclass
class Replay:
    """A rollout played again on boards, one lane at a time."""

    rollout: Rollout
    opening: str
    limit: int
    form: ObservationForm = "packed"
    finals: dict[tuple[int, int], Array] = field(default_factory=dict)  # last positions of games that were cut off
    endings: list[str] = field(default_factory=list)
    plies: int = 0

    def check(self) -> None:
        for b in range(self.rollout.seat.shape[2]):
            self.board = Board(self.opening, move_limit=self.limit)
            for t in range(self.rollout.reward.shape[1]):
                self.check_seen(t, b)
                self.check_step(t, b)
            self.check_seen(t + 1, b)

    def check_seen(self, t: int, b: int) -> None:
        seen = self.board.observation(self.form)
        assert self.rollout.observation[0, t, b].tobytes() == seen.tobytes()
        assert self.rollout.seat[0, t, b] == (self.board.turn == "white")
        expected = self.board.legal_actions().tolist()
        assert stored_legal(self.rollout, t, b) == (
            expected if self.rollout.group.legal == "list" else sorted(expected)
        )

    def check_step(self, t: int, b: int) -> None:
        at, mover = (0, t, b), self.board.turn
        choice = int(self.rollout.choice[at])
        action = stored_legal(self.rollout, t, b)[choice] if self.rollout.group.legal == "list" else choice
        self.board.push(action_to_usi(action, mover))
        self.plies += 1
        outcome = self.board.outcome()
        reason, winner = (outcome.reason, outcome.winner) if outcome else ("", None)
        cut_off = reason == "move_limit"
        told_of = {name: getattr(self.rollout, name)[at].item() for name in ("reward", "discount", "ended", "cut_off")}
        assert told_of == {
            "reward": 0 if winner is None else 1 if winner == mover else -1,
            "discount": -1 if cut_off or not outcome else 0,
            "ended": outcome is not None,
            "cut_off": cut_off,
        }
        assert small_game().reasons[self.rollout.reason[at]] == reason
        assert self.rollout.length[at] == (self.board.ply if outcome else 0)
        assert self.rollout.acted[at]
        if cut_off:
            self.finals[t, b] = self.board.observation("packed")
        if outcome:
            self.endings.append(reason)
            self.board = Board(self.opening, move_limit=self.limit)


@EVERY_FORM
@pytest.mark.parametrize(("opening", "limit"), [("startpos", 7), (FEW_MOVES, 9)])
def test_games_are_those_that_boards_play(form: LegalForm, opening: str, limit: int) -> None:
    game = small_game(block_size=LANES, legal=form, openings=(opening,), move_limit=limit)
    replay = Replay(played(game.build_environment(0), small_policy(game=game), steps=80), opening, limit)
    replay.check()
    assert "move_limit" in replay.endings
    assert ("checkmate" in replay.endings) == (opening == FEW_MOVES)


@pytest.mark.parametrize("observation", ["uint8", "float32"])
def test_positions_are_stored_in_the_form_of_the_game(observation: ObservationForm) -> None:
    game = small_game(block_size=2, observation=observation, move_limit=9)
    Replay(played(game.build_environment(0), small_policy(game=game)), "startpos", 9, observation).check()


def test_next_rollout_goes_on_where_the_last_one_ended() -> None:
    game = small_game(block_size=LANES, move_limit=30)
    environment, policy = game.build_environment(0), small_policy(game=game)
    first, second = (played(environment, policy, steps=8, iteration=i, reset=False) for i in range(2))
    assert first.observation[0, -1].tobytes() == second.observation[0, 0].tobytes()
    assert first.seat[0, -1].tolist() == second.seat[0, 0].tolist()
    assert [stored_legal(first, 8, b) for b in range(LANES)] == [stored_legal(second, 0, b) for b in range(LANES)]


# --- number for number


@EVERY_FORM
@pytest.mark.parametrize("kind", ["residual, normalised", "convolutional", "mlp"])
def test_choices_probabilities_and_values_are_the_networks(form: LegalForm, kind: str) -> None:
    game = small_game(block_size=LANES, legal=form, move_limit=7)
    policy = small_policy(kind, game=game)
    rollout = played(game.build_environment(0), policy, steps=9)
    noise = action_noise(3, np.arange(LANES), 0, 9)
    for t, b in np.ndindex(9, LANES):
        expected = check_sampled(rollout, (t, b), policy, column_of(rollout, t, b), float(noise[t, b]))
        assert rollout.log_probability[0, t, b] == pytest.approx(expected, abs=1e-5)
        (value,) = policy.values(rollout.observation[0, t, b : b + 1])
        assert rollout.value[0, t, b] == pytest.approx(value, abs=1e-5)
    assert rollout.log_probability.std() > 0.01
    assert rollout.value.std() > 0.001


def test_last_row_and_last_positions_are_valued_by_the_network_that_played() -> None:
    game = small_game(block_size=LANES, move_limit=3)
    policy = small_policy(game=game)
    rollout = played(game.build_environment(0), policy, steps=20)
    assert (rollout.bootstrap[0] == policy.values(rollout.observation[0, -1])).all()
    replay = Replay(rollout, "startpos", 3)
    replay.check()
    assert len(replay.finals) == 6 * LANES  # more than one batch of them
    for t, b in np.ndindex(20, LANES):
        if (t, b) in replay.finals:
            padded = np.repeat(replay.finals[t, b][None], LANES, axis=0)
            expected = policy.values(padded)
            assert rollout.final_value[0, t, b] == pytest.approx(expected[0], abs=1e-6)
        else:
            assert rollout.final_value[0, t, b] == 0
    assert len(np.unique(rollout.final_value)) > LANES


def test_last_positions_are_kept_where_a_learner_wants_them() -> None:
    game = small_game(block_size=LANES, move_limit=3)
    policy = small_policy(game=game)
    rollout = played(game.build_environment(0), policy, steps=10, finals=True)
    replay = Replay(rollout, "startpos", 3)
    replay.check()
    assert len(replay.finals) == 3 * LANES
    for t, b in np.ndindex(10, LANES):
        expected = replay.finals.get((t, b), np.zeros(rollout.group.shape, rollout.group.dtype))
        assert np.array_equal(rollout.final_observation[0, t, b], expected)


class CountingPolicy(Policy):
    """Remembers how many lanes it was asked about at a time."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.network, self.counted)
        self.inner = policy.encode
        self.sizes: list[int] = []

    def counted(self, seen: Array) -> torch.Tensor:
        self.sizes.append(len(seen))
        return self.inner(seen)


def test_network_sees_batches_of_one_shape_only() -> None:
    game = small_game(block_size=LANES, move_limit=4)
    policy = CountingPolicy(small_policy(game=game))
    rollout = played(game.build_environment(0), policy, steps=9)
    final_batches = -(-int(rollout.cut_off.sum()) // LANES)
    assert policy.sizes == [LANES] * (9 + 1 + final_batches)


def test_life_is_given_a_sign_at_each_step() -> None:
    environment, beats = TicTacToe(2), []
    layout = RolloutLayout(environment.groups[0], 7)
    rollout = layout.rollout(layout.allocate(1))
    policy = stubborn_policy(9, 1)
    play(environment, policy, (), rollout, action_noise(0, np.arange(2), 0, 7), lambda: beats.append(len(beats)))
    assert len(beats) >= 7


# --- chance


def test_noise_belongs_to_seed_lane_iteration_and_step() -> None:
    noise = action_noise(5, np.arange(6), 2, 9)
    assert noise.shape == (9, 6)
    assert (action_noise(5, np.arange(6), 2, 9) == noise).all()
    assert (action_noise(5, np.array([4, 1]), 2, 9) == noise[:, [4, 1]]).all()  # whoever else is asked for
    assert (action_noise(5, np.arange(6), 2, 4) == noise[:4]).all()  # however long it goes on
    for other in (action_noise(6, np.arange(6), 2, 9), action_noise(5, np.arange(6), 3, 9)):
        assert (other != noise).mean() > 0.99
    assert len(np.unique(noise)) == noise.size  # neither lanes nor steps are alike
    assert (action_noise(5 + 2**32, np.arange(6), 2, 9) != noise).mean() > 0.99


def test_noise_lies_evenly_below_one() -> None:
    noise = action_noise(1, np.arange(300), 0, 400)
    assert noise.min() >= 0
    assert noise.max() < 1
    assert ((noise.astype(np.float64) * 2**23) % 1 == 0).all()
    counts = np.histogram(noise, bins=20, range=(0, 1))[0]
    assert ((counts - 6000) ** 2 / 6000).sum() < 43.8  # 19 degrees of freedom, p = 0.001


@pytest.mark.parametrize("iteration", [0, 1, 2**31])
def test_same_state_and_iteration_play_the_same_bits_and_others_do_not(iteration: int) -> None:
    game = small_game(block_size=LANES, move_limit=6)
    environment, policy = game.build_environment(0), small_policy(game=game)
    first = written(played(environment, policy, iteration=iteration))
    played(environment, policy, iteration=77)
    assert written(played(environment, policy, iteration=iteration)) == first
    assert written(played(environment, policy, iteration=iteration + 1))["choice"] != first["choice"]
    assert written(played(environment, small_policy(seed=1, game=game), iteration=iteration))["value"] != first["value"]
