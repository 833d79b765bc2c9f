"""`keisei runs` and `keisei plot`: which runs there are, how one of them stands, and its learning curves."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shlex
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keisei.cli.output import command
from keisei.errors import ConfigError, RunError
from keisei.history import LINES, Event, Record, latest, read
from keisei.run_folder import CONFIG, LOCK, SUMMARY
from keisei.screen import label, shown_numbers
from keisei.words import amount, duration, elo, number

RUNS = Path("runs")
CURVES = "curves.png"
CHECKPOINTS = "checkpoints"
LAST_EVENTS = 5
SAID = ("run", "state", "checkpoint", "iterations", "steps", "games", "seconds")  # of a summary, by other lines
STYLES = {"running": "green", "finished": "bold", "stopped": "yellow", "failed": "red", "broken": "red"}

State = Literal["running", "finished", "stopped", "failed", "broken"]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


@dataclass(frozen=True)
class RunLine:
    """What the table of runs says about one of them."""

    name: str
    path: str
    state: State
    iteration: int
    steps: int
    total_steps: int
    games: int
    seconds: float
    age_seconds: float
    evaluated_at: int | None
    evaluation: dict[str, dict[str, float | None]]  # by opponent: score, elo, elo_low, elo_high


def runs(
    run: Annotated[
        Path, typer.Argument(help="A run, to see more of it; or a folder with other runs.", metavar="RUN")
    ] = RUNS,
    as_json: Json = False,
) -> None:
    """List the runs, or say how one of them stands."""
    if is_run(run):
        _show_run(run, as_json)
    elif run.is_dir():
        _show_runs(run, as_json)
    elif run == RUNS:
        typer.echo(json.dumps({"runs": []}) if as_json else "There is no run yet: `keisei train` begins one.")
    else:
        raise RunError(f"there is no run and no folder of runs in {run}")


def plot(
    run: Annotated[Path, typer.Argument(help="The run.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help=f"The picture to write (PNG, SVG or PDF); else {CURVES} in the run's folder.")
    ] = None,
) -> None:
    """Draw a run's learning curves."""
    from keisei.plot import plot as draw

    out = out or run / CURVES
    draw(run, out)
    typer.echo(f"wrote {out}")


# --- how a run stands ------------------------------------------------------------------------------------------------


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    return (folder / CONFIG).is_file()


