"""Checkpoints: everything a run needs to go on, in one folder that is either whole or not there.

`folder.py` has what a checkpoint is, how it is written, read and found; `keeper.py` saves during a run and rotates;
`restore.py` puts tensors back into networks and optimisers; `tensors.py`, `text.py` and `files.py` are what they stand
on. No pickle anywhere: tensors are safetensors files, facts are JSON, the configuration is YAML.
"""

from keisei.checkpoint.contents import Checkpoint, is_finite
from keisei.checkpoint.folder import (
    Found,
    Refused,
    folder_of,
    latest,
    numbers,
    read,
    verify,
    weights_sha256,
    write,
)
from keisei.checkpoint.keeper import CheckpointKeeper, Statistics
from keisei.checkpoint.restore import optimizer_facts, optimizer_tensors, restore, restore_optimizer
from keisei.checkpoint.text import JSON

__all__ = [
    "JSON",
    "Checkpoint",
    "CheckpointKeeper",
    "Found",
    "Refused",
    "Statistics",
    "folder_of",
    "is_finite",
    "latest",
    "numbers",
    "optimizer_facts",
    "optimizer_tensors",
    "read",
    "restore",
    "restore_optimizer",
    "verify",
    "weights_sha256",
    "write",
]
