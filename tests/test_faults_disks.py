"""Disks that fill up, fail or dawdle, and checkpoints that are damaged: what happens without what protects from it.

That nothing happens with it is shown, too, in `test_checkpoint.py`, `test_checkpoint_crash.py` and
`test_checkpoint_keeper.py`.
"""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from checkpoints import in_place, same, small
from forked import Tell, become_nobody, forked, open_folder
from keisei.checkpoint import (
    Checkpoint,
    CheckpointKeeper,
    contents,
    files,
    folder_of,
    keeper,
    latest,
    manifest,
    numbers,
    read,
    write,
)
from keisei.environment import UInt8
from keisei.errors import CheckpointError


@contextmanager
def full_disk() -> Iterator[None]:
    """Files cannot grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- rows 25 and 26: full and failing disks --------------------------------------------------------------------------


@pytest.mark.parametrize("protected", [True, False])
def test_full_disk_costs_no_checkpoint_unless_files_are_written_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    write(tmp_path, 1, small(1))
    if not protected:
        monkeypatch.setattr(files, "new_folder", in_place)
    with full_disk(), pytest.raises(CheckpointError, match="File too large"):
        write(tmp_path, 1, small(1))
    if protected:
        assert same(latest(tmp_path).checkpoint, small(1))
    else:
        with pytest.raises(CheckpointError):
            latest(tmp_path)


class FailsOnce:
    """As the kernel does: a file whose sync has failed says the next time that all is well."""

    def __init__(self, sync: Callable[[int], None]) -> None:
        self.sync = sync
        self.failed = False

    def __call__(self, file: int) -> None:
        if not self.failed:
            self.failed = True
            raise OSError(errno.EIO, "Input/output error")
        self.sync(file)


def test_without_looking_at_what_a_sync_says_a_checkpoint_counts_that_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = FailsOnce(os.fsync)

    def try_again(file: int) -> None:
        try:
            sync(file)
        except OSError:
            sync(file)

    monkeypatch.setattr(os, "fsync", try_again)
    write(tmp_path, 1, small(1))
    assert sync.failed
    assert numbers(tmp_path) == [1]
    monkeypatch.setattr(os, "fsync", FailsOnce(os.fsync))
    with pytest.raises(CheckpointError, match="Input/output error"):
        write(tmp_path, 2, small(2))
    assert numbers(tmp_path) == [1]


# --- row 27: slow disks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protected", [True, False])
def test_learner_waits_for_a_slow_disk_only_without_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    disk, sync = threading.Event(), os.fsync

    def slow(file: int) -> None:
        disk.wait(0.2)
        sync(file)

    class Here(threading.Thread):
        def start(self) -> None:
            self.run()

    monkeypatch.setattr(os, "fsync", slow)
    if not protected:
        monkeypatch.setattr(keeper, "Thread", Here)
    saving = CheckpointKeeper(tmp_path, every=1, keep=1, alarm=print)
    saving.prepare(small())
    saving.save(1, small(1))
    assert numbers(tmp_path) == ([] if protected else [1])
    disk.set()
    saving.close()
    assert numbers(tmp_path) == [1]


# --- row 28: folders that cannot be written --------------------------------------------------------------------------


def alarms_of_a_folder_without_permission(run: Path) -> tuple[str, list[str], list[int]]:
    """What is said at the start, and then by a run that loses the permission; and what is saved."""
    alarms: list[str] = []
    saving = CheckpointKeeper(run, every=1, keep=2, alarm=alarms.append)
    saving.prepare(small())
    saving.finish(1, small(1))
    (run / "checkpoints").chmod(0o500)
    saving.save(2, small(2))
    saving.close()
    try:
        CheckpointKeeper(run, every=1, keep=2, alarm=print).prepare(small())
    except CheckpointError as error:
        refusal = str(error)
    (run / "checkpoints").chmod(0o700)
    return refusal, alarms, numbers(run)


@pytest.mark.parametrize("protected", [True, False])
def test_lost_permission_is_an_alarm_unless_errors_are_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    def swallow(saving: CheckpointKeeper, *arguments: object) -> None:
        saving._writing = None

    if not protected:
        monkeypatch.setattr(CheckpointKeeper, "_work", swallow)
    with open_folder() as folder:

        def work(tell: Tell) -> None:
            become_nobody()
            tell(alarms_of_a_folder_without_permission(folder))

        with forked(work, tmp_path) as child:
            said = child.hear()
    assert isinstance(said, list)
    refusal, alarms, saved = said
    assert "no permission" in refusal
    assert saved == [1]
    assert bool(alarms) == protected
    if protected:
        assert "00000002 cannot be written: Permission denied; the newest there is 00000001; tried again" in alarms[0]


# --- rows 29, 31, 32 and 33: damaged, mixed up, not finite, of another version ---------------------------------------


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes files as they are."""

    def load(path: Path, entry: object) -> UInt8:
        return np.frombuffer(bytearray(path.read_bytes()), np.uint8)

    monkeypatch.setattr(manifest, "_load", load)


