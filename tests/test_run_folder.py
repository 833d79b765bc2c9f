"""The folder of a run: one process at a time, one run in it, files that are whole or not there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from checkpoints import small
from keisei import run_folder
from keisei.checkpoint import folder_of, verify, write
from keisei.errors import RunError

CONFIG = "run:\n  seed: 7\n"


# --- who uses it -----------------------------------------------------------------------------------------------------


def test_folder_in_use_is_refused_with_the_process_that_uses_it(tmp_path: Path) -> None:
    holder = f"{tmp_path} is in use by process {os.getpid()}"
    with run_folder.in_use(tmp_path):
        with pytest.raises(RunError) as raised, run_folder.in_use(tmp_path):
            pass
        assert str(raised.value) == holder
        with pytest.raises(RunError), run_folder.in_use(tmp_path):  # the one refused has not taken the lock away
            pass
    with run_folder.in_use(tmp_path):
        pass


def test_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / run_folder.LOCK).write_text("process 1\nsome other boot\n" + 100 * "x")
    with run_folder.in_use(tmp_path):
        text = (tmp_path / run_folder.LOCK).read_text()
    process, boot = text.splitlines()
    assert process == f"process {os.getpid()}"
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_folder_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for run in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunError, match="cannot use the run's folder"), run_folder.in_use(run):
            pass


def test_checkpoint_is_no_run_and_stays_whole(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, 3, small())
    for use in (run_folder.read_config, lambda run: run_folder.in_use(run).__enter__()):
        with pytest.raises(RunError, match=f"is a checkpoint: name the run's folder, {tmp_path}"):
            use(checkpoint)
    verify(checkpoint)


# --- what is a run ---------------------------------------------------------------------------------------------------


def test_folder_with_a_run_takes_no_other(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", CONFIG)
    with pytest.raises(RunError, match="holds a run already: go on with `keisei resume"):
        run_folder.create(tmp_path / "run", "other: {}\n")
    assert run_folder.read_config(tmp_path / "run").read_text() == CONFIG


def test_folder_with_checkpoints_takes_no_run(tmp_path: Path) -> None:
    folder_of(tmp_path, 0).mkdir(parents=True)
    folder_of(tmp_path, 10).with_name(".00000010.1234.tmp").mkdir()
    run_folder.require_new(tmp_path)  # a run that died before it began
    folder_of(tmp_path, 10).mkdir()
    with pytest.raises(RunError, match=r"holds checkpoints \(00000010\) but no config.yaml"):
        run_folder.require_new(tmp_path)


def test_folder_without_a_run_says_so(tmp_path: Path) -> None:
    for run in (tmp_path, tmp_path / "absent"):
        with pytest.raises(RunError, match=r"there is no run in .*: it has no config.yaml"):
            run_folder.read_config(run)
    assert not (tmp_path / "absent").exists()


def test_new_folders_are_never_the_same(tmp_path: Path) -> None:
    names = [run_folder.new(tmp_path / "runs", "some").name for _ in range(3)]
    assert names == ["some", "some-2", "some-3"]
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot make the run's folder"):
        run_folder.new(tmp_path / "file", "some")


# --- files -----------------------------------------------------------------------------------------------------------


def test_summary_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for state in ("running", "finished"):
        run_folder.write_summary(tmp_path, {"state": state})
    assert json.loads((tmp_path / run_folder.SUMMARY).read_text()) == {"state": "finished"}
    assert [path.name for path in tmp_path.iterdir()] == [run_folder.SUMMARY]


def test_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    run_folder.write_config(tmp_path, CONFIG)
    (tmp_path / f"{run_folder.CONFIG}.part").symlink_to("/dev/full")
    with pytest.raises(RunError, match=os.strerror(errno.ENOSPC)):
        run_folder.write_config(tmp_path, "other: {}\n")
    assert (tmp_path / run_folder.CONFIG).read_text() == CONFIG


def test_file_has_its_name_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    original = os.fsync

    def fsync(file: int) -> None:
        synced.append(f"{Path(os.readlink(f'/proc/self/fd/{file}')).name} {(tmp_path / run_folder.CONFIG).exists()}")
        original(file)

    monkeypatch.setattr(os, "fsync", fsync)
    run_folder.write_config(tmp_path, CONFIG)
    assert synced == [f"{run_folder.CONFIG}.part False", f"{tmp_path.name} True"]
