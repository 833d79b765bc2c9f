"""`keisei worlds`: which gridworlds there are, what one of them can be told, and a file to begin one's own with."""

from __future__ import annotations

import json
import keyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keisei.cli.output import say
from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.gridworld.place import Number
    from keisei.gridworld.world import WorldFile

NEW = "new"
MOST_NUMBERS = 6  # of those that only one world has, in the list of all


def worlds(
    name: Annotated[
        str | None,
        typer.Argument(help="A world, or its file, to see its numbers; `new` to begin one's own.", show_default=False),
    ] = None,
    own: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="After `new`: its name.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """List the gridworlds, say what one can be told, or begin one: `keisei worlds new meadow` writes meadow.py."""
    from keisei.gridworld import SHIPPED, load_world

    if name == NEW:
        if own is None:
            raise ConfigError("name your world: `keisei worlds new meadow` writes meadow.py")
        _begin(own)
        return
    if own is not None:
        raise ConfigError(f"expected `keisei worlds {name}` or `keisei worlds new {own}`")
    files = [load_world(each) for each in (SHIPPED if name is None else (name,))]
    if as_json:
        typer.echo(json.dumps({"worlds": [_facts(file) for file in files]}, default=str))
    elif name is None:
        Console().print(_table(files))
        say("`keisei worlds NAME` says what a world's numbers mean; `keisei watch NAME` shows it.")
    else:
        _describe(files[0], name)


def _facts(file: WorldFile) -> dict[str, object]:
    numbers = {
        name: {"default": number.default, "least": number.least, "most": number.most, "meaning": number.meaning}
        for name, number in file.numbers.items()
    }
    return {"name": file.name, "about": file.about, "actions": list(file.world.actions), "numbers": numbers}


def _table(files: list[WorldFile]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("world", no_wrap=True)
    table.add_column("what it is", ratio=3)
    table.add_column("agents", justify="right", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("turns", justify="right", no_wrap=True)
    table.add_column("its own numbers", ratio=4)
    for file in files:
        known = file.numbers
        mine = [f"{name} {_plain(known[name].default)}" for name in _own(file)]
        rest = [] if len(mine) <= MOST_NUMBERS else [f"and {len(mine) - MOST_NUMBERS} more"]
        table.add_row(
            Text(file.name, "bold"),
            Text(file.about.partition(": ")[2] or file.about),
            _plain(known["agents"].default),
            f"{_plain(known['height'].default)}×{_plain(known['width'].default)}",
            _plain(known["max_turns"].default),
            Text(", ".join(mine[:MOST_NUMBERS] + rest), "dim"),
        )
    return table


def _own(file: WorldFile) -> list[str]:
    """The names of the numbers that not every world has."""
    from keisei.gridworld.place import Number, Place, declared

    common = declared(Place, Number)
    return [name for name in file.numbers if name not in common]


def _describe(file: WorldFile, called: str) -> None:
    world = file.world
    view = world.view
    sees = f"a window of {2 * view.radius + 1}×{2 * view.radius + 1} cells"
    sees += f", the last {view.frames}" if view.frames > 1 else ""
    sees += ", its own position" if view.position else ""
    sees += "".join(f", “{sense.name}”" for sense in world.senses)
    say(file.about)
    say(f"an agent sees  {sees}\nit may          {', '.join(world.actions)}")
    say(f"there are       {', '.join(kind.name for kind in world.kinds[1:])}\n")
    table = Table(box=SIMPLE, padding=(0, 2, 0, 0))
    table.add_column("number", no_wrap=True)
    table.add_column("default", justify="right", no_wrap=True)
    table.add_column("allowed", no_wrap=True)
    table.add_column("meaning")
    for name, number in file.numbers.items():
        table.add_row(Text(name, "bold"), _plain(number.default), _allowed(number), Text(number.meaning))
    Console().print(table)
    example = (_own(file) or ["max_turns"])[-1]
    say(f"For example:  keisei watch {called} agents=3 {example}={_plain(file.numbers[example].default)}")


def _plain(value: float) -> str:
    return f"{value:.0f}" if value % 1 == 0 else f"{value:g}"


def _allowed(number: Number) -> str:
    least, most = number.least, number.most
    if least == float("-inf") and most == float("inf"):
        return "any"
    if most >= 2**31 - 1:
        return f"{_plain(least)} and more"
    return f"{_plain(least)} to {_plain(most)}"


def _begin(name: str) -> None:
    """Write the empty world under another name."""
    from keisei.gridworld.world import FOLDER, SHIPPED

    plain = name.removesuffix(".py")
    if not plain.isidentifier() or keyword.iskeyword(plain) or plain in SHIPPED:
        raise ConfigError(f"a world's name is a word such as meadow that no world has yet, not '{name}'")
    path = Path(f"{plain}.py")
    text = (FOLDER / "empty.py").read_text(encoding="utf-8")
    words = plain.replace("_", " ")
    text = text.replace("An empty world:", f"{words.capitalize()}:").replace(" The file to copy.", "")
    text = text.replace("Empty", "".join(word.capitalize() for word in plain.split("_") if word) or plain)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"there is a file {path} already") from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    say(f"wrote {path}: an empty world that is yours. It runs as it is:\n  keisei watch {path}")
