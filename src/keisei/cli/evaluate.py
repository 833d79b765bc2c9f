"""`keisei evaluate`: matches of a checkpoint against scripted opponents and other checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from keisei.cli.output import say, say_json
from keisei.errors import ConfigError, RunError

if TYPE_CHECKING:
    from keisei.arena import MatchResult, Sprt

SCRIPTED = ("random", "greedy")


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
    from keisei import arena

    if play not in ("sample", "greedy"):
        raise ConfigError(f"--play must be sample or greedy, not '{play}'")
    test = None if sprt is None else arena.Sprt(*sprt)
    folder = checkpoint_folder(challenger)
    other = against if against in SCRIPTED else str(_other_folder(Path(against)))
    result = _match(folder, other, games, seed, "greedy" if play == "greedy" else "sample", test)
    if as_json:
        say_json({"challenger": str(folder), "against": other, **result.as_dict()})
        return
    say(f"{folder} against {other}\n{result}")
    say("games ended by " + ", ".join(f"{name} {count}" for name, count in result.reasons.items()))


def _match(
    folder: Path, other: str, games: int, seed: int, play: Literal["sample", "greedy"], sprt: Sprt | None
) -> MatchResult:
    from keisei import arena, build
    from keisei.arena.player import NetworkOpponent
    from keisei.config import load_run

    config = load_run(folder / "config.yaml")
    game = build.game(config)
    if other not in SCRIPTED:
        against = build.game(load_run(Path(other) / "config.yaml"))
        if (against.group.shape, against.group.actions) != (game.group.shape, game.group.actions):
            raise ConfigError(f"{other} plays another game than {folder}")
    opponent = build.opponent(other, game)(seed)
    assert opponent is not None
    environment = build.match_environment(config)
    try:
        return arena.evaluate(
            environment,
            NetworkOpponent(build.checkpoint_policy(folder), seed + 1, play),
            opponent,
            games=games,
            seed=seed,
            opening_plies=config.evaluation.opening_plies,
            sprt=sprt,
        )
    finally:
        environment.close()


def _other_folder(path: Path) -> Path:
    if not path.exists():
        raise RunError(f"--against must be {', '.join(SCRIPTED)}, or the folder of a run or checkpoint, not '{path}'")
    return checkpoint_folder(path)


def checkpoint_folder(path: Path) -> Path:
    """The checkpoint that a path means: itself, or the newest good one of a run; says which newer ones are refused.

    Raises RunError where there is none, CheckpointError where it is damaged.
    """
    from keisei.checkpoint import latest, verify

    if (path / "manifest.json").is_file():
        verify(path)
        return path
    if not (path / "checkpoints").is_dir():
        raise RunError(f"there is neither a run nor a checkpoint in {path}")
    found = latest(path, groups=())
    for refused in found.refused:
        typer.echo(f"a damaged checkpoint is refused: {refused.reason}", err=True)
    return found.folder
