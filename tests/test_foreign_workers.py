"""Environments of others in real worker processes: a block stays with its worker, and generators belong to lanes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from foreign_games import Walk
from keisei.adapters import GymnasiumEnvironment, gymnasium_builder, pettingzoo_builder, pettingzoo_games
from keisei.collect.blocks import BlockRules
from keisei.collect.collector import BuildEnvironment, Collector
from keisei.collect.serial import SerialCollector
from keisei.environment import Environment
from keisei.errors import WorkerError
from keisei.networks import MLP, DenseNetwork, Network
from keisei.policy import Policy, encode_numbers
from workers import BLOCKS, Log, digest, managed, no_frozen, process_ids

COPIES, SEED, STEPS = 2, 5, 12
MASKS = ("dictionary", "method", "info", "dictionary")
"""Where the games of each block say what is legal: in the observation, by `action_masks()`, in the info."""


def walks(first_lane: int) -> Environment:
    build = gymnasium_builder("foreign_games:Walk", {"mask": MASKS[first_lane // COPIES]})
    return GymnasiumEnvironment(build, copies=COPIES, seed=SEED, first_lane=first_lane)


def zoo(name: str, lanes: int, first_lane: int, broken: str = "") -> Environment:
    """Games of PettingZoo, of which each has so many lanes."""
    options: dict[str, object] = {"mask": MASKS[first_lane // (COPIES * lanes)], "broken": broken}
    build = pettingzoo_builder(f"foreign_games:{name}", "auto", options)
    return pettingzoo_games(build, copies=COPIES, seed=SEED, first_lane=first_lane)


GAMES: dict[str, BuildEnvironment] = {
    "Gymnasium": walks,
    "in turns": partial(zoo, "Pile", 1),
    "all at once": partial(zoo, "Meadow", 4),
}


def network(build: BuildEnvironment, seed: int) -> Network:
    group = build(0).groups[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DenseNetwork(MLP(group.shape, [8]), 8, group.actions)


def policy(build: BuildEnvironment) -> Policy:
    return Policy(network(build, 0), encode_numbers)


def rules(build: BuildEnvironment) -> BlockRules:
    return BlockRules(build, partial(policy, build), no_frozen, STEPS, SEED)


def blocks_of(collector: Collector, build: BuildEnvironment, iterations: range) -> list[list[str]]:
    """A hash of what each block lived, in each iteration."""
    found = []
    for iteration in iterations:
        collector.publish(network(build, iteration).state_dict(), iteration)
        rollout = collector.collect(iteration)
        found.append([digest(rollout.block(block)) for block in range(BLOCKS)])
    return found


@contextmanager
def serially(build: BuildEnvironment) -> Iterator[SerialCollector]:
    collector = SerialCollector(rules(build), blocks=BLOCKS)
    yield collector
    collector.close()


def test_one_worker_lives_the_same_as_one_process() -> None:
    with serially(walks) as alone, managed(rules(walks), 1) as manager:
        assert blocks_of(manager, walks, range(3)) == blocks_of(alone, walks, range(3))


@pytest.mark.parametrize("name", GAMES)
def test_two_workers_live_the_same_until_one_is_killed_whose_games_begin_anew(name: str) -> None:
    build, log = GAMES[name], Log()
    with serially(build) as alone, serially(build) as anew, managed(rules(build), 2, log) as manager:
        expected = blocks_of(alone, build, range(2))
        assert blocks_of(manager, build, range(2)) == expected
        assert len({block for iteration in expected for block in iteration}) == 2 * BLOCKS  # each has its own chance
        os.kill(process_ids(manager)[0], signal.SIGKILL)
        (played,), (on,), (new,) = (blocks_of(one, build, range(2, 3)) for one in (manager, alone, anew))
        assert played == [new[0], on[1], new[2], on[3]]
        (played,), (on,) = (blocks_of(one, build, range(3, 4)) for one in (manager, alone))
        assert played[1::2] == on[1::2]
        assert played[0] != on[0]
    assert log.text.count("cannot save its states") == 1
    assert "where a worker dies, and on resume, its games begin anew, and the bits are others" in log.text
    assert re.search("^worker 0.*, exit by SIGKILL .* takes its place, restart 1", log.text, re.MULTILINE)


def test_what_is_wrong_comes_home_in_words() -> None:
    build = partial(zoo, "Pile", 1, broken="sum")
    message = r"rewards: expected what one seat gains to be what the other loses, .*, in copy 0 \(pile_v0\), step 1"
    with managed(rules(build), 1) as manager, pytest.raises(WorkerError, match=message) as caught:
        blocks_of(manager, build, range(1))
    assert "worker 0, block 0, ply 1 (process" in str(caught.value)


@pytest.mark.usefixtures("quick_workers")
@pytest.mark.parametrize(
    ("mask", "broken", "message"),
    [
        ("", "shape", r"observation: expected float32 \[7\], found float32 \[6\]"),
        ("", "dtype", r"observation: expected float32 \[7\], found float64 \[7\]"),
        ("", "numbers", "observation: not finite, in copy 0"),
        ("", "reward", "reward: expected a finite number, found nan"),
        ("method", "mask shape", r"action_mask: expected numbers \[2\], found int8 \[3\]"),
        ("method", "mask empty", "action_mask: no action is legal, in copy 0"),
    ],
)
def test_what_is_wrong_with_an_environment_of_others_comes_home_from_workers(
    mask: str, broken: str, message: str
) -> None:
    build = partial(broken_walks, mask, broken)
    with managed(rules(build), 1) as manager, pytest.raises(WorkerError, match=message) as caught:
        blocks_of(manager, build, range(2))
    assert "worker 0" in str(caught.value)


def broken_walks(mask: str, broken: str, first_lane: int) -> Environment:
    """Walks that break what is expected of them, in workers only."""
    broken = broken if os.getpid() != HOME else ""
    return GymnasiumEnvironment(lambda: Walk(mask, broken), copies=COPIES, seed=SEED, first_lane=first_lane)


HOME = os.getpid()
