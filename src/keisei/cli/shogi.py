"""`keisei board` and `keisei perft`: look at a position, and count what follows from it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer


def board(
    sfen: Annotated[list[str], typer.Argument(help="The position, as SFEN; it needs no quotes.", show_default=False)],
    svg: Annotated[Path | None, typer.Option(help="Write a picture of it to this file, too.")] = None,
) -> None:
    """Print a position."""
    from keisei.shogi import Board

    position = Board(" ".join(sfen))
    typer.echo(str(position))
    if svg is not None:
        try:
            svg.write_text(position.svg(), encoding="utf-8")
        except OSError as error:
            typer.echo(f"keisei: cannot write {svg}: {error.strerror}", err=True)
            raise typer.Exit(1) from None


def perft(
    depth: Annotated[int, typer.Option(min=0, help="How many plies deep.", show_default=False)],
    sfen: Annotated[str | None, typer.Option(help="The position, as SFEN.", show_default="the start position")] = None,
    divide: Annotated[bool, typer.Option("--divide", help="Count for each first move.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Count the move sequences of a length."""
    from keisei.shogi import Board

    position = Board() if sfen is None else Board(sfen)
    began = time.perf_counter()
    moves = position.divide(depth) if divide and depth else {}
    nodes = sum(moves.values()) if divide and depth else position.perft(depth)
    seconds = time.perf_counter() - began
    if as_json:
        counted = {"sfen": position.sfen(), "depth": depth, "nodes": nodes, "seconds": round(seconds, 6)}
        typer.echo(json.dumps({**counted, "divide": moves} if divide else counted))
        return
    for move, count in sorted(moves.items()):
        typer.echo(f"{move:5} {count}")
    speed = f", {nodes / seconds / 1e6:.1f} M/s" if seconds > 0.01 else ""
    typer.echo(f"{nodes} nodes in {seconds:.3f} s{speed}")
