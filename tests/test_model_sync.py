"""Weights on their way: what arrives is what was published, in the same order of memory, or nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from keisei.collect.collector import as_published
from keisei.environment import UInt8
from keisei.errors import WorkerError
from keisei.networks import ConvolutionalTower
from keisei.parallel import model_sync
from keisei.parallel.model_sync import ModelSynchronizer, WeightsReader, slot_of


def network(seed: int) -> nn.Module:
    """Convolutions whose channels are last, and a buffer of whole numbers."""
    torch.manual_seed(seed)
    made = nn.Sequential(ConvolutionalTower(3, 2, 8), nn.BatchNorm2d(8))
    made[1].num_batches_tracked.fill_(seed)  # type: ignore[operator]
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.clone() for name, one in weights.items()}


def same(ours: nn.Module, theirs: dict[str, Tensor]) -> bool:
    found = ours.state_dict()
    return found.keys() == theirs.keys() and all(torch.equal(found[name], theirs[name]) for name in found)


def test_what_is_published_is_what_a_reader_has() -> None:
    there = network(0)
    parameters = list(there.parameters())
    sync = ModelSynchronizer(there.state_dict(), 2)
    reader = WeightsReader(there, sync.memory)
    for version in range(1, 6):
        weights = network(version).state_dict()
        reader.apply(sync.publish(weights, version), version)
        assert same(there, weights)
    assert all(one is other for one, other in zip(parameters, there.parameters(), strict=True))
    sync.close()


def test_nothing_at_all_can_be_published() -> None:
    sync = ModelSynchronizer({}, 2)
    assert sync.publish({}, 3) != sync.publish({}, 4)
    assert sync.published() == {}
    sync.close()


def test_order_and_place_of_memory_are_those_of_a_network_of_its_own() -> None:
    there, alone = network(0), network(0)
    sync = ModelSynchronizer(there.state_dict(), 2)
    WeightsReader(there, sync.memory).apply(sync.publish(network(1).state_dict(), 1), 1)
    for ours, own in zip(there.parameters(), alone.parameters(), strict=True):
        assert ours.stride() == own.stride()
        assert ours.data_ptr() % 64 == 0
        assert ours.requires_grad == own.requires_grad
    sync.close()


def test_reader_reads_on_from_its_own_memory_when_the_slot_is_used_again() -> None:
    there, weights = network(0), network(1).state_dict()
    sync = ModelSynchronizer(there.state_dict(), 2)
    WeightsReader(there, sync.memory).apply(sync.publish(weights, 1), 1)
    sync.memory.bytes[:] = 255
    assert same(there, weights)
    sync.close()


@pytest.mark.parametrize("at", [64, 200, -1])
def test_flipped_bit_is_refused_and_changes_nothing_until_weights_are_whole_again(at: int) -> None:
    there, weights = network(0), network(2).state_dict()
    sync = ModelSynchronizer(there.state_dict(), 2)
    reader = WeightsReader(there, sync.memory)
    reader.apply(sync.publish(network(1).state_dict(), 1), 1)
    before = copied(there.state_dict())
    slot = sync.publish(weights, 2)
    sync.memory.bytes[slot * sync.layout.bytes : (slot + 1) * sync.layout.bytes][at] ^= 4
    with pytest.raises(WorkerError, match="wrong checksum"):
        reader.apply(slot, 2)
    assert same(there, before)
    reader.apply(sync.publish_again(), 2)
    assert same(there, weights)
    sync.close()


def test_another_version_or_half_of_one_is_refused() -> None:
    there = network(0)
    sync = ModelSynchronizer(there.state_dict(), 2)
    reader = WeightsReader(there, sync.memory)
    slot = sync.publish(network(1).state_dict(), 1)
    with pytest.raises(WorkerError, match="holds weights version 1 instead of 2"):
        reader.apply(slot, 2)
    with pytest.raises(WorkerError, match="holds weights version none instead of 1"):
        reader.apply(1 - slot, 1)
    sync.close()


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compressed_weights_arrive_as_they_were_rounded(compression: Literal["fp16", "bf16"]) -> None:
    there, weights = network(0), network(1).state_dict()
    rounded = as_published(weights, compression)
    sync = ModelSynchronizer(rounded, 2)
    reader = WeightsReader(there, sync.memory, compression)
    reader.apply(sync.publish(rounded, 1), 1)
    assert same(there, {name: one.to(weights[name].dtype) for name, one in rounded.items()})
    assert all(one.dtype == weights[name].dtype for name, one in there.state_dict().items())
    sync.close()


# --- a learner that is killed while it publishes ---------------------------------------------------------------------


def wrong_versions(kills: int) -> tuple[int, int]:
    """Kill publishers at random instants; how many versions a reader then applied, and how many of them were mixed."""
    there, chance = nn.Linear(300, 300), random.Random(4)
    sync = ModelSynchronizer(there.state_dict(), 2)
    applied = mixed = 0
    for _ in range(kills):
        publisher = os.fork()
        if publisher == 0:
            _publish_on_and_on(sync)
        time.sleep(chance.uniform(0.002, 0.006))
        os.kill(publisher, signal.SIGKILL)
        os.waitpid(publisher, 0)
        reader = WeightsReader(there, sync.memory)
        for slot in range(2):
            memory = slot_of(sync.memory, sync.layout, slot)
            version = int(memory[:8].view(np.uint64)[0])
            with suppress(WorkerError):
                reader.apply(slot, version)
                applied += 1
                mixed += not all(bool((one == version).all()) for one in there.state_dict().values())
    sync.close()
    return applied, mixed


def _publish_on_and_on(sync: ModelSynchronizer) -> None:
    try:
        for version in range(1, 1 << 20):
            sync.publish({name: torch.full_like(one, version) for name, one in sync.published().items()}, version)
    finally:
        os._exit(0)


def test_publisher_killed_at_any_instant_leaves_whole_versions_or_none() -> None:
    applied, mixed = wrong_versions(60)
    assert applied > 0
    assert mixed == 0


def test_without_checksum_and_seal_a_mixture_of_versions_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    class Believed(int):
        def __ne__(self, other: object) -> bool:
            return False

    def next_slot(sync: ModelSynchronizer) -> tuple[int, tuple[UInt8, ...]]:
        slot, sync._next = sync._next, 1 - sync._next
        return slot, (slot_of(sync.memory, sync.layout, slot),)

    copied = model_sync._copied
    monkeypatch.setattr(model_sync, "_copied", lambda source, target: Believed(copied(source, target)))
    monkeypatch.setattr(ModelSynchronizer, "_next_slot", next_slot)
    assert any(wrong_versions(30)[1] for _ in range(20))
