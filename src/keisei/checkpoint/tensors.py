"""The safetensors format, without metadata: the same tensors always give the same bytes, which any reader of the format
reads. Tensors go to the file and come from it without a copy in between. Knows no file: it deals in memory.

Its own writer and reader, because those of the library hold the whole file twice, and parse a header of any content.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from keisei.checkpoint.text import MOST_BYTES, from_json, quoted

_NAMES = {  # in the order in which the format's own writer lays them out: data is aligned by itself
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_ORDER = {dtype: place for place, dtype in enumerate(_NAMES)}
_MOST_DIMENSIONS = 16


class Spec(NamedTuple):
    """What the header says of one tensor; where its data lies follows from all of them."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of its data."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def place(self) -> tuple[int, str]:
        """What tensors are sorted by."""
        return _ORDER[self.dtype], self.name


@dataclass(frozen=True)
class TensorFile:
    """Tensors on their way to a file: the header, then their data in this order."""

    header: bytes
    tensors: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.header) + sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    def parts(self) -> Iterator[memoryview]:
        """The file's content, tensor by tensor; only those that are elsewhere or not contiguous are copied."""
        yield memoryview(self.header)
        for tensor in self.tensors:
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            yield flat.view(torch.uint8).numpy().data


def encode(tensors: Mapping[str, Tensor]) -> TensorFile:
    """The tensors as a file; raises ValueError naming the one that the format cannot hold."""
    specs = sorted((_spec(name, tensor) for name, tensor in tensors.items()), key=lambda spec: spec.place)
    header = _header(specs)
    if len(header) > MOST_BYTES:
        raise ValueError(f"{len(specs)} tensors need a header of more than {MOST_BYTES} bytes")
    return TensorFile(header, tuple(tensors[spec.name] for spec in specs))


def decode(data: npt.NDArray[np.uint8]) -> dict[str, Tensor]:
    """The tensors in a file's content; they share its memory. Raises ValueError in one sentence for any other content,
    having made nothing larger than a few times the header, which has a limit."""
    length = int.from_bytes(data[:8].tobytes(), "little")
    if not 0 < length <= min(len(data) - 8, MOST_BYTES):
        raise ValueError(f"a header of {length} bytes in a file of {len(data)}, at most {MOST_BYTES} are read")
    header = data[: 8 + length].tobytes()
    specs = sorted(_specs(from_json(header[8:])), key=lambda spec: spec.place)
    if _header(specs) != header:
        raise ValueError("the header of its tensors is not as Keisei writes it")
    expected = len(header) + sum(spec.size for spec in specs)
    if expected != len(data):
        raise ValueError(f"{len(data)} bytes, but its tensors need {expected}")
    memory = torch.from_numpy(data)
    tensors, start = {}, len(header)
    for spec in specs:
        tensors[spec.name] = memory[start : start + spec.size].view(spec.dtype).reshape(spec.shape)
        start += spec.size
    return tensors


def _spec(name: str, tensor: Tensor) -> Spec:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} is no tensor: {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in _NAMES:
        raise ValueError(f"tensor {name} of {tensor.dtype}, {tensor.layout} on {tensor.device} cannot be saved")
    return _checked(Spec(name, tensor.dtype, tuple(tensor.shape)))


def _specs(header: object) -> Iterator[Spec]:
    """What a header says; whether it says more, or places the data otherwise, shows when it is written again."""
    if not isinstance(header, dict):
        raise ValueError("the header of its tensors is no JSON object")
    for name, entry in header.items():
        dtype, shape = (entry.get("dtype"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise ValueError(f"tensor {quoted(name)} has no known type: {quoted(dtype)}")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"tensor {quoted(name)} has no shape: {quoted(shape)}")
        yield _checked(Spec(name, _DTYPES[dtype], tuple(shape)))


def _checked(spec: Spec) -> Spec:
    if len(spec.shape) > _MOST_DIMENSIONS or math.prod(max(size, 1) for size in spec.shape) >= 2**60:
        raise ValueError(f"tensor {quoted(spec.name)} has an impossible shape: {quoted(spec.shape)}")
    if spec.name == "__metadata__":
        raise ValueError("no tensor can be called __metadata__")
    return spec


def _header(specs: Iterable[Spec]) -> bytes:
    entries, start = {}, 0
    for name, dtype, shape in specs:
        end = start + math.prod(shape) * dtype.itemsize
        entries[name] = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": (start, end)}
        start = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
