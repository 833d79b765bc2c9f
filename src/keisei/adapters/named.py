"""What a configuration names: a module, or something in it, also where it lies in the folder of the command."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from keisei.errors import ConfigError


def named(name: str) -> object | None:
    """The module `package.module`, or what is called so in it for `package.module:name`; None where it has no such.

    Raises ImportError. Worker processes find modules where this process does.
    """
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    module, _, inside = name.partition(":")
    try:
        found = importlib.import_module(module)
    except (ValueError, TypeError) as error:  # such as an empty or a relative name
        raise ImportError(str(error)) from error
    return getattr(found, inside, None) if inside else found


def called(build: Callable[..., Any], id: str, options: Mapping[str, object]) -> object:
    """What a callable gives for options; raises ConfigError where it does not take them."""
    try:
        inspect.signature(build).bind(**options)
    except TypeError as error:
        raise ConfigError(f"'environment.options' do not fit '{id}': {one_line(error)}") from error
    try:
        return build(**options)
    except TypeError as error:
        if not options:
            raise  # what it does by itself is not for the configuration to mend
        raise ConfigError(f"'environment.options' do not fit '{id}': {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())
