"""A batch whose update raised an exception: kept in RUN/failed/ with the learner as it was, and replayed.

What is kept of an agent's update is its own life, network and memory, and nothing of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from keisei.checkpoint import JSON, Checkpoint, Found, latest, restore, write
from keisei.environment import Group
from keisei.errors import CheckpointError, RunError
from keisei.learning.learner import Learner
from keisei.learning.population import Failure
from keisei.learning.q_learner import QLearner
from keisei.progress import Progress, part
from keisei.rollout import ARRAYS, Rollout

FAILED = "failed"
BATCH = "batch"
MOST = 100
"""So many batches are kept of a run."""


def keep(run: Path, failure: Failure, progress: Progress, config: str) -> Path:
    """Write the batch of an update, as a checkpoint from before it; raises CheckpointError."""
    if progress.failed_updates > MOST:
        raise CheckpointError(f"{MOST} batches are kept already")
    rollout = failure.rollout
    told = replace(rollout, figures=np.zeros_like(rollout.figures))  # nobody learns from them, and some are not numbers
    batch = {name: torch.from_numpy(np.ascontiguousarray(getattr(told, name))) for name in ARRAYS}
    facts: dict[str, JSON] = {
        "progress": progress.facts(),
        "learner": failure.facts,
        "traceback": failure.traceback,
        "agent": -1 if failure.agent is None else failure.agent,
        "update": failure.update,
    }
    try:
        (run / FAILED).mkdir(exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make {run / FAILED}: {error.strerror}") from None
    kept = Checkpoint(failure.weights, {"optimizer": failure.tensors, BATCH: batch}, facts, config)
    return write(run / FAILED, failure.iteration + 1 if failure.agent is None else progress.failed_updates, kept)


def newest(run: Path) -> Found:
    """The last batch that a run has kept. Raises RunError where there is none."""
    if not (run / FAILED).is_dir():
        raise RunError(f"no update has failed in {run}: there is no {FAILED}/ in it")
    return latest(run / FAILED, groups=("optimizer", BATCH))


def agent_of(found: Found) -> int | None:
    """Whose update it was, where there are several agents."""
    agent = found.checkpoint.facts["agent"]
    return agent if isinstance(agent, int) and agent >= 0 else None


def replay(found: Found, learner: Learner, group: Group, total_steps: int) -> Mapping[str, float]:
    """Let the learner that failed learn from the batch again; raises what it raised, if it does so again."""
    checkpoint = found.checkpoint
    progress = Progress.of(part(checkpoint.facts, "progress"))
    restore(learner.network, checkpoint.weights)
    learner.load_state(checkpoint.tensors["optimizer"], part(checkpoint.facts, "learner"))
    rollout = Rollout(group, **{name: checkpoint.tensors[BATCH][name].numpy() for name in ARRAYS})
    update, share = checkpoint.facts["update"], progress.steps / total_steps
    if isinstance(learner, QLearner) and isinstance(update, int) and update >= 0:  # the batch is remembered already
        return learner.repeat(progress.iteration, update, share)
    return learner.learn(rollout, progress.iteration, share)