@pytest.mark.parametrize("name", ["config.yaml", "weights.safetensors", "manifest.json"])
def test_checkpoint_cut_at_any_page_is_refused_and_the_one_before_it_is_taken(tmp_path: Path, name: str) -> None:
    weights = {"w": torch.arange(20_000.0)}
    for number in (1, 2):
        write(tmp_path, number, replace(small(number), config="x" * 20_000, weights=weights))
    file = folder_of(tmp_path, 2) / name
    content = file.read_bytes()
    for length in range(0, len(content), 4096):
        file.write_bytes(content[:length])
        found = latest(tmp_path)
        assert (found.number, found.behind) == (1, 1)
        assert name in found.refused[0].reason
    file.write_bytes(content)
    assert latest(tmp_path).number == 2


@pytest.mark.usefixtures("trusting")
def test_without_sizes_a_truncated_file_passes(tmp_path: Path) -> None:
    folder = write(tmp_path, 1, replace(small(), config="x" * 5000))
    os.truncate(folder / "config.yaml", 4096)
    assert read(folder).config == "x" * 4096


@pytest.mark.usefixtures("trusting")
def test_without_sums_files_of_two_checkpoints_pass_as_one(tmp_path: Path) -> None:
    one, other = write(tmp_path, 1, small(1)), write(tmp_path, 2, small(2))
    shutil.copy(other / "weights.safetensors", one)
    mixed = read(one)
    assert mixed.weights["linear.bias"][0] == 2
    assert mixed.facts["iteration"] == 1


def test_without_a_look_at_each_number_weights_that_are_none_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1, small(1))
    with pytest.raises(CheckpointError, match="not finite"):
        write(tmp_path, 2, not_finite())
    monkeypatch.setattr(contents, "_require_finite", lambda group, members: None)
    write(tmp_path, 2, not_finite())
    assert latest(tmp_path).checkpoint.weights["linear.bias"].isnan().all()


def not_finite() -> Checkpoint:
    return replace(small(1), weights={"linear.bias": torch.full((3,), torch.nan)})


def test_without_a_look_at_the_version_a_newer_checkpoint_is_read_as_if_it_were_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path, 1, small(1))
    values = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(values | {"format": 2}))
    with pytest.raises(CheckpointError, match="a newer Keisei wrote it"):
        read(folder)
    monkeypatch.setattr(manifest, "FORMAT", 2)
    assert same(read(folder), small(1))


# --- row 34: malice --------------------------------------------------------------------------------------------------


class Malice:
    """Runs code when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def hostile(mark: Path) -> bytes:
    """Weights as torch itself would save them, with code in them."""
    torch.save(Malice(str(mark)), whole := io.BytesIO())
    assert zipfile.is_zipfile(whole)
    return whole.getvalue()


@pytest.mark.parametrize("protected", [True, False])
def test_code_in_a_checkpoint_runs_only_where_it_is_unpickled(tmp_path: Path, protected: bool) -> None:
    """Python's own audit says what runs."""
    folder, mark = write(tmp_path, 1, small()), tmp_path / "was-here"
    content = hostile(mark)
    file = folder / "weights.safetensors"
    values = json.loads((folder / "manifest.json").read_text())
    file.write_bytes(content)
    values["files"][file.name] = {"bytes": len(content), "sha256": files.hash_file(file, len(content))}
    (folder / "manifest.json").write_text(json.dumps(values))

    def work(tell: Tell) -> None:
        ran = []
        sys.addaudithook(lambda event, arguments: ran.append(event) if event in SUSPICIOUS else None)
        if protected:
            with pytest.raises(CheckpointError):
                read(folder)
        else:
            torch.load(io.BytesIO(content), weights_only=False)
        tell(ran)

    with forked(work, tmp_path) as child:
        ran = child.hear()
        assert child.wait() == 0
    assert isinstance(ran, list)
    assert bool(ran) == mark.exists() == (not protected)


SUSPICIOUS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class"}
