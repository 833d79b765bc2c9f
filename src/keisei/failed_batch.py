"""A batch whose update raised an exception: kept in RUN/failed/ with the learner as it was, and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from keisei.checkpoint import Checkpoint, Found, latest, restore, write
from keisei.environment import Group
from keisei.errors import CheckpointError, RunError
from keisei.learning.learner import Learner
from keisei.progress import Progress, part
from keisei.rollout import ARRAYS, Rollout

FAILED = "failed"
BATCH = "batch"


def keep(run: Path, number: int, before: Checkpoint, rollout: Rollout, traceback: str) -> Path:
    """Write the batch of update `number`, as a checkpoint from before it; raises CheckpointError."""
    batch = {name: torch.from_numpy(getattr(rollout, name)) for name in ARRAYS}
    facts = {**before.facts, "traceback": traceback}
    try:
        (run / FAILED).mkdir(exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make {run / FAILED}: {error.strerror}") from None
    return write(run / FAILED, number, replace(before, tensors={**before.tensors, BATCH: batch}, facts=facts))


def newest(run: Path) -> Found:
    """The last batch that a run has kept. Raises RunError where there is none."""
    if not (run / FAILED).is_dir():
        raise RunError(f"no update has failed in {run}: there is no {FAILED}/ in it")
    return latest(run / FAILED, groups=("optimizer", BATCH))


def replay(found: Found, learner: Learner, group: Group, total_steps: int) -> Mapping[str, float]:
    """Let the learner that failed learn from the batch again; raises what it raised, if it does so again."""
    checkpoint = found.checkpoint
    progress = Progress.of(part(checkpoint.facts, "progress"))
    restore(learner.network, checkpoint.weights)
    learner.load_state(checkpoint.tensors["optimizer"], part(checkpoint.facts, "learner"))
    rollout = Rollout(group, **{name: checkpoint.tensors[BATCH][name].numpy() for name in ARRAYS})
    return learner.learn(rollout, progress.iteration, progress.steps / total_steps)
