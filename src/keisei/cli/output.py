"""What commands print on their standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

import typer


def say(text: str) -> None:
    """Print. Nobody there to read it (`| head`, a closed terminal) is no reason to fail."""
    try:
        typer.echo(text)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # or Python tries again when it ends
        os.close(nowhere)


def command() -> str:
    """How to call this program again: as it was called by a relative path, or by its name."""
    called = sys.argv[0]
    return called if called.endswith("/keisei") and not called.startswith("/") else "keisei"


def say_json(values: Mapping[str, object]) -> None:
    """Print one line of JSON."""
    say(json.dumps(values, allow_nan=False))