def is_running(run: Path) -> bool:
    """Whether a process holds the run now."""
    try:
        file = os.open(run / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it never began, or is not ours to look at
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def state(run: Path, last: Record | None) -> State:
    """How a run stands. A broken one ended without saying so: it was killed, or the power failed."""
    if is_running(run):
        return "running"
    said = summary(run)
    if said.get("state") == "failed":  # maybe after it went back to a checkpoint
        return "failed"
    newest = said.get("steps") == (last.steps if last else 0)  # not of a session before the one that broke
    if newest and said.get("state") == "finished":
        return "finished"
    return "stopped" if newest and said.get("state") == "stopped" else "broken"


def summary(run: Path) -> dict[str, object]:
    """What the run's summary says; nothing where there is none, or no whole one."""
    try:
        found = json.loads((run / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def line(run: Path) -> RunLine:
    """What there is to say about a run in one line."""
    last, evaluated = _latest(run), _latest(run, "evaluate")
    found = [] if evaluated is None else evaluated.evaluations()
    told = [path.stat().st_mtime for path in (run / LINES, run / CONFIG) if path.is_file()]
    return RunLine(
        name=run.resolve().name,
        path=str(run),
        state=state(run, last),
        iteration=last.iteration if last else 0,
        steps=last.steps if last else 0,
        total_steps=last.total_steps if last else 0,
        games=last.games if last else 0,
        seconds=last.seconds if last else 0.0,
        age_seconds=max(0.0, time.time() - told[0]) if told else 0.0,
        evaluated_at=evaluated.iteration if evaluated else None,
        evaluation={
            each.opponent: {
                "score": _finite(each.score),
                "elo": _finite(each.elo),
                "elo_low": _finite(each.elo_low),
                "elo_high": _finite(each.elo_high),
            }
            for each in found
        },
    )


def _latest(run: Path, group: str = "") -> Record | None:
    try:
        return latest(run, group)
    except RunError:  # no iteration is finished yet
        return None


def _finite(value: float) -> float | None:
    """A number for JSON, which knows no infinity."""
    return value if math.isfinite(value) else None


# --- all of them -----------------------------------------------------------------------------------------------------


def _show_runs(folder: Path, as_json: bool) -> None:
    lines = sorted(map(line, filter(is_run, folder.iterdir())), key=lambda each: each.age_seconds)
    if as_json:
        typer.echo(json.dumps({"runs": [asdict(each) for each in lines]}))
    elif lines:
        Console().print(_table(lines))
    else:
        typer.echo(f"There is no run in {folder}.")


def _table(lines: list[RunLine]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    for column in ("steps", "games"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("last evaluation")
    table.add_column("age", justify="right", no_wrap=True)
    for each in lines:
        scores = [f"{who} {found['score']:.0%}" for who, found in each.evaluation.items() if found["score"] is not None]
        table.add_row(
            Text(each.name),
            Text(each.state, STYLES[each.state]),
            f"{amount(each.steps)} of {amount(each.total_steps)}",
            amount(each.games),
            Text(", ".join(scores)),
            age(each.age_seconds),
        )
    return table


# --- one of them -----------------------------------------------------------------------------------------------------


def checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first."""
    return sorted(path for path in (run / CHECKPOINTS).glob("*") if path.name.isdecimal() and path.is_dir())


def resume_command(run: Path) -> str:
    """What to type to go on with a run."""
    return f"{command()} resume {shlex.quote(str(run))}"


def _show_run(run: Path, as_json: bool) -> None:
    if not as_json:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in _details(run):
            table.add_row(Text(name), Text(text, STYLES.get(text, "")))
        Console().print(table)
        return
    last = _latest(run)
    more = {
        "numbers": {} if last is None else {name: _finite(value) for name, value in last.numbers.items()},
        "checkpoints": [str(path) for path in checkpoints(run)],
        "events": [asdict(event) for event in _events(run)],
        "summary": summary(run),
        "resume": resume_command(run),
    }
    typer.echo(json.dumps(asdict(line(run)) | more))


def _details(run: Path) -> Iterator[tuple[str, str]]:
    """What there is to say about a run, by name."""
    about, saved = line(run), checkpoints(run)
    evaluated, learnt = _latest(run, "evaluate"), _latest(run, "learn")
    yield "folder", about.path
    yield "state", about.state
    yield "done", f"{about.steps:,} of {about.total_steps:,} steps, {about.games:,} games, iteration {about.iteration}"
    yield "time", f"trained for {duration(about.seconds)}, last heard of {age(about.age_seconds)} ago"
    for found in evaluated.evaluations() if evaluated else []:
        yield f"against {found.opponent}", f"{found.score:.1%}  {elo(found)}  at iteration {about.evaluated_at}"
    if learnt is not None:
        numbers = learnt.group("learn")
        yield "learning", ", ".join(f"{label(name)} {number(numbers[name])}" for name in shown_numbers(learnt))
    yield "checkpoints", f"{len(saved)}: {', '.join(path.name for path in saved[-4:])}" if saved else "none"
    yield from _config(run)
    yield from ((label(name), str(value)) for name, value in summary(run).items() if name not in SAID)
    for event in _events(run):
        yield event.kind, f"{event.text} (iteration {event.iteration})"
    if about.state != "running":
        longer = " run.total_steps=…" if about.state == "finished" else ""
        yield "to go on", resume_command(run) + longer


def _events(run: Path) -> Iterable[Event]:
    """The last alarms and events."""
    try:
        return deque(read(run).events, LAST_EVENTS)
    except RunError:
        return []


def _config(run: Path) -> Iterator[tuple[str, str]]:
    """Each section of the configuration as one text."""
    from keisei.sections import read_values

    try:
        sections = read_values(run / CONFIG)
    except ConfigError as error:
        sections = {"config": str(error)}
    for name, section in sections.items():
        if isinstance(section, dict):
            yield name, ", ".join(f"{key} {value}" for key, value in section.items())
        else:
            yield name, str(section)


# --- words -----------------------------------------------------------------------------------------------------------


def age(seconds: float) -> str:
    """About how long: `40 s`, `12 min`, `3 h`, `5 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
