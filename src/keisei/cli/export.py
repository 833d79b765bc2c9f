"""`keisei export`: what agents do in many episodes, as a table for analysis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keisei.cli.output import say
from keisei.cli.watch import Debug, Numbers, Play, Seed, Target, staged

if TYPE_CHECKING:
    from keisei.gridworld.playing import Lived

MOST_AT_ONCE = 64


def export(
    target: Target,
    out: Annotated[Path, typer.Option(help="The file to write: .npz or .parquet.", show_default=False)],
    numbers: Numbers = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many, each in a world of its own.")] = 10,
    world: Annotated[int, typer.Option(min=0, help="The first of these worlds.")] = 0,
    play: Play = "sample",
    seed: Seed = None,
    debug: Debug = False,
) -> None:
    """Write episodes as arrays: a row for each agent and turn, with position, heading, action and reward."""
    import numpy as np

    from keisei.tables import writer

    write = writer(out)
    parts = []
    for first in range(world, world + episodes, MOST_AT_ONCE):
        copies = min(MOST_AT_ONCE, world + episodes - first)
        parts.append(_lived(target, numbers or [], first, copies, play, seed, debug))
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    write(columns, {"actions": parts[0].actions})
    say(f"wrote {out}: {len(columns['world']):,} rows of {', '.join(columns)}")


def _lived(target: str, numbers: list[str], first: int, copies: int, play: str, seed: int | None, debug: bool) -> Lived:
    from keisei.gridworld.playing import lived

    stage = staged(target, numbers, world=first, copies=copies, play=play, seed=seed, debug=debug)
    try:
        return lived(stage)
    finally:
        stage.environment.close()
