"""`keisei train` and `keisei resume`: a run from its configuration, or on from where it stands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from keisei.config import Config
    from keisei.metrics import Metrics
    from keisei.train import Training

RUNS = Path("runs")

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Single keys, such as learner.learning_rate=1e-4.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="End with one line of JSON.")]


def train(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.", show_default=False)],
    overrides: Overrides = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="The run's folder.", show_default="runs/CONFIG-DATE-TIME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a network as a configuration says."""
    from keisei import run_folder
    from keisei.config import as_yaml, load_run

    resolved = load_run(config, overrides or [])
    run = run_dir or RUNS / f"{config.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    with run_folder.in_use(run):
        run_folder.create(run, as_yaml(resolved))
        with _told(run, resolved, 0) as metrics:
            metrics.event(0, "start", f"a new run in {run}; Ctrl-C saves and stops")
            _go(run, resolved, metrics, as_json, resumed=False)


def resume(
    run: Annotated[Path, typer.Argument(help="The run's folder.", show_default=False)],
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run from its newest good checkpoint."""
    from keisei import run_folder
    from keisei.checkpoint import latest
    from keisei.config import load_resumed
    from keisei.metrics import cut_back
    from keisei.train import Progress, part

    resolved = load_resumed(run_folder.read_config(run), overrides or [])
    with run_folder.in_use(run):
        found = latest(run)
        sizes = {name: int(str(size)) for name, size in part(found.checkpoint.facts, "metrics").items()}
        missing = cut_back(run, sizes)
        progress = Progress.of(part(found.checkpoint.facts, "progress"))
        with _told(run, resolved, progress.steps) as metrics:
            for refused in found.refused:
                metrics.event(
                    progress.iteration, "alarm", f"checkpoint {refused.folder.name} is refused: {refused.reason}"
                )
            if found.refused:
                metrics.event(progress.iteration, "alarm", f"{found.behind} iterations are played again")
            for sentence in missing:
                metrics.event(progress.iteration, "alarm", sentence)
            metrics.event(progress.iteration, "resume", f"on from checkpoint {found.number}, {progress.steps:,} steps")
            _go(run, resolved, metrics, as_json, resumed=True)


@contextmanager
def _told(run: Path, config: Config, steps: int) -> Iterator[Metrics]:
    from keisei.metrics import open_metrics
    from keisei.view import LogLines, choose_view

    about = (
        f"{config.environment.name} · {config.network.kind} {config.network.depth}×{config.network.width} · "
        f"{config.environment.copies} games · seed {config.run.seed}"
    )
    with open_metrics(run, LogLines(run), choose_view(sys.stderr, run.name, about), steps=steps) as metrics:
        yield metrics


def _go(run: Path, config: Config, metrics: Metrics, as_json: bool, *, resumed: bool) -> None:
    from keisei import build
    from keisei.checkpoint import latest
    from keisei.stopping import StopRequest, listening

    stop = StopRequest()
    training = build.training(config, run, metrics, stop)
    if resumed:
        training.restore(latest(run))
    with listening(stop, lambda text: metrics.event(training.progress.iteration, "stop", text)):
        checkpoint = training.run()
    metrics.event(training.progress.iteration, "checkpoint", f"{checkpoint}")
    summary = _summary(run, training, checkpoint, stop.reason)
    metrics.close()
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        _say_what_next(run, stop.reason)


def _summary(run: Path, training: Training, checkpoint: Path, stopped: str) -> dict[str, object]:
    from keisei.checkpoint import weights_sha256
    from keisei.run_folder import write_summary

    progress = training.progress
    summary: dict[str, object] = {
        "run": str(run),
        "checkpoint": str(checkpoint),
        "iterations": progress.iteration,
        "steps": progress.steps,
        "games": progress.games,
        "seconds": round(progress.seconds, 3),
        "weights_sha256": weights_sha256(checkpoint),
    }
    write_summary(
        run, {**summary, "state": "stopped" if stopped else "finished", "failed_updates": progress.failed_updates}
    )
    return summary


def _say_what_next(run: Path, stopped: str) -> None:
    if stopped:
        typer.echo(f"Stopped by {stopped} and saved. Go on with:  keisei resume {run}")
        return
    typer.echo(
        f"Finished. What next:\n"
        f"  keisei plot {run}                        learning curves\n"
        f"  keisei evaluate {run} --against greedy   play matches\n"
        f"  keisei resume {run} run.total_steps=…    train on"
    )
