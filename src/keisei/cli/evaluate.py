"""`keisei evaluate`: matches of a checkpoint against scripted opponents and other checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    challenger: Annotated[Path, typer.Argument(metavar="RUN|CHECKPOINT", help="Who is evaluated.", show_default=False)],
    against: Annotated[str, typer.Option(help="random, greedy, or the folder of a run or checkpoint.")] = "random",
    games: Annotated[int, typer.Option(min=1, help="How many games; each opening is played with both colours.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="What openings and sampled moves are drawn from.")] = 0,
    play: Annotated[str, typer.Option(help="How moves are chosen: sample or greedy.")] = "sample",
    sprt: Annotated[
        tuple[float, float] | None, typer.Option(help="Stop early: test Elo differences ELO0 ELO1.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
) -> None:
    """Play a match and rate it."""
    from keisei import arena, build
    from keisei.arena.player import NetworkOpponent
    from keisei.config import load_run
    from keisei.errors import ConfigError

    if play not in ("sample", "greedy"):
        raise ConfigError(f"--play must be sample or greedy, not '{play}'")
    folder = checkpoint_folder(challenger)
    config = load_run(folder / "config.yaml")
    of = build.game(config)
    other = against if against in ("random", "greedy") else str(checkpoint_folder(Path(against)))
    opponent = build.opponent(other, of)(seed)
    assert opponent is not None
    result = arena.evaluate(
        build.match_environment(config),
        NetworkOpponent(build.checkpoint_policy(folder), seed + 1, "greedy" if play == "greedy" else "sample"),
        opponent,
        games=games,
        seed=seed,
        opening_plies=config.evaluation.opening_plies,
        sprt=None if sprt is None else arena.Sprt(*sprt),
    )
    if as_json:
        typer.echo(json.dumps({"challenger": str(folder), "against": other, **result.as_dict()}))
        return
    typer.echo(f"{folder} against {other}\n{result}")
    typer.echo("games ended by " + ", ".join(f"{name} {count}" for name, count in result.reasons.items()))


def checkpoint_folder(path: Path) -> Path:
    """The checkpoint that a path means: itself, or the newest good one of a run. Raises RunError."""
    from keisei.checkpoint import latest
    from keisei.errors import RunError

    if (path / "manifest.json").is_file():
        return path
    if (path / "checkpoints").is_dir():
        return latest(path, groups=()).folder
    raise RunError(f"there is neither a run nor a checkpoint in {path}")
