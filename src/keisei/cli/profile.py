"""`keisei profile`: where the time of a run goes."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keisei.cli.output import say, say_json
from keisei.cli.train import AsJson, Overrides

if TYPE_CHECKING:
    from rich.table import Table

    from keisei.bench.profile import Profile


class Mode(StrEnum):
    """Who plays."""

    SERIAL = "serial"
    PARALLEL = "parallel"


def profile(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.", show_default=False)],
    overrides: Overrides = None,
    mode: Annotated[Mode, typer.Option(help="Play in this process, or in workers.")] = Mode.SERIAL,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long, once everything has started.")] = 10.0,
    trace: Annotated[
        Path | None,
        typer.Option(help="Write a timeline that Perfetto or chrome://tracing opens.", show_default="none"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train for a while as a configuration says, and show where the time goes.

    What each process does is written down, waiting included, and added up: shares are of the time on the wall, indented
    activities are part of those above them. Nothing of the run is kept; matches are left out.
    """
    from rich.console import Console

    from keisei.bench.profile import run
    from keisei.config import load_run

    resolved = load_run(config, overrides or [])
    found = run(resolved, mode.value, seconds, trace)
    if as_json:
        say_json(_plain(found))
        return
    Console().print(_table(found))
    cost = 100 * found.tracing_seconds / max(found.busy_seconds, 1e-9)
    say(
        f"{found.iterations} iterations, {found.steps / found.seconds:,.0f} steps/s over {found.seconds:.1f} s; "
        f"writing this down took about {cost:.2f} % of the processes' time"
    )
    if found.lost:
        print(f"note: there was no room for {found.lost} spans: take fewer --seconds", file=sys.stderr)
    if trace is not None:
        say(f"The timeline is in {trace}: open it at https://ui.perfetto.dev or chrome://tracing")


def _table(found: Profile) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table("who and what", box=SIMPLE, padding=(0, 1, 0, 0))
    for column in ("seconds", "share", "times", "ms each", "itself"):
        table.add_column(column, justify="right", no_wrap=True)
    for top in found.rows:
        for depth, row in top.walk():
            table.add_row(
                f"{'  ' * depth}{row.name}",
                f"{row.seconds:.2f}",
                f"{100 * row.seconds / found.seconds:.1f} %",
                f"{row.count:,}" if depth else "",
                f"{1e3 * row.seconds / row.count:.3g}" if depth else "",
                f"{100 * row.own_seconds / found.seconds:.1f} %" if row.within else "",
                style=None if depth else "bold",
            )
        table.add_section()
    return table


def _plain(found: Profile) -> dict[str, object]:
    rows = [
        {
            "depth": depth,
            "name": row.name,
            "count": row.count,
            "seconds": row.seconds,
            "own_seconds": row.own_seconds,
        }
        for top in found.rows
        for depth, row in top.walk()
    ]
    counts = {name: getattr(found, name) for name in ("workers", "seconds", "iterations", "steps", "lost")}
    return {**counts, "tracing_seconds": found.tracing_seconds, "rows": rows}
