"""Whoever writes checkpoints may be killed at any instant, and the power may fail: real processes, real signals."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import checkpoints
from checkpoints import is_whole, small
from keisei.checkpoint import CheckpointKeeper, folder_of, latest, numbers, verify, write
from keisei.errors import CheckpointError

KILLED = -signal.SIGKILL


class Writers:
    """A process that forks writers of checkpoints."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, checkpoints.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def begin(self, task: Callable[[Path, int], None], run: Path, number: int = 0) -> int:
        """Start a writer; gives its process number."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps([task.__name__, str(run), number]) + "\n")
        return self.answer()

    def answer(self) -> int:
        """The next number that the process says."""
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def outcome(self, task: Callable[[Path, int], None], run: Path, number: int) -> int:
        """Let a writer run to its end; gives its exit status, negative for a signal."""
        self.begin(task, run, number)
        return self.answer()

    def close(self) -> None:
        self.process.communicate(timeout=10)


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    writers = Writers()
    yield writers
    writers.close()
    assert writers.process.returncode == 0


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end, "it never comes true"
        time.sleep(0.001)


def leftovers(run: Path) -> list[str]:
    return [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")]


def test_writer_killed_at_random_instants_leaves_a_whole_newest_checkpoint(writers: Writers, tmp_path: Path) -> None:
    chance = random.Random(21)
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    for _ in range(20):
        before = acknowledged.stat().st_size
        writer = writers.begin(checkpoints.write_on_and_on, tmp_path)
        wait_until(lambda: acknowledged.stat().st_size > before)  # noqa: B023  (called at once)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(writer, signal.SIGKILL)
        assert writers.answer() == KILLED
        found = latest(tmp_path)
        assert is_whole(found)
        assert found.number >= acknowledged.stat().st_size
    assert leftovers(tmp_path), "no kill has hit a writer at work"
    CheckpointKeeper(tmp_path, every=1, keep=1, alarm=print).prepare(small())
    assert not leftovers(tmp_path)


def sweep(writers: Writers, task: Callable[[Path, int], None], folder: Path) -> Iterator[Path]:
    """Runs in which the task was killed before its first call, its second one, and so on until it lived."""
    write(folder / "run", 1, small(1))
    for call in range(1000):
        run = Path(shutil.copytree(folder / "run", folder / str(call)))
        outcome = writers.outcome(task, run, call)
        assert outcome in (0, KILLED)
        yield run
        if outcome == 0:
            assert call > 20, "the calls that write are not the ones that kill"
            return


@pytest.mark.parametrize("task", [checkpoints.write_dying, checkpoints.replace_dying, checkpoints.rotate_dying])
def test_writer_killed_at_any_call_leaves_the_old_checkpoint_or_the_new_one(
    writers: Writers, tmp_path: Path, task: Callable[[Path, int], None]
) -> None:
    (tmp_path / "run").mkdir()
    for run in sweep(writers, task, tmp_path):
        assert is_whole(latest(run))
        for number in numbers(run):
            verify(folder_of(run, number))
        CheckpointKeeper(run, every=1, keep=1, alarm=print).prepare(small())
        assert not leftovers(run)


def test_without_temporary_names_a_kill_leaves_no_checkpoint(writers: Writers, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    lost = 0
    for run in sweep(writers, checkpoints.write_in_place_dying, tmp_path):
        try:
            latest(run)
        except CheckpointError:
            lost += 1
    assert lost > 10


class Disk:
    """What would be on the disk if the power failed now: notes each call that syncs or renames."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.unsynced: set[str] = set()
        self.renamed_unsynced: set[str] = set()
        self.renamed: list[str] = []
        self._open, self._fsync, self._rename, self._mkdir = os.open, os.fsync, os.rename, os.mkdir
        for name in ("open", "fsync", "rename", "mkdir"):
            patch.setattr(os, name, getattr(self, name))

    def open(self, path: Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            self.unsynced |= {str(path), str(Path(path).parent)}
        return self._open(path, flags, mode, dir_fd=dir_fd)

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        self.unsynced |= {str(path), str(Path(path).parent)}
        self._mkdir(path, mode)

    def fsync(self, file: int) -> None:
        self._fsync(file)
        self.unsynced.discard(os.readlink(f"/proc/self/fd/{file}"))

    def rename(self, old: Path, new: Path) -> None:
        self.renamed_unsynced |= {path for path in self.unsynced if path.startswith(str(old))}
        self._rename(old, new)
        self.unsynced.add(str(Path(new).parent))
        self.renamed.append(str(new))


def test_nothing_has_its_name_before_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    write(tmp_path, 1, small())
    assert disk.renamed == [str(folder_of(tmp_path, 1))]
    assert not disk.renamed_unsynced
    assert not disk.unsynced


def test_forgotten_syncs_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(Disk, "fsync", lambda self, file: None)
    disk = Disk(monkeypatch)
    write(tmp_path, 1, small())
    assert disk.renamed_unsynced
    assert disk.unsynced


def test_living_writer_keeps_its_temporary_folder(writers: Writers, tmp_path: Path) -> None:
    run = tmp_path
    writer = writers.begin(checkpoints.write_on_and_on, run)
    try:
        swept = 0
        while len(numbers(run)) < 3 or swept < 20:
            CheckpointKeeper(run, every=1, keep=1, alarm=lambda line: None).prepare(small())
            swept += 1
            os.kill(writer, 0)
    finally:
        os.kill(writer, signal.SIGKILL)
        assert writers.answer() == KILLED
