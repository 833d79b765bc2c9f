"""Which device computes, and how: precision, compilation, and whether it must round alike each time."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Place:
    """A device and how it computes. It can be pickled."""

    name: str  # such as `cpu` or `cuda:0`
    bf16: bool = False  # the network's body; all else is float32
    compiled: bool = False
    deterministic: bool = False

    @property
    def device(self) -> torch.device:
        """The device itself."""
        return torch.device(self.name)

    @property
    def is_gpu(self) -> bool:
        """Whether work is queued there, and memory is its own."""
        return self.device.type == "cuda"

    def body(self) -> torch.autocast:
        """In which the network's body is computed. Nothing is kept of rounded weights: they change in place."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)

    def set_up(self) -> None:
        """Make torch round as it should in this whole process."""
        if not self.is_gpu:
            return
        torch.cuda.set_device(self.device.index or 0)
        if self.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = not self.deterministic


def new_stream(place: Place) -> torch.cuda.Stream | None:
    """A stream of its own; none where work is not queued."""
    return torch.cuda.Stream(place.device) if place.is_gpu else None  # type: ignore[no-untyped-call]


def available(kind: str) -> str:
    """The device that a configuration names; `auto` is a GPU if there is one."""
    if kind == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return kind


def missing(kind: str) -> str:
    """Why a device cannot be used; nothing where it can."""
    if kind == "cpu":
        return ""
    if not torch.cuda.is_available():
        return "there is no GPU that torch can use"
    number = torch.device(kind).index or 0
    count = torch.cuda.device_count()
    return "" if number < count else f"there are {count} GPUs, the first is cuda:0"
