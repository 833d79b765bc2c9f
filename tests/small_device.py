"""Small policies and learners on a device: the CPU here, by the code that a GPU runs; a GPU where there is one."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from keisei.build import Game
from keisei.build.devices import make_input
from keisei.device.place import Place
from keisei.device.policy import DevicePolicy
from keisei.policy import Policy
from small_shogi import small_game, small_network

CPU = Place("cpu")

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

PLACES = [
    pytest.param(CPU, id="cpu"),
    pytest.param(Place("cuda"), id="gpu", marks=needs_gpu),
    pytest.param(Place("cuda", compiled=True), id="gpu, compiled", marks=needs_gpu),
]


def device_policy(
    kind: str = "convolutional", seed: int = 0, *, game: Game | None = None, place: Place = CPU, rows: int = 4
) -> DevicePolicy:
    """The same network as `small_policy`, on a device."""
    of = game or small_game()
    return DevicePolicy(copy.deepcopy(small_network(kind, seed)), make_input(of, place), place, of.group, rows)


def both(build: Callable[[], Policy], place: Place, kind: str = "convolutional") -> tuple[Policy, DevicePolicy]:
    """A plain policy and the same one on a device."""
    return build(), device_policy(kind, place=place)
