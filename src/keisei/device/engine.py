"""One network that computes acting steps on a device, for every policy of its architecture: weights are put in place.

So the steps of all policies, past selves among them, are compiled and captured once. Several threads may ask at once,
each for its own lanes: what one has sent is computed while others do something else.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from keisei.device import choosing
from keisei.device.exchange import Buffers, packed_answer
from keisei.device.graphs import Replay
from keisei.device.lists import NARROW, pad
from keisei.device.place import Place, new_stream
from keisei.device.planes import MakeInput
from keisei.environment import Group
from keisei.networks import Network
from keisei.networks.flat import flatten


@dataclass
class Counts:
    """What acting has moved and taken."""

    moves: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    compile_seconds: float = 0.0  # first steps of each shape, which compile and capture


@dataclass(frozen=True)
class Line:
    """A thread's way to the device and back, for one shape."""

    host: Buffers
    there: Buffers
    answer: Tensor  # [4, rows] int32
    stream: torch.cuda.Stream | None


def judge(network: Network, made: Tensor, actions: Tensor | None, place: Place) -> tuple[Tensor, Tensor]:
    """Logits and values, float32: the body in the place's precision, the heads as they are."""
    with place.body():
        features: Tensor = network.body(made)
    return network.judge(features.float(), actions)


class Engine:
    """Computes acting steps with whatever weights are given."""

    def __init__(self, network: Network, make_input: MakeInput, place: Place, group: Group, rows: int) -> None:
        """`rows` are the lanes that usually ask together."""
        self.counts = Counts()
        self.place = place
        self._network = copy.deepcopy(network)
        self._flat = flatten(self._network)
        self._make_input = make_input
        self._group = group
        self._rows = rows
        self._lock = threading.Lock()
        self._own = threading.local()
        self._stream = new_stream(place)
        self._shapes = _Shapes(self._step, place, self._many)

    def size_for(self, count: int) -> int:
        """So many rows are computed for so many lanes: few shapes, each computed as it always is."""
        part = max(1, -(-self._rows // 8))
        if count <= part or count > self._rows:
            return -(-count // part) * part
        return self._many if count <= self._many else self._rows

    @property
    def _many(self) -> int:
        """The rows for about half of the lanes, as where somebody else has the other seat of each game."""
        return 5 * max(1, -(-self._rows // 8)) if self._rows >= 8 else self._rows

    def ask(self, line: Line, size: int, moves: int, weights: Tensor) -> None:
        """Let the device answer what lies in the line's memory, with these weights."""
        if self._stream is None or line.stream is None:
            with self._lock:
                line.there.copy_from(line.host, size)
                line.answer.copy_(self._answer(line, size, weights))
                self._count(line, size, moves)
            return
        with torch.cuda.stream(line.stream):
            line.there.copy_from(line.host, size)
            arrived = line.stream.record_event()
        with self._lock, torch.cuda.stream(self._stream):
            self._stream.wait_event(arrived)
            line.answer.copy_(self._answer(line, size, weights), non_blocking=True)
            done = self._stream.record_event()
            self._count(line, size, moves)
        done.synchronize()  # others go on: neither the lock nor the interpreter is held

    def line(self, rows: int, width: int) -> Line:
        """This thread's memory for a shape."""
        lines: dict[tuple[int, int], Line] = self._own.__dict__.setdefault("lines", {})
        if (rows, width) not in lines:
            gpu, device = self.place.is_gpu, self.place.device
            lines[rows, width] = Line(
                host=Buffers.of(self._group, rows, width, torch.device("cpu"), pinned=gpu),
                there=Buffers.of(self._group, rows, width, device),
                answer=torch.zeros(4, rows, dtype=torch.int32, pin_memory=gpu),
                stream=new_stream(self.place),
            )
            if gpu:
                torch.cuda.synchronize(device)  # the new memory is zeroed on another stream
        return lines[rows, width]

    def _answer(self, line: Line, size: int, weights: Tensor) -> Tensor:
        self._flat.copy_(weights)  # microseconds, where a step takes milliseconds
        width = len(line.there.actions) // len(line.there.starts)
        return self._shapes.step(line.there, size, width)

    def _step(self, inputs: Buffers) -> Tensor:
        """One acting step, `[4, rows]`."""
        width = len(inputs.actions) // len(inputs.starts)
        actions, mask = pad(inputs.actions, inputs.starts, inputs.lengths, width)
        logits, value = judge(self._network, self._make_input(inputs.seen), actions, self.place)
        said = choosing.log_probabilities(logits, mask)
        choice = choosing.sample(said, mask, inputs.uniform)[:, None]
        return packed_answer(
            choice.squeeze(1), actions.gather(1, choice).squeeze(1), said.gather(1, choice).squeeze(1), value
        )

    def _count(self, line: Line, size: int, moves: int) -> None:
        self.counts.moves += moves
        self.counts.bytes_up += size
        self.counts.bytes_down += line.answer.numel() * line.answer.element_size()
        self.counts.compile_seconds = self._shapes.first_seconds


@dataclass
class _Shapes:
    """Acting steps by their shapes: compiled and replayed where batches are large and lists short, as they nearly
    always are."""

    plain: Callable[[Buffers], Tensor]
    place: Place
    many: int  # from so many rows on
    first_seconds: float = 0.0
    _found: dict[tuple[int, int], Callable[[Buffers, int], Tensor]] = field(default_factory=dict)

    def step(self, staged: Buffers, size: int, width: int) -> Tensor:
        """Act on what is staged."""
        shape = len(staged.starts), width
        if shape not in self._found:
            began = time.perf_counter()
            self._found[shape] = self._made(staged, width)
            self._found[shape](staged, size)
            self.first_seconds += time.perf_counter() - began
        return self._found[shape](staged, size)

    def _made(self, staged: Buffers, width: int) -> Callable[[Buffers, int], Tensor]:
        if not self.place.compiled or width > NARROW or len(staged.starts) < self.many:
            return lambda inputs, size: self.plain(inputs)
        compiled = torch.compile(self.plain, dynamic=False)
        if not self.place.is_gpu:
            return lambda inputs, size: compiled(inputs)
        return Replay(compiled, staged.alike(), staged)
