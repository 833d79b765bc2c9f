"""Saving during a run: in the background, on a schedule, through full and slow and broken disks."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from checkpoints import same, small
from crowding import crowded
from keisei.checkpoint import (
    Checkpoint,
    CheckpointKeeper,
    contents,
    files,
    folder,
    folder_of,
    keeper,
    latest,
    numbers,
    read,
    write,
)
from keisei.checkpoint.contents import encode
from keisei.checkpoint.folder import needed_bytes
from keisei.errors import CheckpointError


class Run:
    """A run with a keeper, its alarms, and a clock that stands still."""

    def __init__(self, folder: Path, *, every: int = 1, keep: int = 2) -> None:
        self.folder = folder
        self.alarms: list[str] = []
        self.now = 0.0
        self.keeper = CheckpointKeeper(
            folder, every=every, keep=keep, alarm=self.alarms.append, pauses_seconds=(1, 5), clock=lambda: self.now
        )

    def iterate(self, number: int) -> None:
        """One iteration, and whatever it saves is on the disk, or has failed."""
        if self.keeper.due(number):
            self.keeper.save(number, small(number))
            self.keeper.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.keeper.prepare(small())
    return run


@contextmanager
def file_size_limit(most: int) -> Iterator[None]:
    """Files cannot grow beyond so many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def there(run: Run) -> list[str]:
    return sorted(path.name for path in (run.folder / "checkpoints").iterdir())


# --- the schedule ----------------------------------------------------------------------------------------------------


def test_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    run = Run(tmp_path, every=3, keep=2)
    for number in range(1, 14):
        run.iterate(number)
    assert numbers(tmp_path) == [9, 12]
    assert run.keeper.finish(13, small(13)) == folder_of(tmp_path, 13)
    assert there(run) == ["00000012", "00000013"]
    assert same(latest(tmp_path).checkpoint, small(13))
    assert (run.keeper.statistics.saved, run.keeper.statistics.last) == (5, folder_of(tmp_path, 13))
    assert not run.alarms


def test_newer_numbers_are_left_alone_and_do_not_count(tmp_path: Path) -> None:
    run = Run(tmp_path, keep=2)
    for number in (3, 4, 9):
        write(tmp_path, number, small(number))
    run.iterate(5)
    run.iterate(6)
    assert numbers(tmp_path) == [5, 6, 9]


def test_last_good_one_stays_when_the_new_one_cannot_be_read_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.iterate(1)
    run.iterate(2)

    def damaging(target: Path, number: int, encoded: contents.Files) -> Path:
        written = commit(target, number, encoded)
        (written / "state.json").write_bytes(b"{}")
        return written

    commit = folder.commit
    monkeypatch.setattr(keeper, "commit", damaging)
    run.iterate(3)
    assert "00000003: state.json has 2 bytes, expected" in run.alarms[0]
    assert there(run) == ["00000001", "00000002"]
    with pytest.raises(CheckpointError, match=r"state\.json has 2 bytes"):
        run.keeper.finish(3, small(3))


def test_old_one_that_cannot_be_removed_is_an_alarm(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "remove_folder", refuse)
    for number in (1, 2, 3):
        run.iterate(number)
    assert run.alarms == [f"old checkpoints in {run.folder} cannot be removed: [Errno 13] Permission denied"]
    assert run.keeper.statistics.saved == 3


def test_what_dead_writers_left_is_removed_at_the_start(run: Run) -> None:
    parent = run.folder / "checkpoints"
    (parent / ".00000007.12ab34cd.tmp" / "deep").mkdir(parents=True)
    (parent / ".00000007.12ab34cd.tmp" / "deep" / "file").touch()
    (parent / ".nfs.tmp").touch()
    (parent / "mine").mkdir()
    run.keeper.prepare(small())
    assert there(run) == [".nfs.tmp", "mine"]


# --- in the background -----------------------------------------------------------------------------------------------


