"""`keisei soak`: train while workers come to harm, and see what became of it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from keisei.cli.output import say, say_json

if TYPE_CHECKING:
    from rich.table import Table

    from keisei.bench.soak import Outcome


def soak(
    duration: Annotated[float, typer.Option(min=0.1, help="Seconds of training, and as much again in peace.")] = 600.0,
    faults: Annotated[bool, typer.Option("--faults", help="Do harm to the workers meanwhile.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="What run and faults are drawn from.", show_default="a new one")
    ] = None,
    every: Annotated[float, typer.Option(min=0.01, help="Seconds from one fault to the next, on the average.")] = 10.0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many workers.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
) -> None:
    """Train a small run while its workers are killed, stopped and garbled, and compare it with one left in peace.

    The seed decides what happens, and is printed. The status is 0 only if every fault was seen and mended, the
    weights are the same bit for bit, no step was lost or counted twice and nothing was left behind; from five minutes
    on also only if the run was at least 90 % as fast (as the other one, or as itself between faults), and its memory
    did not grow.
    """
    from rich.console import Console

    from keisei.bench.soak import Soak, run

    drawn = seed if seed is not None else _new_seed()
    asked = Soak(seconds=duration, seed=drawn, every=every, workers=workers, faults=faults)
    outcome = run(asked, lambda line: print(line, file=sys.stderr))
    if not as_json:
        Console().print(_faults(outcome))
        Console().print(_findings(outcome))
    failed = [name for name, holds in outcome.held.items() if not holds]
    say(f"Everything held, seed {drawn}." if not failed else f"NOT HELD with seed {drawn}: {'; '.join(failed)}.")
    if as_json:
        say_json(asdict(outcome))
    if failed:
        raise typer.Exit(1)


def _new_seed() -> int:
    import secrets

    return secrets.randbelow(2**32)


def _faults(outcome: Outcome) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    from keisei.bench.soak import table_rows

    table = Table("fault", box=SIMPLE, padding=(0, 1, 0, 0), title=f"faults, seed {outcome.soak.seed}")
    for column in ("done", "seen", "mended"):
        table.add_column(column, justify="right")
    for kind, *counts in table_rows(outcome):
        table.add_row(kind, *map(str, counts))
    return table


def _findings(outcome: Outcome) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table("what", "found", box=SIMPLE, padding=(0, 1, 0, 0), show_header=False)
    table.add_row("iterations, steps, games", f"{outcome.iterations:,}, {outcome.steps:,}, {outcome.games:,}")
    table.add_row("restarts", f"{outcome.restarts:,}")
    table.add_row("speed, of that without faults", f"{100 * outcome.throughput_share:.1f} %")
    table.add_row("speed, of its own between faults", f"{100 * outcome.share_between:.1f} %")
    table.add_row("growth of memory", f"{outcome.slope:+.1f} MiB per hour")
    left = f"{outcome.descriptors_left} descriptors, {outcome.processes_left} processes"
    table.add_row("left behind", f"{left}, {outcome.shared_memory_left} pieces of named shared memory")
    table.add_row("weights", f"{outcome.weights_sha256[:16]}…")
    for name, holds in outcome.held.items():
        table.add_row(name, "[green]yes[/]" if holds else "[bold red]no[/]")
    return table
