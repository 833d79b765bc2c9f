"""`keisei replay`: an update that has failed, once more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keisei.cli.output import say

if TYPE_CHECKING:
    from keisei.learning.learner import Learner


def replay(run: Annotated[Path, typer.Argument(help="The run's folder.", show_default=False)]) -> None:
    """Repeat the last update that has failed in a run, to see its error. Changes nothing."""
    from keisei import build, failed_batch
    from keisei.config import SocietyRun, load_run

    found = failed_batch.newest(run)
    config = load_run(found.folder / "config.yaml")
    game = build.game(config)
    say(f"{found.folder}: {found.checkpoint.facts['traceback']}")
    agent = failed_batch.agent_of(found)
    if agent is not None and isinstance(config, SocietyRun):
        learner: Learner = build.run_agent_learner(config, game, agent)
    else:
        learner = build.learner(config, game)
    learnt = failed_batch.replay(found, learner, game.group, config.run.total_steps)
    say("this time it did not fail: " + ", ".join(f"{name} {value:g}" for name, value in learnt.items()))