class SlowDisk:
    """A disk on which every sync waits until it is told to go on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self.fsync)

    def fsync(self, file: int) -> None:
        assert self.go.wait(10)
        self._fsync(file)


def test_slow_disk_stops_nobody_and_saves_are_skipped_not_queued(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(monkeypatch)
    weights = torch.ones(2, 3)
    assert run.keeper.due(1)
    start = time.monotonic()
    run.keeper.save(1, Checkpoint({"w": weights}, {"environment": {"state": weights}}, {}, ""))
    assert time.monotonic() - start < crowded(1)
    weights += 1
    assert not run.keeper.due(2)
    assert not run.keeper.due(3)
    assert run.alarms == [f"checkpoint {n} is skipped: the one before it is still being written" for n in (2, 3)]
    disk.go.set()
    run.keeper.close()
    assert (run.keeper.statistics.saved, run.keeper.statistics.skipped) == (1, 2)
    found = read(folder_of(run.folder, 1))
    assert torch.equal(found.weights["w"], torch.ones(2, 3))
    assert torch.equal(found.tensors["environment"]["state"], torch.ones(2, 3))
    assert run.keeper.due(4)


def test_without_the_copy_a_later_update_is_in_the_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper._Snapshot, "take", lambda self, encoded: encoded)
    disk = SlowDisk(monkeypatch)
    weights = torch.ones(2, 3)
    run.keeper.save(1, Checkpoint({}, {"x": {"w": weights}}, {}, ""))
    weights += 1
    disk.go.set()
    run.keeper.close()
    assert not torch.equal(read(folder_of(run.folder, 1)).tensors["x"]["w"], torch.ones(2, 3))


def test_copies_use_the_same_memory_again(run: Run) -> None:
    run.keeper.save(1, small(1))
    run.keeper.close()
    before = {key: copy.data_ptr() for key, copy in run.keeper._snapshot._copies.items()}
    run.keeper.save(2, small(2))
    run.keeper.close()
    assert {key: copy.data_ptr() for key, copy in run.keeper._snapshot._copies.items()} == before
    run.keeper.save(3, small(3, bias=9))
    run.keeper.close()
    assert same(read(folder_of(run.folder, 2)), small(2))
    assert same(read(folder_of(run.folder, 3)), small(3, bias=9))


def test_saving_waits_for_the_one_before_it(run: Run) -> None:
    for number in range(1, 6):
        run.keeper.save(number, small(number))
    assert run.keeper.finish(6, small(6)) == folder_of(run.folder, 6)
    assert run.keeper.statistics.saved == 6
    assert numbers(run.folder) == [5, 6]


def test_checkpoint_that_cannot_be_saved_at_all_is_an_error_at_once(run: Run) -> None:
    with pytest.raises(CheckpointError, match=r"'linear\.weight' is not finite"):
        run.keeper.save(1, bad())
    run.iterate(1)
    assert numbers(run.folder) == [1]


def bad() -> Checkpoint:
    checkpoint = small()
    checkpoint.weights["linear.weight"][0, 0] = float("nan")
    return checkpoint


def test_bug_in_the_writer_is_not_swallowed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(keeper, "commit", broken)
    run.keeper.save(1, small())
    with pytest.raises(AssertionError, match="a bug"):
        run.keeper.close()
    run.keeper.close()


# --- disks that fail -------------------------------------------------------------------------------------------------


def test_full_disk_is_an_alarm_and_tried_again_with_growing_pauses(run: Run) -> None:
    run.iterate(1)
    big = Checkpoint({"w": torch.zeros(100_000)}, {}, {}, "")
    tried = []
    with file_size_limit(100_000):
        for number in range(2, 22):
            if run.keeper.due(number):
                tried.append(run.now)
                run.keeper.save(number, big)
                run.keeper.close()
            run.now += 1
    assert tried == [0, 1, 3, 7, 12, 17]
    assert (run.keeper.statistics.saved, run.keeper.statistics.failed) == (1, 6)
    assert run.alarms[0] == (
        f"checkpoint {folder_of(run.folder, 2)} cannot be written: File too large; "
        "the newest there is 00000001; tried again in 1 s"
    )
    assert there(run) == ["00000001"]
    assert same(latest(run.folder).checkpoint, small(1))
    run.now += 5
    run.iterate(22)
    run.iterate(23)
    assert there(run) == ["00000022", "00000023"]


def test_failed_checkpoint_is_tried_again_before_the_next_one_is_scheduled(tmp_path: Path) -> None:
    run = Run(tmp_path, every=100)
    (tmp_path / "checkpoints").touch()
    run.iterate(100)
    assert "Not a directory" in run.alarms[0] or "File exists" in run.alarms[0]
    (tmp_path / "checkpoints").unlink()
    run.iterate(101)
    run.now = 1
    run.iterate(102)
    run.iterate(103)
    assert numbers(tmp_path) == [102]


def test_last_checkpoint_that_cannot_be_written_is_an_error(run: Run) -> None:
    run.iterate(1)
    with file_size_limit(10), pytest.raises(CheckpointError, match="00000002 cannot be written: File too large"):
        run.keeper.finish(2, small(2))
    assert there(run) == ["00000001"]


class BrokenDisk:
    """A call that fails once, the `failing`-th time."""

    def __init__(self, call: Callable[..., object], failing: int) -> None:
        self.call = call
        self.failing = failing
        self.made = 0

    def __call__(self, *arguments: object, **options: object) -> object:
        self.made += 1
        if self.made == self.failing + 1:
            raise OSError(errno.EIO, "Input/output error")
        return self.call(*arguments, **options)

    def breaks(self, action: Callable[[], object]) -> bool:
        """Whether the failure came, as it should."""
        try:
            action()
        except CheckpointError as error:
            return str(error).endswith("00000002 cannot be written: Input/output error")
        return False


@pytest.mark.parametrize("call", ["fsync", "write", "rename", "mkdir"])
def test_failing_call_fails_the_save_and_is_not_tried_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    run.iterate(1)
    original = getattr(os, call)
    for failing in range(100):
        disk = BrokenDisk(original, failing)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, disk)
            if not disk.breaks(lambda: write(run.folder, 2, small(2))):
                assert failing > 0
                return
        assert disk.made == failing + 1
        found = latest(run.folder)
        assert same(found.checkpoint, small(found.number))
        assert there(run)[0] == "00000001", "what was begun is still there"
    pytest.fail("it never succeeds")


FILLS_A_DISK = """
import os, sys
from pathlib import Path
import torch
from keisei.checkpoint import Checkpoint, CheckpointKeeper, numbers
from keisei.errors import CheckpointError
run, now, alarms = Path(sys.argv[1]), [0.0], []
def checkpoint(size):
    return Checkpoint({"w": torch.zeros(size, dtype=torch.uint8)}, {}, {}, "")
