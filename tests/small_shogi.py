"""Shogi in small: networks of every kind with a few channels, their policies, and collectors of a few games."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal

import numpy as np
import torch

from keisei import build
from keisei.build import Game
from keisei.collect.blocks import BlockRules, nobody
from keisei.collect.frozen import ChooseFrozen
from keisei.collect.serial import SerialCollector
from keisei.config import ParallelConfig, RunConfig, ShogiConfig, ShogiRun
from keisei.config_network import NetworkConfig
from keisei.environment import Array, LegalForm, UInt8
from keisei.networks import Network
from keisei.opponents import RandomOpponent
from keisei.policy import Policy
from shogi_table import Table

KINDS = {
    "residual": NetworkConfig(kind="residual", depth=2, width=16),
    "residual, normalised": NetworkConfig(kind="residual", depth=2, width=32, normalization="group"),
    "convolutional, dense head": NetworkConfig(kind="convolutional", depth=1, width=4, policy="dense"),
    "convolutional": NetworkConfig(kind="convolutional", depth=2, width=16),
    "mlp": NetworkConfig(kind="mlp", depth=2, width=24, policy="dense"),
}
MATE_IN_ONE = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
MOST_MOVES = "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1"


@cache
def small_game(
    *,
    block_size: int = 4,
    seed: int = 0,
    observation: Literal["packed", "uint8", "float32"] = "packed",
    legal: LegalForm = "list",
    openings: tuple[str, ...] = ("startpos",),
    move_limit: int = 512,
    random_plies: int = 0,
) -> Game:
    """A game whose blocks have so many lanes."""
    environment = ShogiConfig(
        observation=observation,
        legal=legal,
        openings=openings,
        move_limit=move_limit,
        random_plies=random_plies,
        copies=block_size,
    )
    parallel = ParallelConfig(block_size=block_size)
    return build.game(ShogiRun(run=RunConfig(seed=seed), environment=environment, parallel=parallel))


def small_network(kind: str = "convolutional", seed: int = 0, *, fresh: bool = False) -> Network:
    """A network; unless fresh, one that has learnt something: its parts all do something, its policy is uneven."""
    network = copy.deepcopy(_first_network(kind, seed))
    if not fresh:
        shake(network, seed)
    return network


@cache
def _first_network(kind: str, seed: int) -> Network:
    return build.network(KINDS[kind], small_game(), seed)


def shake(network: Network, seed: int, by: float = 0.05) -> None:
    """Move all weights a little, the heads' layers most."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            most = 4 if name.startswith(("policy", "value")) else 1
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=most * by)


def small_policy(kind: str = "convolutional", seed: int = 0, *, game: Game | None = None) -> Policy:
    """A policy that has learnt something."""
    of = game or small_game()
    return build.policy_of(small_network(kind, seed), of)


def small_collector(
    game: Game,
    policy: Policy,
    *,
    blocks: int = 3,
    steps: int = 6,
    seed: int = 7,
    choose_frozen: ChooseFrozen = nobody,
    order: Callable[[int], Iterable[int]] = range,
) -> SerialCollector:
    """A collector of so many blocks of a game."""
    rules = BlockRules(game.build_environment, lambda: policy, lambda past: choose_frozen, steps, seed)
    return SerialCollector(rules, blocks=blocks, order=order)


@cache
def positions(count: int, *, seed: int = 0) -> UInt8:
    """Packed positions `[count, 99]` from games of random moves, the first ones from late in them."""
    table = Table(16, seed=seed, observation="packed", random_plies=60, move_limit=200)
    found: list[Array] = []
    for _ in range(-(-count // 16)):
        found.append(table.values.copy())
        play_on(table, RandomOpponent(seed))
    return np.concatenate(found)[:count].astype(np.uint8)


def play_on(table: Table, opponent: RandomOpponent) -> None:
    """One ply in every lane."""
    actions = opponent(table.environment.groups[0], table.observation[0])
    table.environment.step((actions,), table.outcome, table.observation)
