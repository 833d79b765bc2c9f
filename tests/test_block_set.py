"""Sets of blocks: played together as one environment they live what their copies would live in one block."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from keisei.collect.block_set import BlockSet, set_rules
from keisei.collect.blocks import BlockRules, nobody
from keisei.collect.frozen import ChooseFrozen
from keisei.collect.loop import ABSENT, Frozen
from keisei.collect.serial import SerialCollector
from keisei.environment import Environment, LegalForm
from keisei.policy import Policy
from plain_network import stubborn_policy
from played import played, written
from small_shogi import small_game, small_policy
from tictactoe import TicTacToe

BLOCKS, SIZE = 3, 4
LOW, HIGH = stubborn_policy(9, -1), stubborn_policy(9, 1)


def block(first_lane: int, legal: LegalForm = "list") -> Environment:
    return TicTacToe(SIZE, 7, legal=legal, random_plies=2, move_limit=7, first_lane=first_lane)


def one(legal: LegalForm) -> Environment:
    return TicTacToe(BLOCKS * SIZE, 7, legal=legal, random_plies=2, move_limit=7)


@pytest.mark.parametrize("legal", ["list", "mask", "bits"])
def test_set_of_blocks_lives_what_one_large_block_lives(legal: LegalForm) -> None:
    together = BlockSet(partial(block, legal=legal), BLOCKS, 0)
    expected = played(one(legal), stubborn_policy(9, 1), steps=30)
    assert expected.cut_off.any()
    assert written(played(together, stubborn_policy(9, 1), steps=30)) == written(expected)
    assert written(played(together, stubborn_policy(9, 1), steps=30)) == written(expected)  # from the saved states


def test_set_of_shogi_blocks_lives_what_one_large_block_lives() -> None:
    build = small_game(block_size=2, random_plies=6, move_limit=9).build_environment
    large = small_game(block_size=6, random_plies=6, move_limit=9)
    policy = small_policy(game=large)
    expected = written(played(large.build_environment(0), policy, steps=12))
    assert written(played(BlockSet(build, 3, 0), policy, steps=12)) == expected


def test_reset_of_a_set_begins_all_blocks_anew() -> None:
    together, large = BlockSet(block, BLOCKS, 0), one("list")
    first = written(played(together, HIGH, steps=5, reset=False))
    played(together, HIGH, steps=5, reset=False)
    for environment in (together, large):
        environment.reset((played(large, HIGH, steps=1).observation_at(0),))
    assert written(played(together, HIGH, steps=5, reset=False)) == first


def test_second_set_has_the_lanes_after_the_first() -> None:
    second = BlockSet(block, BLOCKS, BLOCKS * SIZE)
    lanes = TicTacToe(BLOCKS * SIZE, 7, random_plies=2, move_limit=7, first_lane=BLOCKS * SIZE)
    assert written(played(second, HIGH)) == written(played(lanes, HIGH))


def test_what_goes_wrong_in_a_block_says_in_which() -> None:
    together = BlockSet(block, BLOCKS, BLOCKS * SIZE)
    state = np.zeros((together.copies, together.state_bytes), np.uint8)
    together.save_state(state)
    state[SIZE] ^= 1
    with pytest.raises(ValueError, match="damaged") as raised:
        together.load_state(state)
    assert raised.value.__notes__ == [f"in block {BLOCKS + 1}"]


def test_blocks_are_built_when_they_are_needed_and_all_are_closed() -> None:
    built: list[TicTacToe] = []

    def build(first_lane: int) -> Environment:
        built.append(TicTacToe(SIZE, first_lane=first_lane))
        return built[-1]

    together = BlockSet(build, BLOCKS, 0)
    assert len(built) == 1
    played(together, HIGH)
    assert [environment.first_lane for environment in built] == [0, SIZE, 2 * SIZE]
    together.close()
    assert [environment.closed for environment in built] == [1, 1, 1]


# --- frozen opponents


def drawn(number: int, iteration: int) -> Sequence[Frozen]:
    """Nobody in block 0, the lowest in blocks 1 and 3, the highest in the others."""
    seat = (np.arange(SIZE) % 2).astype(np.int8)
    return () if number == 0 else (Frozen(LOW if number in (1, 3) else HIGH, seat),)


def rules(choose: ChooseFrozen, policy: Policy | None = None) -> BlockRules:
    mine = policy or stubborn_policy(9, 1, value=0.5)
    return BlockRules(block, lambda: mine, lambda past: choose, 20, 7)


def test_each_block_of_a_set_has_its_own_frozen_opponent() -> None:
    choose = set_rules(rules(drawn), 4).build_frozen(())
    low, high = choose(0, 5)
    assert (low.policy, high.policy) == (LOW, HIGH)
    assert low.seat.tolist() == [ABSENT] * 4 + [0, 1, 0, 1] + [ABSENT] * 4 + [0, 1, 0, 1]
    assert high.seat.tolist() == [ABSENT] * 8 + [0, 1, 0, 1] + [ABSENT] * 4
    assert set_rules(rules(nobody), 4).build_frozen(())(0, 0) == []


def test_frozen_opponents_of_a_set_play_as_in_its_blocks() -> None:
    """A policy that looks at one row only is not to be told apart in a batch of one block or of all."""
    apart = SerialCollector(rules(drawn), blocks=4)
    together = SerialCollector(set_rules(rules(drawn), 4), blocks=1)
    for iteration in range(3):
        one, other = apart.collect(iteration), together.collect(iteration)
        for name in ("seat", "choice", "value", "reward", "ended", "acted"):
            blocks = np.concatenate(list(getattr(one, name)), axis=1)
            assert (getattr(other, name)[0] == blocks).all(), name
        assert not other.acted.all()