keeper = CheckpointKeeper(run, every=1, keep=1, alarm=alarms.append, clock=lambda: now[0])
try:
    keeper.prepare(checkpoint(1_100_000))
except CheckpointError as error:
    assert "no space for a checkpoint" in str(error), error
keeper.prepare(checkpoint(200_000))
for number in range(1, 6):
    if number == 2:
        (run / "ballast").write_bytes(bytes(700_000))
    if number == 4:
        (run / "ballast").unlink()
    if keeper.due(number):
        keeper.save(number, checkpoint(200_000))
        keeper.close()
    now[0] += 1
    print(number, numbers(run), len(alarms), len(os.listdir(run / "checkpoints")))
"""


def test_run_goes_on_through_a_disk_that_fills_up_and_empties(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk for a test")
    done = subprocess.run(
        [*alone, mount, "sh", str(tmp_path), sys.executable, FILLS_A_DISK],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["1 [1] 0 1", "2 [1] 1 1", "3 [1] 2 1", "4 [1] 2 1", "5 [5] 2 1"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_refused_at_the_start(run: Run) -> None:
    (run.folder / "checkpoints").chmod(0o500)
    with pytest.raises(CheckpointError, match="no permission"):
        run.keeper.prepare(small())


def test_run_folder_removed_while_running_is_an_alarm(run: Run) -> None:
    run.iterate(1)
    shutil.rmtree(run.folder)
    run.iterate(2)
    assert "cannot be written: No such file or directory; there is no other; tried again in 1 s" in run.alarms[0]
    run.folder.mkdir()
    run.now = 1
    run.iterate(3)
    assert numbers(run.folder) == [3]


def test_disk_without_room_is_refused_at_the_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda path: 30_000)
    with pytest.raises(CheckpointError, match=r"no space for a checkpoint in \S+: it needs [\d,]+ bytes, 30,000 are"):
        run.keeper.prepare(small())
    assert there(run) == []
    needed = needed_bytes(encode(small()))
    monkeypatch.setattr(files, "free_bytes", lambda path: 3 * needed - 1)  # the next one will be larger
    with pytest.raises(CheckpointError, match=f"it needs {3 * needed:,} bytes, {3 * needed - 1:,} are"):
        run.keeper.prepare(small())
    monkeypatch.setattr(files, "free_bytes", lambda path: 3 * needed)
    run.keeper.prepare(small())
    assert "too few for keeping 2 checkpoints" in run.alarms[0]
    monkeypatch.setattr(files, "free_bytes", lambda path: float("inf"))
    run.keeper.prepare(small())
    assert len(run.alarms) == 1
