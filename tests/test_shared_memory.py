"""Slabs: what is torn, garbled, late or of somebody else is never taken for a rollout."""

from __future__ import annotations

import os
import random
import signal
import socket
import time

import numpy as np
import pytest
import torch

from keisei.parallel import shared_memory
from keisei.parallel.communication import resident_bytes
from keisei.parallel.line import Line, WorkerLine
from keisei.parallel.model_sync import ModelSynchronizer
from keisei.parallel.shared_memory import SharedMemory, Slab, SlabLayout
from keisei.parallel.slabs import Slabs
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


@pytest.mark.parametrize("kills", [200, pytest.param(1000, marks=pytest.mark.faults)])
def test_kill_in_the_middle_of_a_write_never_leaves_a_torn_record_that_is_accepted(kills: int) -> None:
    assert torn_records(kills)[1] == 0


def test_without_checksum_torn_records_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "checksum", lambda *pieces: 1)
    assert any(torn_records(50)[1] for _ in range(20))


# --- late writes -----------------------------------------------------------------------------------------------------


def write_late(slab: Slab) -> None:
    """A process is stopped in the middle of a slab; when another one has written all of it, the first one goes on."""
    late, other = os.fork(), 0
    if late == 0:
        _write_as(slab, 1, stopping=True)
    os.waitid(os.P_PID, late, os.WSTOPPED)
    other = os.fork()
    if other == 0:
        _write_as(slab, 2, stopping=False)
    os.waitpid(other, 0)
    assert slab.complaint(2, 1, 1) == ""
    os.kill(late, signal.SIGCONT)
    os.waitpid(late, 0)


def _write_as(slab: Slab, incarnation: int, *, stopping: bool) -> None:
    try:
        half = len(slab.arrays) // 2
        slab.arrays[:half] = incarnation
        if stopping:
            os.kill(os.getpid(), signal.SIGSTOP)
        slab.arrays[half:] = incarnation
        slab.seal(incarnation, 1, 1)
    finally:
        os._exit(0)


def test_late_write_of_an_old_incarnation_is_refused() -> None:
    slab = slab_in(SharedMemory(LAYOUT.bytes))
    write_late(slab)
    assert slab.complaint(2, 1, 1) == "incarnation 1 instead of 2"


def test_whose_incarnation_nobody_looks_at_is_believed_although_it_is_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Slab.complaint
    monkeypatch.setattr(
        Slab, "complaint", lambda slab, incarnation, *rest: original(slab, slab.stamp().incarnation, *rest)
    )
    slab = slab_in(SharedMemory(LAYOUT.bytes))
    write_late(slab)
    assert slab.complaint(2, 1, 1) == ""
    assert set(np.unique(slab.arrays).tolist()) == {1, 2}


@pytest.mark.parametrize("cycles", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_transport_leaks_no_descriptor_and_no_memory(cycles: int) -> None:
    """Slabs for four blocks, a line, and weights: made, used and closed."""
    weights = {"w": torch.zeros(1 << 16)}

    def cycle() -> None:
        slabs = Slabs(LAYOUT, blocks=4, buffers=2, shared=True)
        slabs.of_buffer[1][3].seal(1, 1, 1)
        sync = ModelSynchronizer(weights, 2)
        sync.publish(weights, 1)
        ours, theirs = socket.socketpair()
        with theirs:
            line = Line(ours, 1 << 20)
            line.send(b"x" * 1000)
            assert WorkerLine(theirs).receive() == b"x" * 1000
        for one in (slabs, sync, line):
            one.close()
            one.close()

    for _ in range(10):
        cycle()
    descriptors, memory = len(os.listdir("/proc/self/fd")), resident_bytes(os.getpid())
    for _ in range(cycles):
        cycle()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert resident_bytes(os.getpid()) - memory < 4 << 20


def test_what_is_never_closed_is_a_leak_that_is_seen() -> None:
    before = len(os.listdir("/proc/self/fd"))
    memory = SharedMemory(1 << 16)
    assert len(os.listdir("/proc/self/fd")) > before
    memory.close()
