"""Steps of fixed shapes on a GPU, captured once as a CUDA graph and replayed: one launch instead of hundreds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from keisei.device.exchange import Buffers

_WARM_UP = 3

Step = Callable[[Buffers], Tensor]


def captured(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A step whose inputs and outputs always lie in the same memory, to be replayed on any one stream."""
    stream = torch.cuda.current_stream()
    for _ in range(_WARM_UP):  # compiles, and lets libraries choose and take their memory
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Other threads go on with work of their own meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        answer = step()

    def replay() -> Tensor:
        graph.replay()
        return answer

    return replay


class Replay:
    """An acting step whose input lies in buffers of its own. To be called on the stream that it was captured for."""

    def __init__(self, step: Step, inputs: Buffers, first: Buffers) -> None:
        """Capture a step, from buffers that hold an input such as will come."""
        self._inputs = inputs
        inputs.copy_from(first, len(first.whole))
        self._replay = captured(lambda: step(inputs))

    def __call__(self, staged: Buffers, size: int) -> Tensor:
        """The answer to what is staged on the device; valid until the next call on this stream."""
        self._inputs.copy_from(staged, size)
        return self._replay()
