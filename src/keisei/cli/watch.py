"""`keisei watch`: see what agents do in a world, in the terminal, or as a GIF or MP4."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from keisei.cli.evaluate import checkpoint_folder
from keisei.cli.output import say
from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.environment import UInt8
    from keisei.gridworld.playing import Stage
    from keisei.gridworld.render import Scene
    from keisei.gridworld.world import WorldFile


Target = Annotated[
    str,
    typer.Argument(
        metavar="RUN|WORLD", help="A run or checkpoint; or a world, lived in at random.", show_default=False
    ),
]
Numbers = Annotated[list[str] | None, typer.Argument(help="Numbers of a WORLD, such as agents=4.", show_default=False)]
Play = Annotated[str, typer.Option(help="How the agents of a run act: greedy, or sample as they do in training.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Another chance.", show_default="the run's, or 0")]
Debug = Annotated[bool, typer.Option("--debug", help="Run the world as plain Python, where a breakpoint works.")]


def watch(
    target: Target,
    numbers: Numbers = None,
    world: Annotated[int, typer.Option(min=0, help="Which of the run's worlds: each has its own chance.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 1,
    gif: Annotated[Path | None, typer.Option(help="Write a GIF.", show_default=False)] = None,
    mp4: Annotated[Path | None, typer.Option(help="Write an MP4.", show_default=False)] = None,
    speed: Annotated[float, typer.Option(min=0.1, max=50, help="Turns per second.")] = 6.0,
    cell: Annotated[int | None, typer.Option(min=4, max=200, help="Pixels of a cell.", show_default="fitting")] = None,
    play: Play = "greedy",
    seed: Seed = None,
    debug: Debug = False,
) -> None:
    """Watch an episode."""
    from keisei.gridworld.playing import scenes
    from keisei.gridworld.render import Painter

    stage = staged(target, numbers or [], world=world, copies=1, play=play, seed=seed, debug=debug)
    try:
        played = scenes(stage, episodes)
        if gif is None and mp4 is None:
            _show(stage.world.file, played, speed)
            return
        _, height, width = stage.world.worlds.now["who"].shape
        painter = Painter(stage.world.file, height, width, len(stage.world.seats), cell)
        _write([painter.paint(seen) for seen in played], gif, mp4, speed)
    finally:
        stage.environment.close()


def staged(
    target: str, numbers: Sequence[str], *, world: int, copies: int, play: str, seed: int | None, debug: bool
) -> Stage:
    """The worlds that a command names, from number `world` on, and who acts in them."""
    from keisei import build

    if play not in ("sample", "greedy"):
        raise ConfigError(f"--play must be sample or greedy, not '{play}'")
    if Path(target).is_dir():
        if numbers:
            raise ConfigError(
                f"a run's worlds are as its configuration says: '{numbers[0]}' cannot be told to {target}"
            )
        how: Literal["greedy", "sample"] = "greedy" if play == "greedy" else "sample"
        folder = checkpoint_folder(Path(target))
        return build.learnt_stage(folder, first_world=world, copies=copies, play=how, seed=seed, debug=debug)
    return build.random_stage(target, numbers, first_world=world, copies=copies, seed=seed or 0, debug=debug)


def _write(pictures: Sequence[UInt8], gif: Path | None, mp4: Path | None, speed: float) -> None:
    from keisei.film import write_gif, write_mp4

    for path, write in ((gif, write_gif), (mp4, write_mp4)):
        if path is not None:
            write(pictures, path, speed)
            say(f"wrote {path}: {len(pictures)} pictures, {path.stat().st_size / 1e6:.2f} MB")


def _show(file: WorldFile, played: Iterator[Scene], speed: float) -> None:
    """Show scenes in the terminal, each for its time; where there is none, the last one of each episode."""
    console = Console()
    if not console.is_terminal:
        for seen in played:
            if seen.turn >= 0:
                last = seen
        console.print(drawn(file, last))
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for seen in played:
            live.update(drawn(file, seen), refresh=True)
            time.sleep(1 / speed)


def drawn(file: WorldFile, seen: Scene) -> Text:
    """A scene as coloured text, and what agents have earned."""
    from keisei.gridworld.sprites import seat_colours
    from keisei.gridworld.text import glyphs

    text = Text()
    for line in glyphs(file, seen):
        for glyph in line:
            text.append(glyph.text, f"bold {_hexadecimal(glyph.ink)} on {_hexadecimal(glyph.paper)}")
        text.append("\n")
    text.append(f"turn {min(seen.turn, seen.max_turns)} of {seen.max_turns}", "dim")
    for agent, (colour, earned) in enumerate(zip(seat_colours(len(seen.row)), seen.returns.tolist(), strict=True)):
        text.append("  ").append(f" {agent} ", f"bold white on {_hexadecimal(colour)}").append(f" {earned:g}")
    return text


def _hexadecimal(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
