"""A line between two processes: whole messages over a socket pair. What is torn or garbled is no message.

`Line` is the manager's end and never waits for the other one, be it stopped or gone in the middle of a message.
`WorkerLine` is the worker's end, which has nothing else to do.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import deque

import xxhash

from keisei.errors import WorkerError

_FRAME = struct.Struct("<4sQQ")  # mark, length and checksum of what follows
_MARK = b"keis"
_CHUNK = 1 << 20


class LineError(WorkerError):
    """What came over a line is no message."""


def _frame(message: object) -> bytes:
    payload = pickle.dumps(message, protocol=5)
    return _FRAME.pack(_MARK, len(payload), xxhash.xxh3_64_intdigest(payload)) + payload


def _length(frame: bytes | bytearray, most: int) -> int:
    mark, length, _ = _FRAME.unpack_from(frame)
    if mark != _MARK or length > most:
        raise LineError(f"expected a message of at most {most} bytes, found {bytes(frame[: _FRAME.size]).hex()}")
    return int(length)


def _message(frame: bytes | bytearray) -> object:
    payload = memoryview(frame)[_FRAME.size :]
    if xxhash.xxh3_64_intdigest(payload) != _FRAME.unpack_from(frame)[2]:
        raise LineError("a message with a wrong checksum")
    try:
        return pickle.loads(payload)
    except Exception as error:
        raise LineError(f"a message that cannot be read: {error}") from error


class Line:
    """The end that never waits: what cannot be sent now is kept, and half a message waits for its rest."""

    def __init__(self, end: socket.socket, most: int) -> None:
        """`most` is the longest message, in bytes, that may come."""
        end.setblocking(False)
        self._end = end
        self._most = most
        self._unsent: deque[memoryview] = deque()
        self._came = bytearray()

    def fileno(self) -> int:
        """The descriptor to watch."""
        return self._end.fileno()

    @property
    def wants_to_send(self) -> bool:
        """Whether something is kept that could not be sent yet."""
        return bool(self._unsent)

    def send(self, message: object) -> None:
        """Send a message, now or as soon as `flush` may."""
        self._unsent.append(memoryview(_frame(message)))
        self.flush()

    def flush(self) -> None:
        """Send what can be sent; to an end that is gone, nothing."""
        while self._unsent:
            try:
                sent = self._end.send(self._unsent[0])
            except BlockingIOError:
                return
            except OSError:  # its death is seen elsewhere
                self._unsent.clear()
                return
            self._unsent[0] = self._unsent[0][sent:]
            if not self._unsent[0]:
                self._unsent.popleft()

    def receive(self) -> list[object]:
        """The messages that have come. Raises EOFError where the other end is gone, LineError for garbage."""
        try:
            chunk = self._end.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError from error
        if not chunk:
            raise EOFError
        self._came += chunk
        messages = []
        while (size := self._whole()) > 0:
            messages.append(_message(self._came[:size]))
            del self._came[:size]
        return messages

    def _whole(self) -> int:
        """The size of the first message, if it is here."""
        if len(self._came) < _FRAME.size:
            return 0
        size = _FRAME.size + _length(self._came, self._most)
        return size if size <= len(self._came) else 0

    def close(self) -> None:
        """Give the descriptor back; may be called twice."""
        self._end.close()


class WorkerLine:
    """The end that waits."""

    def __init__(self, end: socket.socket, most: int = 1 << 40) -> None:
        self._end = end
        self._most = most

    def send(self, message: object) -> None:
        """Send a message, whole."""
        self._end.sendall(_frame(message))

    def receive(self) -> object:
        """The next message. Raises EOFError where the other end is gone, LineError for garbage."""
        start = self._bytes(_FRAME.size)
        return _message(start + self._bytes(_length(start, self._most)))

    def _bytes(self, count: int) -> bytearray:
        found = bytearray(count)
        rest = memoryview(found)
        while rest:
            got = self._end.recv_into(rest)
            if not got:
                raise EOFError
            rest = rest[got:]
        return found
