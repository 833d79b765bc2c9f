"""JSON that comes back as it was written, and that refuses in one sentence what is none. Knows no file."""

from __future__ import annotations

import gc
import json
import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

MOST_BYTES = 2 << 20
"""More is neither written nor read, since the objects made of it can take twenty times its size."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def quoted(text: object) -> str:
    """What somebody else wrote, safe and short enough for a line of text."""
    return _short.repr(text)


def to_json(values: Mapping[str, JSON]) -> bytes:
    """The values as text that `from_json` turns into equal ones; raises ValueError where JSON has no such value."""
    try:
        text = (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()
        same = from_json(text) == values
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not same:
        raise ValueError("tuples, keys that are no text and the like do not come back from JSON as they were")
    return text


def from_json(data: bytes) -> JSON:
    """The value that UTF-8 text stands for; raises ValueError for anything else, and for what two readers may read
    differently: a key written twice, NaN, a number out of range."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"{len(data)} bytes of JSON, at most {MOST_BYTES} are read")
    try:
        with _no_garbage_collected():
            value: JSON = json.loads(
                data.decode(), object_pairs_hook=_object, parse_float=_float, parse_constant=_no_constant
            )
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    return value


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Looking for garbage among a million new objects, again and again, takes twenty times as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is written twice")
    return values


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {quoted(text)} is out of range")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")
