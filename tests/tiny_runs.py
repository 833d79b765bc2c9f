"""Runs that take milliseconds: tic-tac-toe and Shogi with a few games, as files for commands and as objects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from keisei import build
from keisei.checkpoint import latest
from keisei.config import Config, load_run
from keisei.history import LINES
from keisei.metrics import Metrics, open_metrics
from keisei.run_folder import LOCK
from keisei.stopping import StopRequest
from keisei.train import GROUPS, Training

TESTS = Path(__file__).parent
STEPS = 16
"""Steps per iteration."""

Sections = dict[str, dict[str, object]]
TIC_TAC_TOE: Sections = {
    "run": {"seed": 3, "total_steps": 12 * STEPS, "checkpoint_interval": 100, "keep_checkpoints": 3},
    "environment": {
        "name": "python",
        "path": str(TESTS / "tictactoe.py"),
        "class": "TicTacToe",
        "options": {"random_plies": 2},
        "copies": 4,
    },
    "network": {"kind": "mlp", "depth": 1, "width": 16, "policy": "dense"},
    "learner": {"minibatch_size": 8, "learning_rate": 0.01},
    "parallel": {"enabled": False, "block_size": 2, "rollout_length": 4},
    "evaluation": {"interval": 0, "final_games": 0},
    "device": {"kind": "cpu"},
}
SHOGI: Sections = {
    **TIC_TAC_TOE,
    "environment": {"name": "shogi", "copies": 4, "move_limit": 20, "random_plies": 12},
    "network": {"kind": "convolutional", "depth": 1, "width": 8},
}


SAVE_EACH = "run.checkpoint_interval=1"
KEEP_ALL = "run.keep_checkpoints=100"


def total(iterations: int) -> str:
    """A run of so many iterations, as an override."""
    return f"run.total_steps={iterations * STEPS}"


def write_config(folder: Path, *overrides: str, base: Sections = TIC_TAC_TOE) -> Path:
    """A configuration as a file, changed by `key=value`."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(base), encoding="utf-8")
    config = load_run(path, overrides)
    path.write_text(yaml.safe_dump(config.model_dump(mode="json", by_alias=True)), encoding="utf-8")
    return path


@contextmanager
def training(
    folder: Path, *overrides: str, base: Sections = TIC_TAC_TOE, stop: StopRequest | None = None
) -> Iterator[Training]:
    """A run in a folder, in this process: new, or on from its newest checkpoint."""
    folder.mkdir(exist_ok=True)
    config = load_run(write_config(folder, *overrides, base=base))
    with open_metrics(folder) as metrics:
        made = built(config, folder, metrics, stop or StopRequest())
        made.prepare()
        yield made
        made.parts.collector.close()


def built(config: Config, folder: Path, metrics: Metrics, stop: StopRequest) -> Training:
    """The same without preparation."""
    made = build.training(config, folder, metrics, stop)
    if (folder / "checkpoints").is_dir():
        made.restore(latest(folder, GROUPS))
    return made


def stop_after(made: Training, iterations: int) -> None:
    """Ask a run to stop when it has done so many iterations."""

    def learn(rollout: object, iteration: int, progress: float) -> Mapping[str, float]:
        if iteration + 1 == iterations:
            made.parts.stop.ask("the test")
        return original(rollout, iteration, progress)  # type: ignore[arg-type]

    original = made.parts.learner.learn
    made.parts.learner.learn = learn  # type: ignore[method-assign]


def sha256(checkpoint: Path) -> str:
    """The hash of a checkpoint's weights, from the file itself."""
    return hashlib.sha256((checkpoint / "weights.safetensors").read_bytes()).hexdigest()


def final_sha256(
    folder: Path, *overrides: str, base: Sections = TIC_TAC_TOE, change: Callable[[Training], None] = lambda _: None
) -> str:
    """The hash of the weights that a run ends with; `change` may change the run before it begins."""
    with training(folder, *overrides, base=base) as made:
        change(made)
        return sha256(made.run())


def lines(run: Path) -> list[dict[str, object]]:
    """What a run's metrics file says."""
    return [json.loads(line) for line in (run / LINES).read_text(encoding="utf-8").splitlines()]


def records(run: Path) -> list[dict[str, object]]:
    """The records in it."""
    return [line for line in lines(run) if "event" not in line]


def events(run: Path, kind: str) -> list[str]:
    """What was said in it, of one kind."""
    return [str(line["text"]) for line in lines(run) if line.get("event") == kind]


def summary(run: Path) -> dict[str, object]:
    """How a run says it stands."""
    found = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def tree(run: Path) -> dict[str, bytes]:
    """Everything that lies in a run's folder, but for who used it."""
    files = [path for path in run.rglob("*") if path.is_file() and path.name != LOCK]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}
