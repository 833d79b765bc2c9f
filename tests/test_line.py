"""The line between a manager and a worker: whole messages or none, and a manager that never waits for the other end."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import xxhash

from keisei.parallel import line
from keisei.parallel.line import Line, LineError, WorkerLine

MOST = 1 << 20
MESSAGE = list(range(10_000))


@contextmanager
def pair(work: Callable[[socket.socket], None]) -> Iterator[tuple[socket.socket, int]]:
    """Our end of a line, and the process that does something with the other one; killed at the end."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        try:
            ours.close()
            work(theirs)
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        yield ours, process
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def send_half(end: socket.socket) -> None:
    """Half a message, and after a stop its rest."""
    frame = line._frame(MESSAGE)
    end.sendall(frame[: len(frame) // 2])
    os.kill(os.getpid(), signal.SIGSTOP)
    end.sendall(frame[len(frame) // 2 :])
    time.sleep(60)


def send_on_and_on(end: socket.socket) -> None:
    while True:
        WorkerLine(end).send(MESSAGE)


def wait_until_stopped(process: int) -> None:
    os.waitid(os.P_PID, process, os.WSTOPPED)


def test_half_a_message_is_waited_for_by_nobody() -> None:
    with pair(send_half) as (end, process):
        ours = Line(end, MOST)
        wait_until_stopped(process)
        began = time.thread_time()
        assert ours.receive() == []
        assert ours.receive() == []
        assert time.thread_time() - began < 0.1
        os.kill(process, signal.SIGCONT)
        came: list[object] = []
        while not came:
            came = ours.receive()
        assert came == [MESSAGE]


def test_end_that_waits_would_wait_for_a_stopped_process() -> None:
    with pair(send_half) as (end, process):
        wait_until_stopped(process)
        came: list[object] = []
        thread = threading.Thread(target=lambda: came.append(WorkerLine(end).receive()))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        os.kill(process, signal.SIGCONT)
        thread.join(20)
        assert came == [MESSAGE]


def test_nothing_is_waited_for_that_nobody_takes() -> None:
    with pair(lambda end: time.sleep(60)) as (end, _):
        ours = Line(end, MOST)
        for _ in range(100):
            ours.send(MESSAGE)
        assert ours.wants_to_send


@pytest.mark.parametrize("kills", [200, pytest.param(1000, marks=pytest.mark.faults)])
def test_process_killed_in_the_middle_of_a_message_leaves_whole_ones_and_an_end(kills: int) -> None:
    chance, whole = random.Random(2), 0
    for _ in range(kills):
        with pair(send_on_and_on) as (end, process):
            ours = Line(end, MOST)
            time.sleep(chance.uniform(0, 0.003))
            os.kill(process, signal.SIGKILL)
            messages = all_messages(ours)
        assert all(message == MESSAGE for message in messages)
        whole += len(messages)
    assert whole > 0


def all_messages(ours: Line) -> list[object]:
    """What comes until the end."""
    came: list[object] = []
    try:
        while True:
            came += ours.receive()
    except EOFError:
        return came


def test_any_flipped_bit_of_a_message_is_refused() -> None:
    frame, chance = line._frame([1, 2, 3]), random.Random(3)
    for _ in range(50):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            garbled = bytearray(frame)
            at = chance.choice([*range(4), *range(12, len(frame))])  # a changed length is waited for, or refused
            garbled[at] ^= 1 << chance.randrange(8)
            theirs.sendall(garbled)
            with pytest.raises(LineError):
                Line(ours, MOST).receive()


def test_without_the_checksum_a_flipped_bit_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xxhash, "xxh3_64_intdigest", lambda payload: 1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        garbled = bytearray(line._frame("abc"))
        garbled[garbled.index(b"abc")] ^= 1
        theirs.sendall(garbled)
        assert Line(ours, MOST).receive() == ["`bc"]
