"""Generalised advantages: cases computed by hand, and a slow recursion over one lane at a time on random games."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.environment import Float32
from keisei.learning.advantage import advantages
from keisei.rollout import ARRAYS, Rollout
from lived import blank, fill_with_games, group_of, one_lane
from slow_learning import slow_advantages

GAMMA, LAM = 0.99, 0.95


def believed(rollout: Rollout) -> Float32:
    """Full trust."""
    return np.ones(rollout.reward.shape, np.float32)


def of_lane(rollout: Rollout, gamma: float = GAMMA, lam: float = LAM) -> list[float]:
    found: list[float] = advantages(rollout, gamma, lam, believed(rollout))[0, :, 0].tolist()
    return found


# --- by hand; the factors: γ = 0.99, γ·λ = 0.9405


def test_mate_at_the_fourth_ply_is_good_and_bad_in_turns() -> None:
    rollout = one_lane([(0, -1, 0), (0, -1, 0), (0, -1, 0), (1, 0, 0)], bootstrap=0)
    assert of_lane(rollout) == pytest.approx([-0.8319, 0.8845, -0.9405, 1], abs=5e-5)
    assert of_lane(rollout) == pytest.approx([-(0.9405**3), 0.9405**2, -0.9405, 1], abs=1e-6)


def test_value_of_the_next_game_does_not_reach_back() -> None:
    rollout = one_lane([(0, -1, 0), (1, 0, 0)], bootstrap=123)
    assert of_lane(rollout) == pytest.approx([-0.9405, 1], abs=1e-6)


def test_values_are_those_of_alternating_seats() -> None:
    # 0.99·(-1)·(-0.4) - 0.3 = 0.096; 0.99·(-1)·0.2 + 0.4 = 0.202; 0.096 - 0.9405·0.202 = -0.093981
    rollout = one_lane([(0, -1, 0.3), (0, -1, -0.4)], bootstrap=0.2)
    assert of_lane(rollout) == pytest.approx([-0.093981, 0.202], abs=1e-6)


def test_game_cut_off_by_the_move_limit_goes_on_in_its_last_position() -> None:
    # The opponent would decide next, and stands at 0.5: 0.99·(-1)·0.5 + 0.2 = -0.295.
    # Before that: 0.99·(-1)·(-0.2) - 0.1 = 0.098; 0.098 + 0.9405·0.295 = 0.3754475. The next game counts nothing.
    rollout = one_lane([(0, -1, 0.1), (0, -1, -0.2)], bootstrap=77, cut_off={1: 0.5})
    assert of_lane(rollout) == pytest.approx([0.3754475, -0.295], abs=1e-6)


def test_game_cut_off_while_the_same_seat_decides_keeps_its_sign() -> None:
    # 0.99·0.5 + 0.2 = 0.695; 0.99·(-0.2) - 0.1 = -0.298; -0.298 + 0.9405·0.695 = 0.3556475
    rollout = one_lane([(0, 1, 0.1), (0, 1, -0.2)], bootstrap=77, cut_off={1: 0.5})
    assert of_lane(rollout) == pytest.approx([0.3556475, 0.695], abs=1e-6)


def test_cut_off_in_the_middle_does_not_join_two_games() -> None:
    # Row 1 begins a new game: 0.99·(-1)·0.25 - 0.5 = -0.7475; row 0: 0.99·(-1)·(-0.6) - 0.4 = 0.194
    rollout = one_lane([(0, -1, 0.4), (0, -1, 0.5)], bootstrap=0.25, cut_off={0: -0.6})
    assert of_lane(rollout) == pytest.approx([0.194, -0.7475], abs=1e-6)


def test_two_games_in_one_lane_know_nothing_of_each_other() -> None:
    # First: 1 - 0.5 = 0.5; 0.99·(-1)·0.5 - 0.5 = -0.995; -0.995 - 0.9405·0.5 = -1.46525. Second: as above, -0.7475.
    rollout = one_lane([(0, -1, 0.5), (1, 0, 0.5), (0, -1, 0.5)], bootstrap=0.25)
    assert of_lane(rollout) == pytest.approx([-1.46525, 0.5, -0.7475], abs=1e-6)


def test_mate_by_a_frozen_opponent_is_folded_into_the_ply_before() -> None:
    # 0.99·(-1)·1 = -0.99. Two plies earlier, through both signs: 0.95·0.99²·(-0.99) = -0.92178405
    rollout = one_lane([(0, -1, 0), (0, -1, 0), (0, -1, 0), (1, 0, 0)], bootstrap=0, waits=[1, 3])
    assert of_lane(rollout) == pytest.approx([-0.92178405, 0, -0.99, 0], abs=1e-6)


def test_frozen_opponents_last_ply_leads_to_the_bootstrap_of_ones_own_seat() -> None:
    # 0.99²·0.6 - 0.2 = 0.38806
    rollout = one_lane([(0, -1, 0.2), (0, -1, 0)], bootstrap=0.6, waits=[1])
    assert of_lane(rollout) == pytest.approx([0.38806, 0], abs=1e-6)


def test_frozen_opponents_ply_that_is_cut_off_is_folded_with_both_signs() -> None:
    # The frozen ply is worth 0.99·(-1)·0.5 = -0.495 to it, 0.99·0.495 = 0.49005 before it.
    rollout = one_lane([(0, -1, 0.2), (0, -1, 0)], bootstrap=77, waits=[1], cut_off={1: 0.5})
    assert of_lane(rollout) == pytest.approx([0.29005, 0], abs=1e-6)


def test_several_rows_without_decision_are_folded_one_into_the_other() -> None:
    # 0.5 + 0.99·(-1)·(0.25 + 0.99·(0 + 0.99·(-1)·2)) = 0.5 - 0.99·(0.25 - 1.9602) = 2.193098
    rollout = one_lane([(0.5, -1, 0), (0.25, 1, 9), (0, -1, 9), (2, 0, 9)], bootstrap=0, waits=[1, 2, 3])
    assert of_lane(rollout) == pytest.approx([2.193098, 0, 0, 0], abs=1e-6)


def test_scripted_opponent_inside_the_environment_leaves_the_sign() -> None:
    rollout = one_lane([(0, 1, 0), (0, 1, 0), (1, 0, 0)], bootstrap=0)
    assert of_lane(rollout) == pytest.approx([0.88454025, 0.9405, 1], abs=1e-6)
    rollout = one_lane([(0, 1, 0.5), (-1, 0, 0.1)], bootstrap=0)  # 0.99·0.1 - 0.5 = -0.401; -0.401 - 0.9405·1.1
    assert of_lane(rollout) == pytest.approx([-1.43555, -1.1], abs=1e-6)


def test_rows_before_the_first_decision_belong_to_nobody() -> None:
    rollout = one_lane([(5, -1, 9), (3, 0, 9), (0, -1, 9), (1, 0, 0.25)], bootstrap=0, waits=[0, 1, 2])
    assert of_lane(rollout) == pytest.approx([0, 0, 0, 0.75], abs=1e-6)


def test_lane_without_any_decision_has_no_advantages() -> None:
    assert of_lane(one_lane([(1, -1, 9), (2, 1, 9)], bootstrap=3, waits=[0, 1])) == [0, 0]


def test_distrust_of_a_decision_stops_what_comes_after_it_from_reaching_back() -> None:
    # V-trace by hand, λ = 1, γ = 1, one seat. ρ = 1, 0.5, 0: the target of row 2 is its own value, 0.3, whatever it led
    # to; of row 1: 0.2 + 0.5·(1 + 0.3 - 0.2) = 0.75, its advantage 1.1; of row 0: 0.1 + 1·(0 + 0.75 - 0.1) = 0.75.
    rollout = one_lane([(0, 1, 0.1), (1, 1, 0.2), (5, 0, 0.3)], bootstrap=0)
    trust = np.array([1, 0.5, 0], np.float32).reshape(1, 3, 1)
    found = advantages(rollout, 1.0, 1.0, trust)
    assert found.ravel().tolist() == pytest.approx([0.65, 1.1, 4.7], abs=1e-6)
    assert (rollout.value + trust * found).ravel().tolist() == pytest.approx([0.75, 0.75, 0.3], abs=1e-6)


# --- against a recursion over one lane at a time, in double precision


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 12),
    blocks=st.integers(1, 3),
    lanes=st.integers(1, 4),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    lam=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
)
def test_random_games_agree_with_the_recursion(
    seed: int, steps: int, blocks: int, lanes: int, gamma: float, lam: float
) -> None:
    rollout = blank(group_of((1,), 1, "mask", lanes), blocks, steps)
    fill_with_games(rollout, np.random.default_rng(seed))
    trust = np.random.default_rng(seed).random(rollout.reward.shape, np.float32)
    trust[~rollout.acted] = 1
    for trusted in (believed(rollout), trust):
        found = advantages(rollout, gamma, lam, trusted)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, slow_advantages(rollout, gamma, lam, trusted), rtol=1e-4, atol=1e-4)


def test_rollout_itself_stays_as_it_is() -> None:
    rollout = blank(group_of((1,), 1, "mask", 3), 2, 8)
    fill_with_games(rollout, np.random.default_rng(5))
    before = {name: getattr(rollout, name).copy() for name in ARRAYS}
    advantages(rollout, GAMMA, LAM, believed(rollout))
    assert all(np.array_equal(getattr(rollout, name), before[name]) for name in ARRAYS)


def test_what_stands_in_rows_without_decision_as_value_does_not_matter() -> None:
    rollout = blank(group_of((1,), 1, "mask", 4), 2, 9)
    fill_with_games(rollout, np.random.default_rng(6))
    rollout.acted[:, ::3] = False
    before = advantages(rollout, GAMMA, LAM, believed(rollout))
    rollout.value[~rollout.acted] = np.nan
    assert np.array_equal(advantages(rollout, GAMMA, LAM, believed(rollout)), before)
