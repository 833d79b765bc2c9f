"""Small checkpoints for tests, and a process that writes them, to be killed: `python checkpoints.py`.

That process imports torch once and forks a writer for each line it gets: a JSON list of the task's name, the run's
folder and a number. It answers with the writer's pid, and with how that ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from keisei.checkpoint import Checkpoint, CheckpointKeeper, Found, files, numbers, write

CALLS = ("mkdir", "open", "write", "rename", "unlink", "rmdir")
"""What may change something on the disk, besides fsync."""


def small(value: float = 1.0, *, bias: int = 3) -> Checkpoint:
    """A checkpoint that says `value` in each of its parts."""
    return Checkpoint(
        weights={"linear.weight": torch.full((2, 3), value), "linear.bias": torch.full((bias,), value)},
        tensors={
            "published": {"linear.weight": torch.full((2, 3), value, dtype=torch.bfloat16)},
            "environment": {"state": torch.full((4, 5), int(value) % 256, dtype=torch.uint8)},
        },
        facts={"iteration": int(value), "rate": value / 3},
        config=f"value: {value}\n",
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints agree bit for bit."""
    ours, theirs = ({"weights": c.weights, **c.tensors} for c in (one, other))
    return (one.facts, one.config, bits(ours)) == (other.facts, other.config, bits(theirs))


def bits(groups: object) -> object:
    """Nested mappings of tensors with each one's type, shape and bytes in its place."""
    if isinstance(groups, torch.Tensor):
        flat = groups.detach().contiguous().reshape(-1).view(torch.uint8)
        return str(groups.dtype), tuple(groups.shape), flat.numpy().tobytes()
    assert isinstance(groups, dict)
    return {name: bits(member) for name, member in groups.items()}


def is_whole(found: Found) -> bool:
    """Whether a found checkpoint is what was written under its number."""
    return same(found.checkpoint, small(found.number)) and not found.refused


@contextmanager
def dying_at(number: int) -> Iterator[None]:
    """SIGKILL this process when it is about to make the call of that number, counted from 0.

    Files are not synced meanwhile: what a killed process has written is there, and the disk only takes its time.
    """
    made = 0

    def counting(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            nonlocal made
            if made == number:
                os.kill(os.getpid(), signal.SIGKILL)
            made += 1
            return call(*arguments, **options)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counting(getattr(os, name)))
        patch.setattr(os, "fsync", counting(lambda file: None))
        yield


def write_on_and_on(run: Path, _number: int) -> None:
    """Write checkpoint after checkpoint; RUN/acknowledged has a byte for each that `write` said is there."""
    with (run / "acknowledged").open("ab", buffering=0) as acknowledged:
        while True:
            number = (numbers(run) or [0])[-1] + 1
            write(run, number, small(number))
            acknowledged.write(b".")
            if number > 3:
                files.remove_folder(run / "checkpoints" / f"{number - 3:08d}")


def write_dying(run: Path, number: int) -> None:
    """Write one more checkpoint, and die at that call."""
    checkpoint = small(2)
    with dying_at(number):
        write(run, 2, checkpoint)


def replace_dying(run: Path, number: int) -> None:
    """Write a checkpoint that is there already, and die at that call."""
    checkpoint = small(1)
    with dying_at(number):
        write(run, 1, checkpoint)


def rotate_dying(run: Path, number: int) -> None:
    """Write one more checkpoint, keep only that one, and die at that call."""
    checkpoint = small(2)
    keeper = CheckpointKeeper(run, every=1, keep=1, alarm=print)
    with dying_at(number):
        keeper.finish(2, checkpoint)


@contextmanager
def in_place(target: Path) -> Iterator[Path]:
    """A new folder without what protects: files are written where they belong."""
    target.mkdir(exist_ok=True)
    for file in target.iterdir():
        file.unlink()
    yield target


def write_in_place_dying(run: Path, number: int) -> None:
    """As `replace_dying`, with files that are written where they belong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "new_folder", in_place)
        replace_dying(run, number)


def serve() -> None:
    """Fork a writer for each line of the input."""
    for line in sys.stdin:
        task, run, number = json.loads(line)
        writer = os.fork()
        if not writer:
            try:
                globals()[task](Path(run), number)
                os._exit(0)
            finally:
                os._exit(1)
        print(writer, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
