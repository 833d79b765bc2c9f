"""Slabs: what is torn, garbled, late or of somebody else is never taken for a rollout."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from keisei.parallel import shared_memory
from keisei.parallel.shared_memory import SharedMemory, Slab, SlabLayout
from keisei.rollout import RolloutLayout
from workers import environment

GROUP = environment("connect four", 0).groups[0]
LAYOUT = SlabLayout(RolloutLayout(GROUP, 64), 4, 64)


def slab_in(memory: SharedMemory) -> Slab:
    return LAYOUT.slab(memory.bytes)


def test_sealed_slab_is_whole_and_any_other_stamp_is_not() -> None:
    slab = slab_in(SharedMemory(LAYOUT.bytes))
    assert "incarnation 0 instead of 1" in slab.complaint(1, 5, 3)
    slab.seal(1, 5, 3)
    assert slab.complaint(1, 5, 3) == ""
    assert slab.complaint(2, 5, 3) == "incarnation 1 instead of 2"  # a late write by an old incarnation
    assert slab.complaint(1, 6, 3) == "iteration 5 instead of 6"
    assert slab.complaint(1, 5, 4) == "weights version 3 instead of 4"


def test_any_flipped_bit_is_seen() -> None:
    slab = slab_in(SharedMemory(LAYOUT.bytes))
    slab.seal(1, 5, 3)
    chance = random.Random(1)
    for _ in range(200):
        piece = chance.choice([slab.arrays, slab.end.reshape(-1)])
        at, bit = chance.randrange(len(piece)), 1 << chance.randrange(8)
        piece[at] ^= bit
        assert slab.complaint(1, 5, 3) == "a wrong checksum"
        piece[at] ^= bit


@pytest.mark.parametrize("length", [2**60, 2**64 - 1, 0])
def test_garbage_length_is_refused_before_anything_is_read(length: int) -> None:
    slab = slab_in(SharedMemory(LAYOUT.bytes))
    slab.seal(1, 5, 3)
    slab.header[3] = length
    assert "a length of" in slab.complaint(1, 5, 3)


def test_packed_slab_arrives_whole_and_a_cut_one_not_at_all() -> None:
    one, other = slab_in(SharedMemory(LAYOUT.bytes)), slab_in(SharedMemory(LAYOUT.bytes))
    one.arrays[:] = np.arange(len(one.arrays)) % 251
    one.seal(1, 5, 3)
    packed = one.packed()
    other.unpack(packed)
    assert other.complaint(1, 5, 3) == ""
    np.testing.assert_array_equal(one.arrays, other.arrays)
    for cut in (0, 10, len(packed) - 1):
        other.unpack(packed[:cut])
        assert other.complaint(1, 5, 3)


def torn_records(kills: int) -> tuple[int, int]:
    """Kill writers at random instants; how many records were accepted, and how many of those were torn."""
    memory = SharedMemory(LAYOUT.bytes)
    slab, chance = slab_in(memory), random.Random(2)
    accepted = torn = 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            _write_for_ever(slab)
        time.sleep(chance.uniform(0.001, 0.004))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not slab.complaint(1, 1, 1):
            accepted += 1
            torn += len(np.unique(slab.arrays)) > 1
    memory.close()
    return accepted, torn


def _write_for_ever(slab: Slab) -> None:
    try:
        for number in range(1 << 30):
            for start in range(0, len(slab.arrays), 512):
                slab.arrays[start : start + 512] = number % 256
            slab.seal(1, 1, 1)
    finally:
        os._exit(1)


@pytest.mark.parametrize("kills", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_kill_in_the_middle_of_a_write_never_leaves_a_torn_record_that_is_accepted(kills: int) -> None:
    assert torn_records(kills)[1] == 0


def test_without_checksum_torn_records_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "checksum", lambda *pieces: 1)
    assert torn_records(50)[1] > 0


@pytest.mark.parametrize("cycles", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_memory_leaks_no_descriptor(cycles: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(cycles):
        memory = SharedMemory(1 << 16)
        memory.bytes[:] = 1
        memory.close()
        memory.close()
        del memory
    assert len(os.listdir("/proc/self/fd")) == before
