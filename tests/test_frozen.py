"""Frozen opponents: who plays along is drawn by seed, block and iteration, and by nothing else."""

from __future__ import annotations

import numpy as np

from keisei.collect.frozen import FrozenPool
from keisei.policy import Actor
from plain_network import stubborn_policy

POLICIES = [stubborn_policy(3, 1) for _ in range(4)]


def who(pool: FrozenPool, block: int, iteration: int) -> Actor | None:
    frozen = pool(block, iteration)
    assert len(frozen) <= 1
    return frozen[0].policy if frozen else None


def drawn(pool: FrozenPool, blocks: int, iterations: int) -> list[Actor | None]:
    """Who plays along, block by block in each iteration."""
    return [who(pool, block, iteration) for iteration in range(iterations) for block in range(blocks)]


def test_nobody_plays_along_where_there_is_no_past_or_no_share() -> None:
    assert drawn(FrozenPool([], 1.0, 0, 4), 20, 10) == [None] * 200
    assert drawn(FrozenPool(POLICIES, 0.0, 0, 4), 20, 10) == [None] * 200


def test_somebody_plays_along_everywhere_where_the_share_is_all() -> None:
    assert None not in drawn(FrozenPool(POLICIES, 1.0, 0, 4), 50, 40)


def test_share_of_blocks_has_an_opponent_and_each_past_policy_its_turn() -> None:
    draws = drawn(FrozenPool(POLICIES, 0.3, 5, 4), 100, 100)
    counts = [sum(policy is each for policy in draws) for each in (*POLICIES, None)]
    expected = np.array([750] * 4 + [7000])
    assert ((np.array(counts) - expected) ** 2 / expected).sum() < 18.5  # 4 degrees of freedom, p = 0.001


def test_draw_belongs_to_seed_block_and_iteration() -> None:
    pool = FrozenPool(POLICIES, 0.5, 5, 4)
    draws = drawn(pool, 30, 20)
    assert drawn(pool, 30, 20) == draws  # not to what was drawn before
    assert drawn(FrozenPool(POLICIES, 0.5, 5, 16), 30, 20) == draws  # nor to the size of blocks
    assert [who(pool, block, 7) for block in range(29, -1, -1)] == draws[7 * 30 : 8 * 30][::-1]
    assert drawn(FrozenPool(POLICIES, 0.5, 6, 4), 30, 20) != draws
    by_iteration = [tuple(map(id, draws[start : start + 30])) for start in range(0, 600, 30)]
    assert len(set(by_iteration)) == 20
    by_block = [tuple(map(id, draws[block::30])) for block in range(30)]
    assert len(set(by_block)) == 30


def test_seats_alternate_by_lane() -> None:
    (frozen,) = FrozenPool(POLICIES, 1.0, 0, 5)(3, 9)
    assert frozen.seat.tolist() == [0, 1, 0, 1, 0]
    assert frozen.seat.dtype == np.int8
