"""What a checkpoint is, as a value and as named files in memory. Knows no folder and no disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from keisei.checkpoint import tensors
from keisei.checkpoint.tensors import TensorFile
from keisei.checkpoint.text import JSON, MOST_BYTES, from_json, quoted, to_json
from keisei.errors import CheckpointError

UInt8 = npt.NDArray[np.uint8]

FINITE = ("weights", "published")
"""Groups in which every number has to be finite."""

STATE, CONFIG = "state.json", "config.yaml"
_GROUP = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_TENSORS = ".safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a run needs to go on."""

    weights: Mapping[str, Tensor]
    """The learner's network, buffers included."""
    tensors: Mapping[str, Mapping[str, Tensor]]
    """Further groups by name: `published`, `optimizer`, `environment`, …"""
    facts: Mapping[str, JSON]
    """Counters, schedules, sizes of metric files: plain JSON, with lists instead of tuples."""
    config: str
    """The resolved configuration as YAML."""


@dataclass(frozen=True)
class TextFile:
    """Text on its way to a file."""

    content: bytes

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.content)

    def parts(self) -> Iterator[memoryview]:
        """The file's content."""
        yield memoryview(self.content)


Files = dict[str, TextFile | TensorFile]


def group_file(group: str) -> str:
    """The name of the file that a group of tensors is in."""
    return f"{group}{_TENSORS}"


def group_in(file: str) -> str | None:
    """The group of tensors that is in a file of this name; None where there can be none."""
    group = file.removesuffix(_TENSORS)
    return group if group != file and _GROUP.fullmatch(group) else None


def encode(checkpoint: Checkpoint) -> Files:
    """The files of a checkpoint, their data still where the tensors have it.

    Raises CheckpointError where something cannot be saved; it names the tensor that is not finite.
    """
    encoded: Files = {}
    try:
        with _explained(CONFIG):
            encoded[CONFIG] = TextFile(checkpoint.config.encode())
            if encoded[CONFIG].size > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES} bytes")
        with _explained(STATE):
            encoded[STATE] = TextFile(to_json(checkpoint.facts))
        for group, members in (("weights", checkpoint.weights), *checkpoint.tensors.items()):
            name = group_file(group)
            if group_in(name) is None or name in encoded:
                raise ValueError(f"no further group of tensors can be called {quoted(group)}")
            with _explained(name):
                encoded[name] = tensors.encode(members)
                _require_finite(group, members)
    except ValueError as error:
        raise CheckpointError(f"this checkpoint cannot be saved: {error}") from error
    return encoded


def decode(encoded: Mapping[str, UInt8]) -> Checkpoint:
    """The checkpoint in the contents of its files, whose memory the tensors share; ValueError says what is wrong."""
    groups = {}
    for name, data in encoded.items():
        if (group := group_in(name)) is not None:
            with _explained(name):
                groups[group] = tensors.decode(data)
                _require_finite(group, groups[group])
    with _explained(STATE):
        facts = from_json(encoded[STATE].tobytes())
        if not isinstance(facts, dict):
            raise ValueError("no JSON object")
    with _explained(CONFIG):
        config = encoded[CONFIG].tobytes().decode()
    return Checkpoint(groups.pop("weights"), groups, facts, config)


def _require_finite(group: str, members: Mapping[str, Tensor]) -> None:
    for name, tensor in members.items() if group in FINITE else ():
        if not is_finite(tensor):
            raise ValueError(f"tensor {quoted(name)} is not finite")


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of a tensor are finite."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    extremes = torch.stack(torch.aminmax(tensor.detach()))  # both are NaN where any number is
    return bool(extremes.isfinite().all())


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
