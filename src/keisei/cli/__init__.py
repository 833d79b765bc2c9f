"""The command line: one file per group of commands, put together here.

Commands load what they need when they run, so that `keisei --help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import keisei
from keisei.cli import bench, doctor, evaluate, export, profile, replay, runs, shogi, soak, train, watch, worlds
from keisei.errors import KeiseiError
from keisei.heap import keep_freed_memory

app = typer.Typer(
    name="keisei",
    help="Trains game-playing agents by playing many games at once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"keisei {keisei.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command."""


app.command(rich_help_panel="Training")(train.train)
app.command(rich_help_panel="Training")(train.resume)
app.command(rich_help_panel="Training")(evaluate.evaluate)
app.command(rich_help_panel="Training")(runs.runs)
app.command(rich_help_panel="Training")(runs.plot)
app.command(rich_help_panel="Training")(replay.replay)
app.command(rich_help_panel="Gridworlds")(worlds.worlds)
app.command(rich_help_panel="Gridworlds")(watch.watch)
app.command(rich_help_panel="Gridworlds")(export.export)
app.command(rich_help_panel="Shogi")(shogi.board)
app.command(rich_help_panel="Shogi")(shogi.perft)
app.add_typer(bench.app, name="bench", rich_help_panel="This machine")
app.command(rich_help_panel="This machine")(profile.profile)
app.command(rich_help_panel="This machine")(soak.soak)
app.command(rich_help_panel="This machine")(doctor.doctor)


def main() -> None:
    """Run the command line; an error of Keisei's own is one line and a status of its own."""
    keep_freed_memory()
    try:
        app()
    except KeiseiError as error:
        print(f"keisei: {error.line}", file=sys.stderr)
        sys.exit(error.status)
