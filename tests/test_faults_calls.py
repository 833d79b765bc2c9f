"""Checkpoints whose writer is killed, or whose disk fails, at an exact system call: the kernel does it, by `strace`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpoints import in_place, same, small
from forked import Tell, forked
from keisei.checkpoint import CheckpointKeeper, files, folder_of, latest, numbers, write
from keisei.errors import CheckpointError

pytestmark = pytest.mark.faults
CALLS = ("openat", "write", "fsync", "rename,renameat,renameat2", "unlink,unlinkat", "mkdir,mkdirat")
STRACE = "strace"


def has_strace() -> bool:
    """Whether there is one, and it may look into other processes."""
    if not shutil.which(STRACE):
        return False
    return subprocess.run([STRACE, "-qq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(autouse=True)
def strace_is_there() -> None:
    if not has_strace():
        pytest.skip("there is no strace here, or it may not look into processes (Debian: apt install strace)")


def write_with(run: Path, folder: Path, injection: str) -> tuple[int, str]:
    """Let a process write checkpoint 2 while something is injected; its exit status, and why the write failed."""

    def work(tell: Tell) -> None:
        checkpoint = small(2)
        tell(os.getpid())
        wait_for_a_tracer()
        try:
            write(run, 2, checkpoint)
            tell("")
        except CheckpointError as error:
            tell(str(error))

    with forked(work, folder) as child:
        child.hear()
        command = [STRACE, "-qq", "-o", os.devnull, "-e", f"inject={injection}", "-p", str(child.pid)]
        tracer = subprocess.Popen(command)
        try:
            said = str(child.hear())
        except AssertionError:
            said = ""
        status = child.wait()
        tracer.wait()
    return status, said


def wait_for_a_tracer() -> None:
    end = time.monotonic() + 20
    while "TracerPid:\t0" in Path("/proc/self/status").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.05)  # it has come, and sets itself up


def sweep(folder: Path, call: str, what: str) -> Iterator[tuple[Path, int, str]]:
    """Runs with checkpoint 1 in which something happens at the first such call of a writer, the second, …"""
    write(folder / "run", 1, small(1))
    for number in range(1, 200):
        run = Path(shutil.copytree(folder / "run", folder / str(number)))
        status, said = write_with(run, folder, f"{call}:{what}:when={number}")
        yield run, status, said
        if status == 0 and not said:
            return
    pytest.fail("it never succeeds")


@pytest.mark.parametrize("call", CALLS)
def test_writer_killed_at_any_call_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path, call: str) -> None:
    (tmp_path / "run").mkdir()
    kills = 0
    for run, status, _ in sweep(tmp_path, call, "signal=KILL"):
        kills += status == -signal.SIGKILL
        found = latest(run)
        assert found.number in (1, 2)
        assert same(found.checkpoint, small(found.number))
        CheckpointKeeper(run, every=1, keep=2, alarm=print).prepare(small())
        assert all(not path.name.startswith(".") for path in (run / "checkpoints").iterdir())
    assert kills > 0 or call.startswith("unlink")


def test_writer_that_writes_where_files_belong_leaves_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it writes over the only checkpoint there is."""
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", 2, small(1))
    monkeypatch.setattr(files, "new_folder", in_place)
    lost = 0
    for number in range(1, 8):
        run = Path(shutil.copytree(tmp_path / "run", tmp_path / str(number)))
        write_with(run, tmp_path, f"write:signal=KILL:when={number}")
        try:
            latest(run)
        except CheckpointError:
            lost += 1
    assert lost > 2


def test_sync_that_fails_is_a_save_that_fails(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    failed = 0
    for run, status, said in sweep(tmp_path, "fsync", "error=EIO"):
        assert status == 0
        if said:
            failed += 1
            assert "00000002 cannot be written: Input/output error" in said
            assert latest(run).number in (1, 2)
    assert failed >= len(list(folder_of(tmp_path / "run", 1).iterdir()))


def test_disk_that_takes_its_time_takes_nobody_elses(tmp_path: Path) -> None:
    """Each sync takes 0.8 s; a run goes on meanwhile, and what is due then is skipped."""
    run = tmp_path / "run"
    run.mkdir()

    def work(tell: Tell) -> None:
        alarms: list[str] = []
        saving = CheckpointKeeper(run, every=1, keep=2, alarm=alarms.append)
        saving.prepare(small())
        tell(os.getpid())
        wait_for_a_tracer()
        for number in range(1, 50):
            if saving.due(number):
                saving.save(number, small(number))
            time.sleep(0.01)
        tell([numbers(run), len(alarms)])
        saving.close()
        tell(numbers(run))

    with forked(work, tmp_path) as child:
        child.hear()
        command = [STRACE, "-f", "-qq", "-o", os.devnull, "-e", "inject=fsync:delay_enter=800000"]
        tracer = subprocess.Popen([*command, "-p", str(child.pid)])
        assert child.hear() == [[], 48]
        assert child.hear() == [1]
        assert child.wait() == 0
        tracer.wait()
