"""Acting on a device: planes, lists and masks made there are those of the CPU, and so is what is chosen."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from keisei.device import choosing
from keisei.device.lists import NARROW, pad, width_for
from keisei.device.place import Place, available, missing
from keisei.device.planes import numbers
from keisei.environment import Float32, UInt8
from keisei.opponents import RandomOpponent
from keisei.policy import ListedChoices, Policy, choices_of_lists, choices_of_mask, legal_choices
from keisei.shogi.actions import MOST_LEGAL, expand
from shogi_table import ACTIONS, Table
from small_device import PLACES, device_policy, needs_gpu
from small_shogi import KINDS, MATE_IN_ONE, MOST_MOVES, play_on, positions, small_game, small_network, small_policy


def table(copies: int = 6, **options: object) -> Table:
    return Table(copies, **{"observation": "packed", "random_plies": 40, "seed": 4, **options})


def listed(of: Table) -> ListedChoices:
    found = legal_choices(of.environment.groups[0], of.observation[0].legal)
    assert isinstance(found, ListedChoices)
    return found


def packed(of: Table) -> UInt8:
    return of.values.astype(np.uint8)


# --- planes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("move_limit", [1, 200, 512, 65535])
def test_planes_made_on_the_device_are_those_of_the_cpu(place: Place, move_limit: int) -> None:
    game = small_game(move_limit=move_limit)
    make = device_policy(game=game, place=place).make_input
    seen = positions(300)
    late = seen.copy()
    late[:, 97], late[:, 98] = np.arange(300) % 256, np.arange(300) // 3  # plies beyond what games reach
    late[:, 96] = np.arange(300) % 5
    for each in (seen, late):
        made = make(torch.from_numpy(each).to(place.device))
        assert made.dtype == torch.float32
        assert made.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(made.cpu().numpy(), expand(each, move_limit, np.float32))


def test_planes_of_whole_random_games_are_those_of_the_cpu() -> None:
    of = table(32, random_plies=0, move_limit=512)
    make, opponent = device_policy().make_input, RandomOpponent(3)
    for _ in range(150):
        play_on(of, opponent)
        assert np.array_equal(make(torch.from_numpy(packed(of))).numpy(), expand(packed(of), 512, np.float32))


def test_observations_that_are_numbers_stay_so() -> None:
    seen = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert torch.equal(numbers(torch.from_numpy(seen)), torch.arange(12.0).view(3, 4))


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("openings", [("startpos",), (MOST_MOVES,), (MATE_IN_ONE, MOST_MOVES, "startpos")])
def test_lists_padded_on_the_device_are_whole(place: Place, openings: tuple[str, ...]) -> None:
    of = table(9, openings=openings, random_plies=0)
    legal = listed(of)
    width = width_for(int(np.diff(legal.offsets).max()), MOST_LEGAL)
    parts = legal.listed.view(np.int16), legal.offsets[:-1].copy(), np.diff(legal.offsets)
    flat, starts, lengths = (torch.from_numpy(array).to(place.device) for array in parts)
    actions, mask = pad(flat, starts, lengths, width)
    assert mask.sum(1).tolist() == np.diff(legal.offsets).tolist()
    for lane in range(9):
        assert sorted(actions[lane][mask[lane]].tolist()) == of.legal(lane)
    if MOST_MOVES in openings:
        assert int(mask.sum(1).max()) == 593


def test_width_fits_every_list_and_is_seldom_the_wide_one() -> None:
    assert [width_for(longest, MOST_LEGAL) for longest in (0, 1, 160, 161, 593)] == [160, 160, 160, 593, 593]
    assert width_for(7, 9) == 9
    assert NARROW < MOST_LEGAL


def test_lane_without_legal_actions_has_one_that_counts_for_nothing() -> None:
    actions, mask = pad(
        torch.tensor([7, 8], dtype=torch.int16), torch.tensor([0, 2, 2]), torch.tensor([2, 0, 0], dtype=torch.int32), 4
    )
    assert mask.tolist() == [[True, True, False, False], [True, False, False, False], [True, False, False, False]]
    assert actions[:, 0].tolist() == [7, 0, 0]


def test_action_numbers_beyond_15_bits_stay_what_they_are() -> None:
    flat = torch.from_numpy(np.array([40_000, 65_535], np.uint16).view(np.int16))
    actions, _ = pad(flat, torch.tensor([0]), torch.tensor([2]), 2)
    assert actions.tolist() == [[40_000, 65_535]]


# --- listed choices --------------------------------------------------------------------------------------------------


def test_listed_choices_of_some_lanes_are_those_lanes() -> None:
    of = table(8, openings=("startpos", MOST_MOVES, MATE_IN_ONE), random_plies=0)
    lanes = np.array([1, 4, 5, 7])
    some = listed(of).of(lanes)
    assert some.actions is not None
    for row, lane in enumerate(lanes):
        assert sorted(some.actions[row][some.mask[row]].tolist()) == of.legal(lane)
    again = some.of(np.array([3, 0]))
    assert again.mask.sum(1).tolist() == some.mask.sum(1)[[3, 0]].tolist()


def test_no_lists_at_all_are_choices_that_count_for_nothing() -> None:
    legal = choices_of_lists(np.zeros(0, np.uint16), np.zeros(3, np.int32))
    assert legal.mask.tolist() == [[True]] * 3


# --- decisions -------------------------------------------------------------------------------------------------------


def uniform(count: int, seed: int = 0) -> Float32:
    return (np.random.default_rng(seed).integers(0, 2**23, count) * 2.0**-23).astype(np.float32)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("openings", [("startpos",), ("startpos", MOST_MOVES)])
def test_decisions_are_those_of_the_plain_policy(place: Place, kind: str, openings: tuple[str, ...]) -> None:
    of = table(24, openings=openings, random_plies=0 if len(openings) > 1 else 40)
    plain, there = small_policy(kind), device_policy(kind, place=place, rows=24)
    tolerance = 1e-5 if place.name == "cpu" else 1e-2
    for step in range(6):
        noise, legal = uniform(24, step), listed(of)
        expected, found = plain.act(of.values, legal, noise), there.act(of.values, legal, noise)
        same = expected.action == found.action
        assert same.mean() > (0.99 if place.name == "cpu" else 0.9)
        np.testing.assert_allclose(found.log_probability[same], expected.log_probability[same], atol=tolerance)
        np.testing.assert_allclose(found.value, expected.value, atol=tolerance)
        np.testing.assert_allclose(there.values(of.values), expected.value, atol=tolerance)
        assert (there.act_greedily(of.values, legal).action == plain.act_greedily(of.values, legal).action).mean() > 0.9
        of.play(expected.action.tolist())


@pytest.mark.parametrize("place", PLACES)
def test_position_with_593_moves_is_sampled_from_all_of_them(place: Place) -> None:
    of = Table(64, observation="packed", openings=[MOST_MOVES])
    there, chosen = device_policy(place=place, rows=64), set()
    for seed in range(80):
        chosen |= set(there.act(of.values, listed(of), uniform(64, seed)).action.tolist())
    assert chosen <= set(of.legal(0))
    assert len(chosen) > 300
    assert max(np.searchsorted(of.legal(0), sorted(chosen))) > 580


@pytest.mark.parametrize("count", [1, 5, 8, 9, 16, 40])
def test_any_number_of_lanes_is_answered_row_by_row(count: int) -> None:
    of = table(count)
    whole = device_policy(rows=16).act(of.values, listed(of), uniform(count))
    plain = small_policy().act(of.values, listed(of), uniform(count))
    assert (whole.action == plain.action).all()
    np.testing.assert_allclose(whole.log_probability, plain.log_probability, atol=1e-5)


@pytest.mark.parametrize("form", ["mask", "bits"])
def test_other_forms_of_legal_actions_are_decided_alike(form: str) -> None:
    of, lists = table(12, legal=form), table(12)
    legal = legal_choices(of.environment.groups[0], of.observation[0].legal)
    found = device_policy(rows=12).act(of.values, legal, uniform(12))
    plain = Policy(small_network(), small_game().encoder())
    expected = plain.act(lists.values, legal, uniform(12))
    assert (found.action == expected.action).all()
    assert all(found.action[lane] in of.legal(lane) for lane in range(12))
    assert legal.mask.shape[1] == ACTIONS


def test_sample_never_takes_what_is_masked_or_impossible() -> None:
    mask = torch.tensor([[True, False, True, True]] * 4)
    said = choosing.log_probabilities(torch.tensor([[0.0, 50.0, -1e30, 0.0]] * 4, dtype=torch.bfloat16), mask)
    chosen = choosing.sample(said, mask, torch.tensor([0.0, 0.49, 0.51, 1 - 2**-23]))
    assert chosen.tolist() == [0, 0, 3, 3]
    assert said.dtype == torch.float32
    assert float(choosing.entropy(said, mask)[0]) == pytest.approx(np.log(2), abs=1e-6)


def test_threads_that_ask_at_once_are_answered_as_if_alone() -> None:
    there, tables = device_policy(rows=8), [table(8, first_lane=8 * number) for number in range(4)]
    expected = [device_policy(rows=8).act(of.values, listed(of), uniform(8)).action.tolist() for of in tables]
    found: dict[int, list[list[int]]] = {number: [] for number in range(4)}

    def ask(number: int) -> None:
        of = tables[number]
        for _ in range(20):
            found[number].append(there.act(of.values, listed(of), uniform(8)).action.tolist())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(actions == expected[number] for number, all_of in found.items() for actions in all_of)
    assert there.engine.counts.moves == 4 * 20 * 8
    per_move = there.engine.counts.bytes_up / there.engine.counts.moves
    assert 99 + 2 * 5 < per_move < 600, "packed positions and lists, nothing else"
    assert there.engine.counts.bytes_down / there.engine.counts.moves == 16


def test_body_may_round_to_bf16_while_heads_do_not() -> None:
    of = table(16)
    place = Place("cpu", bf16=True)
    found = device_policy(place=place, rows=16).act(of.values, listed(of), uniform(16))
    exact = device_policy(rows=16).act(of.values, listed(of), uniform(16))
    assert np.abs(found.value - exact.value).max() < 0.1
    assert not np.array_equal(found.value, exact.value)
    assert found.log_probability.dtype == np.float32


@pytest.mark.slow
def test_compiled_steps_agree_with_plain_ones() -> None:
    of = table(16)
    place = Place("cpu", compiled=True)
    there = device_policy(place=place, rows=16)
    found = there.act(of.values, listed(of), uniform(16))
    exact = device_policy(rows=16).act(of.values, listed(of), uniform(16))
    assert (found.action == exact.action).all()
    np.testing.assert_allclose(found.log_probability, exact.log_probability, atol=1e-4)
    np.testing.assert_allclose(found.value, exact.value, atol=1e-4)
    assert there.engine.counts.compile_seconds > 0


# --- which device ----------------------------------------------------------------------------------------------------


def test_automatic_device_is_a_gpu_where_there_is_one() -> None:
    assert available("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert missing("cpu") == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_gpu_that_is_not_there_is_missed() -> None:
    assert "no GPU" in missing("cuda")


@needs_gpu
def test_gpu_beyond_the_last_one_is_missed() -> None:
    assert "GPUs" in missing(f"cuda:{torch.cuda.device_count()}")


@needs_gpu
def test_deterministic_gpu_gives_the_same_bits_twice() -> None:
    of = table(64)
    place = Place("cuda", deterministic=True)
    place.set_up()
    try:
        one, two = (device_policy(place=place, rows=64).act(of.values, listed(of), uniform(64)) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert one.log_probability.tobytes() == two.log_probability.tobytes()


def test_masks_that_have_no_lists_are_read_as_they_are() -> None:
    legal = choices_of_mask(np.array([[True, False, True], [False, True, False]]))
    assert legal.actions is None


def test_policies_that_share_an_engine_have_weights_of_their_own() -> None:
    of = table(16)
    one = device_policy(rows=16)
    other = one.twin()
    other.network.load_state_dict(small_policy(seed=5).network.state_dict())
    for policy, seed in ((one, 0), (other, 5), (one, 0)):
        expected = small_policy(seed=seed).act(of.values, listed(of), uniform(16))
        found = policy.act(of.values, listed(of), uniform(16))
        np.testing.assert_allclose(found.value, expected.value, atol=1e-5)
        assert (found.action == expected.action).all()
    assert one.engine is other.engine


@pytest.mark.parametrize(("count", "expected"), [(1, 2), (2, 2), (3, 10), (10, 10), (11, 16), (16, 16), (17, 18)])
def test_few_shapes_are_computed(count: int, expected: int) -> None:
    assert device_policy(rows=16).engine.size_for(count) == expected
