"""Serial collection: the bits of a rollout depend on states, weights, seed and iteration, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
import torch

from keisei import build
from keisei.build import Game
from keisei.collect.blocks import BlockRules, nobody
from keisei.collect.collector import Weights
from keisei.collect.frozen import FrozenPool
from keisei.collect.loop import Frozen, action_noise, play
from keisei.collect.serial import SerialCollector
from keisei.environment import UInt8
from keisei.errors import StateError
from keisei.networks import Network
from keisei.rollout import ARRAYS, Rollout, RolloutLayout
from keisei.threads import torch_threads
from plain_network import stubborn_policy
from small_shogi import KINDS, shake, small_collector, small_game, small_network, small_policy
from tictactoe import TicTacToe

LANES, BLOCKS, STEPS, SEED = 4, 3, 6, 7


def game() -> Game:
    """Games that start from random openings, end often, and go on over several rollouts."""
    return small_game(block_size=LANES, random_plies=5, move_limit=9)


def collector(
    kind: str = "convolutional",
    *,
    seed: int = SEED,
    weights: int = 0,
    order: Callable[[int], Iterable[int]] = range,
    frozen: bool = False,
) -> SerialCollector:
    return small_collector(
        game(),
        small_policy(kind, weights, game=game()),
        blocks=BLOCKS,
        steps=STEPS,
        seed=seed,
        order=order,
        choose_frozen=pool() if frozen else nobody,
    )


def pool() -> FrozenPool:
    """Two past policies for about half of the blocks."""
    return FrozenPool([small_policy("mlp", seed, game=game()) for seed in (1, 2)], 0.5, SEED, LANES)


def bits(rollout: Rollout) -> list[dict[str, bytes]]:
    """All that was written, block by block."""
    found = []
    for n in range(len(rollout.reward)):
        arrays = {name: getattr(rollout, name)[n] for name in ARRAYS}
        arrays["legal_actions"] = rollout.legal_actions[n, : rollout.legal_offsets[n, -1, -1]]
        found.append({name: array.tobytes() for name, array in arrays.items()})
    return found


def collected(collecting: SerialCollector, iterations: Iterable[int] = range(3)) -> list[list[dict[str, bytes]]]:
    return [bits(collecting.collect(iteration)) for iteration in iterations]


# --- what the bits depend on


@pytest.mark.parametrize("kind", list(KINDS))
def test_same_seed_collects_the_same_bits(kind: str) -> None:
    assert collected(collector(kind)) == collected(collector(kind))


def test_other_seed_collects_something_else_in_every_block() -> None:
    one, other = (collector(seed=seed).collect(0) for seed in (SEED, SEED + 1))
    assert one.observation[:, 0].tobytes() == other.observation[:, 0].tobytes()  # the games' own seed is the game's
    assert all(one.choice[n].tobytes() != other.choice[n].tobytes() for n in range(BLOCKS))


def test_blocks_iterations_and_lanes_are_not_alike() -> None:
    rollouts = collected(collector())
    assert len({block["choice"] for rollout in rollouts for block in rollout}) == 3 * BLOCKS
    first = collector().collect(0)
    assert len({first.observation[n, :, b].tobytes() for n in range(BLOCKS) for b in range(LANES)}) == BLOCKS * LANES


def test_blocks_are_the_lanes_of_one_run_one_behind_the_other() -> None:
    one_block = small_game(block_size=BLOCKS * LANES, random_plies=5, move_limit=9)
    whole = small_collector(one_block, small_policy(game=one_block), blocks=1, steps=STEPS).collect(0)
    parts = collector().collect(0)
    assert parts.observation[:, 0].tobytes() == whole.observation[:, 0].tobytes()
    np.testing.assert_allclose(parts.value[:, 0].ravel(), whole.value[0, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0], [0, 2, 1]])
def test_order_in_which_blocks_are_played_changes_no_bit(order: list[int], frozen: bool) -> None:
    assert collected(collector(order=lambda blocks: order, frozen=frozen)) == collected(collector(frozen=frozen))


def test_order_may_change_from_call_to_call() -> None:
    orders = iter([[2, 1, 0], [1, 0, 2], [0, 1, 2]])
    assert collected(collector(order=lambda blocks: next(orders))) == collected(collector())


@pytest.mark.parametrize("frozen", [False, True])
def test_block_played_alone_has_the_same_bits(frozen: bool) -> None:
    """Another split of the same work: each block by somebody who knows its state, the weights, seed and iteration."""
    whole = collector(frozen=frozen)
    whole.collect(0)
    states, together = whole.state(), bits(whole.collect(1))
    for block in range(BLOCKS):
        choose = pool() if frozen else nobody
        alone = played_alone(block, states["states"][block].numpy(), 1, choose(block, 1))
        assert bits(alone) == [together[block]]


def played_alone(block: int, state: UInt8, iteration: int, frozen: Sequence[Frozen]) -> Rollout:
    environment = game().build_environment(block * LANES)
    environment.load_state(state)
    layout = RolloutLayout(environment.groups[0], STEPS)
    rollout = layout.rollout(layout.allocate(1))
    lanes = np.arange(block * LANES, (block + 1) * LANES)
    with torch_threads(1):
        play(environment, small_policy(game=game()), frozen, rollout, action_noise(SEED, lanes, iteration, STEPS))
    return rollout


@pytest.mark.parametrize("frozen", [False, True])
def test_collection_goes_on_from_saved_states(frozen: bool) -> None:
    through = collector(frozen=frozen)
    collected(through)
    saved = through.state()
    expected = collected(through, (3, 4))
    fresh = collector(frozen=frozen)
    collected(fresh, (9,))  # whatever it did before
    fresh.load_state(saved)
    assert collected(fresh, (3, 4)) == expected
    through.load_state(saved)  # played once more, as after the death of whoever played
    assert collected(through, (3, 4)) == expected


def test_saved_states_are_of_each_game_and_saving_changes_nothing() -> None:
    one, other = collector(), collector()
    states = one.state()["states"]
    assert states.shape == (BLOCKS, LANES, game().build_environment(0).state_bytes)
    assert states.dtype == torch.uint8
    assert torch.equal(one.state()["states"], states)
    assert collected(one) == collected(other)
    assert torch.equal(one.state()["states"], other.state()["states"])
    assert not torch.equal(one.state()["states"], states)


@pytest.mark.parametrize("blocks", [BLOCKS - 1, BLOCKS + 1])
def test_states_of_another_number_of_blocks_are_refused(blocks: int) -> None:
    other = small_collector(game(), small_policy(game=game()), blocks=blocks, steps=STEPS)
    with pytest.raises((StateError, ValueError)):
        collector().load_state(other.state())


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_of_torch_change_no_bit_and_stay_as_many(threads: int) -> None:
    with torch_threads(threads):
        found = collected(collector("residual"))
        assert torch.get_num_threads() == threads
    assert found == collected(collector("residual"))


def test_rollout_begins_where_the_last_one_ended() -> None:
    collecting = collector()
    first = collecting.collect(0)
    last_seen, last_seats = first.observation[:, -1].copy(), first.seat[:, -1].copy()
    second = collecting.collect(1)
    assert second.observation[:, 0].tobytes() == last_seen.tobytes()
    assert second.seat[:, 0].tobytes() == last_seats.tobytes()


def test_rollout_holds_all_blocks_and_lanes_over_all_steps() -> None:
    rollout = collector().collect(0)
    assert rollout.reward.shape == (BLOCKS, STEPS, LANES)
    assert rollout.steps == BLOCKS * STEPS * LANES
    assert rollout.acted.all()


# --- published weights


def learnt(seed: int = 5) -> Network:
    return small_network("residual", seed)


def test_collector_acts_with_published_weights_only() -> None:
    network = learnt()
    collecting = collector("residual", weights=0)
    before = collected(collecting, (0,))
    assert before == collected(collector("residual", weights=0), (0,))

    collecting.publish(network.state_dict(), 4)
    saved = collecting.state()
    published = collected(collecting, (1,))
    assert published == collected_with(learnt(), saved)
    assert published != collected_with(small_network("residual", 0), saved)

    shake(network, 9)  # learning goes on; nobody has published it
    collecting.load_state(saved)
    assert collected(collecting, (1,)) == published
    collecting.publish(network.state_dict(), 5)
    collecting.load_state(saved)
    assert collected(collecting, (1,)) == collected_with(network, saved) != published


def collected_with(network: Network, saved: Weights) -> list[list[dict[str, bytes]]]:
    """What iteration 1 collects from these states with these weights from the start."""
    policy = build.policy_of(network, game())
    collecting = small_collector(game(), policy, blocks=BLOCKS, steps=STEPS, seed=SEED)
    collecting.load_state(saved)
    return collected(collecting, (1,))


def test_publishing_leaves_the_learners_network_to_the_learner() -> None:
    network = learnt()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    collecting = collector("residual")
    collecting.publish(network.state_dict(), 1)
    collecting.collect(0)
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


# --- frozen opponents


def test_frozen_opponents_play_in_the_blocks_that_were_drawn_for_them() -> None:
    collecting, choose = collector(frozen=True), pool()
    with_opponent = []
    for iteration in range(8):
        rollout = collecting.collect(iteration)
        for block in range(BLOCKS):
            frozen = choose(block, iteration)
            mine = np.ones((STEPS, LANES), np.bool_)
            for opponent in frozen:
                mine &= rollout.seat[block, :-1] != opponent.seat
            assert (rollout.acted[block] == mine).all()
            with_opponent.append(len(frozen) == 1)
    assert 0 < sum(with_opponent) < len(with_opponent)


# --- environments that cannot save their states


class Forgetful(TicTacToe):
    """Games without saved states."""

    def __init__(self, first_lane: int) -> None:
        super().__init__(LANES, random_plies=2, first_lane=first_lane)
        self.state_bytes = 0

    def save_state(self, out: UInt8) -> None:
        raise StateError("this game cannot save a state")

    def load_state(self, saved: UInt8) -> None:
        raise StateError("this game cannot load a state")


def test_environments_without_states_are_collected_and_go_on_as_they_are() -> None:
    def fresh() -> SerialCollector:
        rules = BlockRules(Forgetful, lambda: stubborn_policy(9, 1), lambda past: nobody, 5, SEED)
        return SerialCollector(rules, blocks=2)

    one, other = fresh(), fresh()
    states = one.state()
    assert states["states"].shape == (2, LANES, 0)
    for collecting in (one, other):
        collecting.collect(0)
    one.load_state(states)
    assert bits(one.collect(1)) == bits(other.collect(1))


# --- the end


def test_collector_may_be_closed_twice_and_closes_its_environments() -> None:
    closed: list[int] = []

    def build(first_lane: int) -> object:
        environment = game().build_environment(first_lane)
        environment.close = lambda: closed.append(first_lane)  # type: ignore[method-assign]
        return environment

    rules = BlockRules(build, lambda: small_policy(game=game()), lambda past: nobody, 2, 0)  # type: ignore[arg-type]
    collecting = SerialCollector(rules, blocks=2)
    collecting.collect(0)
    collecting.close()
    assert set(closed) == {0, LANES}
    collecting.close()
