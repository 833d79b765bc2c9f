"""`keisei train` and `keisei resume`: a run from its configuration, or on from where it stands."""

from __future__ import annotations

import shlex
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keisei.cli import runs
from keisei.cli.output import command, say, say_json
from keisei.errors import KeiseiError, RunError

if TYPE_CHECKING:
    from keisei.checkpoint import Found
    from keisei.config import Config
    from keisei.metrics import Metrics
    from keisei.progress import Progress
    from keisei.spectator import Spectator
    from keisei.train import Training

RUNS = Path("runs")
TRACEBACK = "traceback.txt"

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Single keys, such as learner.learning_rate=1e-4.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="End with one line of JSON.")]
Summary = dict[str, object]


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
    from keisei.config import load_run

    resolved = load_run(config, overrides or [])
    run = run_dir or run_folder.new(RUNS, f"{config.stem}-{time.strftime('%Y%m%d-%H%M%S')}")
    with run_folder.in_use(run):
        run_folder.require_new(run)
        spectator = _spectator(resolved)
        with _told(run, resolved, 0, spectator) as metrics:
            summary = _go(run, resolved, metrics, None, spectator)
    _say(run, resolved, summary, as_json)


def resume(
    run: Annotated[Path, typer.Argument(help="The run's folder.", show_default=False)],
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run from its newest good checkpoint."""
    from keisei import run_folder
    from keisei.checkpoint import latest
    from keisei.config import load_resumed
    from keisei.progress import Progress, part
    from keisei.train import GROUPS

    resolved = load_resumed(run_folder.read_config(run), overrides or [])
    with run_folder.in_use(run):
        found = latest(run, GROUPS)
        progress = Progress.of(part(found.checkpoint.facts, "progress"))
        if progress.complete(resolved.run.total_steps, resolved.evaluation.final_games):
            summary = _summary(run, progress, found.folder, "finished")
            if runs.summary(run).get("state") != "finished":  # it was killed after its last checkpoint
                run_folder.write_summary(run, summary)
        else:
            missing = _cut_back(run, found)
            spectator = _spectator(resolved)
            with _told(run, resolved, progress.steps, spectator) as metrics:
                for sentence in missing:
                    metrics.event(progress.iteration, "alarm", sentence)
                summary = _go(run, resolved, metrics, found, spectator)
    _say(run, resolved, summary, as_json)


def _cut_back(run: Path, found: Found) -> list[str]:
    from keisei.metrics import cut_back
    from keisei.progress import part

    sizes = part(found.checkpoint.facts, "metrics")
    return cut_back(run, {name: size for name, size in sizes.items() if isinstance(size, int)})


def _spectator(config: Config) -> Spectator:
    """Who shows the game on a live screen; nobody where there is none."""
    from keisei import build
    from keisei.spectator import Spectator
    from keisei.view import has_screen

    return build.spectator(config) if has_screen(sys.stderr) else Spectator()


@contextmanager
def _told(run: Path, config: Config, steps: int, spectator: Spectator) -> Iterator[Metrics]:
    from keisei.metrics import open_metrics
    from keisei.view import LogLines, choose_view

    view = choose_view(sys.stderr, run.name, _about(config), picture=spectator.picture)
    with open_metrics(run, LogLines(run), view, steps=steps) as metrics:
        yield metrics


def _about(config: Config) -> str:
    """A run in one line."""
    from keisei.config import GridworldRun

    copies = f"{config.environment.copies} games"
    if isinstance(config, GridworldRun):
        kinds = {config.learner.kind, *(str(agent.learner.get("kind", config.learner.kind)) for agent in config.agents)}
        copies = f"{', '.join(sorted(kinds))} · {config.environment.copies} worlds"
    network = f"{config.network.kind} {config.network.depth}×{config.network.width}"
    return f"{config.environment.name} · {network} · {copies} · seed {config.run.seed}"


def _go(run: Path, config: Config, metrics: Metrics, found: Found | None, spectator: Spectator) -> Summary:
    """Train to the end, or until something stops it; gives the summary, which lies in the run's folder in any case."""
    from keisei import build
    from keisei.stopping import StopRequest, listening

    stop = StopRequest()
    training: Training | None = None

    def tell(text: str) -> None:
        metrics.event(training.progress.iteration if training else 0, "stop", text)

    with listening(stop, tell):
        training = build.training(config, run, metrics, stop, spectator=spectator)
        _begin(run, training, metrics, found)
        try:
            training.run()
        except BaseException as error:
            _failed(run, training, metrics, error)
            if isinstance(error, SystemExit):  # of somebody's game: its status says nothing about the run
                raise RunError(f"something in the run has called sys.exit({error.code!r})") from error
            raise
        state = "finished" if training.complete else "stopped"
        summary = _summary(run, training.progress, training.saved, state, stop.reason)
        _write_summary(run, summary, metrics, training)
        metrics.event(training.progress.iteration, "checkpoint", str(training.saved))
    return summary


def _begin(run: Path, training: Training, metrics: Metrics, found: Found | None) -> None:
    """Bring the run to where it stands; with its first checkpoint on the disk, it is a run that can be resumed."""
    from keisei import run_folder

    if found is not None:
        training.restore(found)
        training.progress.resumed += 1
        training.progress.refused_checkpoints += len(found.refused)
    training.prepare()
    run_folder.write_config(run, training.parts.config)
    run_folder.write_summary(run, _summary(run, training.progress, training.saved, "running"))
    at = training.progress.iteration
    if found is None:
        metrics.event(at, "start", f"a new run in {run}; Ctrl-C saves and stops")
        return
    for refused in found.refused:
        metrics.event(at, "alarm", f"a damaged checkpoint is refused: {refused.reason}")
    if found.refused:
        metrics.event(at, "alarm", f"the next older one is taken, which costs {found.behind} iterations")
    metrics.event(at, "resume", f"on from checkpoint {found.folder}, {training.progress.steps:,} steps")


# --- how it ended ----------------------------------------------------------------------------------------------------


def _failed(run: Path, training: Training, metrics: Metrics, error: BaseException) -> None:
    """Say what has ended the run, where it can be read afterwards; the error itself goes on to the terminal."""
    text = error.line if isinstance(error, KeiseiError) else f"{error!r}, see {TRACEBACK}"
    metrics.event(training.progress.iteration, "alarm", f"the run has failed: {text}")
    try:
        (run / TRACEBACK).write_text(traceback.format_exc(), encoding="utf-8")
    except OSError as why:
        metrics.event(training.progress.iteration, "alarm", f"cannot write {run / TRACEBACK}: {why.strerror}")
    _write_summary(run, _summary(run, training.progress, training.saved, "failed", text), metrics, training)


def _write_summary(run: Path, summary: Summary, metrics: Metrics, training: Training) -> None:
    """Write it; a disk without room for it is no reason to fail."""
    from keisei.run_folder import write_summary

    counts = training.parts.keeper.statistics
    try:
        write_summary(run, {**summary, "failed_saves": counts.failed, "skipped_saves": counts.skipped})
    except RunError as error:
        metrics.event(training.progress.iteration, "alarm", str(error))


def _summary(run: Path, progress: Progress, checkpoint: Path | None, state: str, reason: str = "") -> Summary:
    from keisei.checkpoint import weights_sha256

    return {
        "run": str(run),
        "state": state,
        **({"reason": reason} if reason else {}),
        "checkpoint": str(checkpoint or ""),
        "iterations": progress.iteration,
        "steps": progress.steps,
        "games": progress.games,
        "seconds": round(progress.seconds, 3),
        "weights_sha256": weights_sha256(checkpoint) if checkpoint else "",
        "skipped_updates": progress.skipped_updates,
        "failed_updates": progress.failed_updates,
        "resumed": progress.resumed,
        "refused_checkpoints": progress.refused_checkpoints,
        **_measured(run),
    }


def _measured(run: Path) -> dict[str, object]:
    """Which keys of a run's resolved configuration say what was measured, in whichever session."""
    from keisei import run_folder
    from keisei.sections import read_values

    file = run / run_folder.CONFIG
    parallel = read_values(file).get("parallel") if file.is_file() else None
    found = parallel.get("measured") if isinstance(parallel, dict) else None
    return {"measured": found} if found else {}


def _say(run: Path, config: Config, summary: Summary, as_json: bool) -> None:
    from keisei import build
    from keisei.config import GridworldRun

    keisei, name = command(), shlex.quote(str(run))
    if as_json:
        say_json(summary)
    elif summary["state"] == "stopped":
        say(f"Stopped by {summary['reason']} and saved. Go on with:  {keisei} resume {name}")
    else:
        say(f"{run} is finished. What next:\n  {keisei} plot {name}                        learning curves")
        if build.game(config).duel:
            say(f"  {keisei} evaluate {name}                    play matches")
        if isinstance(config, GridworldRun):
            say(f"  {keisei} watch {name}                       an episode; as a film with --gif FILE")
        say(f"  {keisei} resume {name} run.total_steps=…    train on")
