"""`keisei bench NAME`: measure speed, side by side with peers. The benchmarks are in `keisei.bench`."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from keisei import bench
from keisei.bench.harness import Report, Settings
from keisei.bench.machine import BUSY_LOAD
from keisei.errors import ConfigError

app = typer.Typer(help="Measure speed, side by side with peers.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="End with one line of JSON instead of a table.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often each contender is measured, in turns.")]
Seconds = Annotated[float, typer.Option(min=0.001, help="How long each turn lasts.")]
Core = Annotated[int | None, typer.Option(help="The core to measure on; the last one by default.")]
_MOST_WORKERS = 1024


def _command(name: str) -> Callable[[bool, int, float, int | None], None]:
    def command(json: Json = False, rounds: Rounds = 5, seconds: Seconds = 0.7, core: Core = None) -> None:
        _show(name, partial(bench.run, name), json, (rounds, seconds, core))

    return command


for _name, _summary in bench.BENCHMARKS.items():
    app.command(_name, help=_summary)(_command(_name))


@app.command()
def parallel(
    workers: Annotated[
        str, typer.Option(help="Numbers of workers to collect with; each is compared with the last.")
    ] = "1,2,4",
    kills: Annotated[int, typer.Option(min=1, help="So many workers are killed to see how soon it is seen.")] = 200,
    parts: Annotated[str, typer.Option(help="What to measure, with commas between.")] = "collecting,training,faults",
    json: Json = False,
    rounds: Rounds = 5,
    seconds: Seconds = 5.0,
    core: Core = None,
) -> None:
    """Collect by workers, train while collecting, and kill workers: against one process."""
    from keisei.bench.parallel import PARTS, run

    numbers = [_number_of_workers(word) for word in workers.split(",")]
    chosen = parts.split(",")
    if not set(chosen) <= PARTS.keys():
        raise ConfigError(f"--parts must be of {', '.join(PARTS)}, with commas between, not '{parts}'")
    _show("parallel", partial(run, workers=numbers, kills=kills, parts=chosen), json, (rounds, seconds, core))


@app.command()
def gpu(
    parts: Annotated[str, typer.Option(help="What to measure, with commas between.")] = "env,networks,population",
    tiny: Annotated[bool, typer.Option(help="Tiny sizes on the CPU: shows that it runs, measures nothing.")] = False,
    json: Json = False,
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
) -> None:
    """Act, train and learn in populations on a GPU: against the bare passes, and one by one."""
    from keisei.bench.gpu import PARTS, run

    wanted = parts.split(",")
    if unknown := [part for part in wanted if part not in PARTS]:
        raise ConfigError(f"--parts must be some of {', '.join(PARTS)}, not '{unknown[0]}'")
    _show("gpu", partial(run, parts=wanted, tiny=tiny), json, (rounds, seconds, None))


@app.command()
def societies(
    worlds: Annotated[str, typer.Option(help="Which worlds, with commas between.")] = "treasure_hunt,stag_hunt,tag",
    kinds: Annotated[str, typer.Option(help="Which learners, with commas between.")] = "iqn,dqn,ppo",
    seeds: Annotated[int, typer.Option(min=1, max=10, help="So many trainings where chance counts.")] = 5,
    json: Json = False,
) -> None:
    """Train agents in gridworlds for a minute each: what they gain, against random actions and planners."""
    from keisei.bench.societies import run
    from keisei.bench.society_runs import KINDS, WORLDS

    chosen = worlds.split(","), kinds.split(",")
    for option, words, known in (("--worlds", chosen[0], WORLDS), ("--kinds", chosen[1], KINDS)):
        if not set(words) <= known.keys():
            raise ConfigError(f"{option} must be of {', '.join(known)}, with commas between, not '{','.join(words)}'")
    _show("societies", partial(run, worlds=chosen[0], kinds=chosen[1], seeds=seeds), json, (1, 1.0, None))


def _number_of_workers(word: str) -> int:
    if not (word.isdecimal() and 0 < int(word) <= _MOST_WORKERS):
        raise ConfigError(f"--workers must be numbers from 1 to {_MOST_WORKERS} with commas between, not '{word}'")
    return int(word)


def _show(name: str, run: Callable[[Settings], Report], json: bool, options: tuple[int, float, int | None]) -> None:
    rounds, seconds, core = options
    console = Console(stderr=True)
    with console.status(name) as status:
        report = run(Settings(rounds, seconds, _usable(core), lambda line: status.update(line)))
    for note in [*report.notes, *_warnings(report)]:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    if json:
        print(report.json_line())
    else:
        Console().print(_table(report))


def _usable(core: int | None) -> int:
    usable = os.sched_getaffinity(0)
    if core is None:
        return max(usable)
    if core not in usable:
        raise ConfigError(f"--core must be one of {', '.join(map(str, sorted(usable)))}, not {core}")
    return core


def _warnings(report: Report) -> list[str]:
    load = report.machine.load
    if load < BUSY_LOAD:
        return []
    return [f"others are using this machine (load average {load} at the start): trust the ratios at most"]


def _table(report: Report) -> Table:
    machine = report.machine
    table = Table(
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        title=f"{report.benchmark}: medians of the rounds; ratios, medians of the rounds' ratios",
        caption=f"{machine.cpu}, core {', '.join(map(str, machine.pinned))} of {machine.cores}, load {machine.load}; "
        f"Python {machine.python}, NumPy {machine.numpy}, {machine.compiler}",
    )
    for column in ("name", "against"):
        table.add_column(column, no_wrap=True)
    for column in ("value", "best", "theirs", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for one in report.results:
        table.add_row(
            one.name,
            one.against or "",
            *(_number(value) for value in (one.value, one.best, one.against_value)),
            "" if one.ratio is None else f"{one.ratio:.2f} ×",
            one.unit,
        )
    return table


def _number(value: float | None) -> str:
    """Four digits and a thousands' letter: 76.47 M."""
    if value is None:
        return ""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
