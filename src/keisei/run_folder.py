"""The folder of a run: who uses it, its resolved configuration, its summary. What lies in it is others' business."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from keisei.errors import RunError

CONFIG = "config.yaml"
SUMMARY = "summary.json"
LOCK = "lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def create(run: Path, config: str) -> None:
    """A new folder with its configuration. Raises RunError where there is a run already."""
    try:
        run.mkdir(parents=True, exist_ok=True)
        if (run / CONFIG).exists():
            raise RunError(f"{run} holds a run already: go on with `keisei resume {run}`, or name another --run-dir")
        (run / CONFIG).write_text(config, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write the run's folder {run}: {error.strerror}") from None


def read_config(run: Path) -> Path:
    """The file with the resolved configuration. Raises RunError where there is no run."""
    if not (run / CONFIG).is_file():
        raise RunError(f"there is no run in {run}: it has no {CONFIG}")
    return run / CONFIG


def write_summary(run: Path, summary: Mapping[str, object]) -> None:
    """How the run ended, or stands."""
    temporary = run / f"{SUMMARY}.part"
    temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    temporary.replace(run / SUMMARY)


@contextmanager
def in_use(run: Path) -> Iterator[None]:
    """Hold the run for this process alone; the lock ends with the process, however it ends. Raises RunError."""
    try:
        run.mkdir(parents=True, exist_ok=True)
        file = os.open(run / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunError(f"cannot use the run's folder {run}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 200, 0).decode(errors="replace").partition("\n")[0]
            raise RunError(f"{run} is in use by {holder or 'another process'}") from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()}\n{_BOOT_ID.read_text()}".encode(), 0)
        yield
    finally:
        os.close(file)
