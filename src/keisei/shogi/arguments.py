"""What callers hand over, looked at before it reaches the native code: text and whole numbers."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from keisei.errors import ConfigError, NotationError


def checked_text(text: object) -> str:
    """The text, if it is text at all; raises `NotationError` for half a character (a lone surrogate), too."""
    if not isinstance(text, str):
        raise NotationError(f"expected text, found {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotationError(f"expected text, found {text[:120]!a}") from error
    return text


def checked_number(name: str, value: object, least: int, most: int) -> int:
    """The number, if it is a whole one from `least` to `most`; raises `ConfigError`."""
    if not isinstance(value, SupportsIndex) or not least <= index(value) <= most:
        raise ConfigError(f"{name}: expected a whole number from {least} to {most}, found {value!r}")
    return index(value)
