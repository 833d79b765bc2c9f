"""Real `keisei` commands without the seconds that importing torch takes: `python commands.py` imports it once, and
forks a process for each command. A line to it is a JSON list; it answers each with a number.

    ["start", ARGUMENTS, FOLDER, OUTPUT, ERRORS]   the process number; its workers are fresh, as always
    ["quickly", the same]                          its workers are forked, and none waits long to be replaced
    ["without …", the same]                        and without a protection of `removed.py`
    ["wait", PROCESS, SECONDS]                     the exit status, negative for a signal; -1000 where it still runs
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from crowding import crowded
from removed import REMOVALS
from tiny_runs import TIC_TAC_TOE, Sections, write_config

RUNNING = -1000
MODULES = """
tensorboard.compat.proto.event_pb2 tensorboard.compat.proto.summary_pb2 tensorboard.summary.writer.record_writer
keisei.arena.evaluation keisei.build keisei.cli keisei.collect.serial keisei.learning.ppo keisei.shogi.captures
keisei.parallel.manager keisei.train keisei.view
"""
ANSWER_SECONDS = 60.0


class Forge:
    """The process that forks commands."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def ask(self, *request: object) -> int:
        """Send a request; gives the answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self.process.communicate(timeout=10)


@cache
def forge() -> Forge:
    """The one of this test session."""
    made = Forge()
    atexit.register(made.close)
    return made


@dataclass
class Command:
    """A command that was started, in a process group of its own."""

    process: int
    output: Path
    errors: Path

    def send(self, number: int) -> None:
        """Send a signal to it."""
        os.kill(self.process, number)

    def wait(self, seconds: float = ANSWER_SECONDS) -> Done:
        """Its end; kills it where that does not come."""
        status = forge().ask("wait", self.process, crowded(seconds))
        if status == RUNNING:
            self.send(signal.SIGKILL)
            forge().ask("wait", self.process, seconds)
            raise AssertionError(f"it still ran after {seconds} s, and said: {self.errors.read_text()}")
        return Done(status, _text(self.output), _text(self.errors))


@dataclass
class Done:
    """How a command ended, and what it said."""

    status: int
    output: str
    errors: str

    @property
    def json(self) -> dict[str, object]:
        """The last line of its output."""
        assert self.status == 0, self.errors
        found = json.loads(self.output.splitlines()[-1])
        assert isinstance(found, dict)
        return found

    @property
    def refusal(self) -> str:
        """The one line that a command that failed says at its end."""
        assert self.status == 2, (self.status, self.output, self.errors)
        *before, last = self.errors.splitlines()
        assert last.startswith("keisei: "), self.errors
        assert "Traceback" not in self.errors
        assert not any(line.startswith("keisei: ") for line in before)
        return last.removeprefix("keisei: ")


def start(
    folder: Path, *arguments: object, output: Path | None = None, errors: Path | None = None, how: str = "start"
) -> Command:
    """Start `keisei …` in a folder; how workers start is the first word to the process that forks."""
    number = len(list(folder.glob("out-*.txt")))
    output = output or folder / f"out-{number}.txt"
    errors = errors or folder / f"err-{number}.txt"
    if not output.exists():
        output.touch()
    words = [str(word) for word in arguments]
    return Command(forge().ask(how, words, str(folder), str(output), str(errors)), output, errors)


def keisei(folder: Path, *arguments: object, how: str = "start") -> Done:
    """Run `keisei …` in a folder to its end."""
    return start(folder, *arguments, how=how).wait()


def train(folder: Path, *overrides: str, base: Sections = TIC_TAC_TOE) -> Done:
    """A run in `run`, from its configuration to its end."""
    write_config(folder, *overrides, base=base)
    return keisei(folder, "train", "config.yaml", "--run-dir", "run", "--json")


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + crowded(seconds)
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.001)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# --- the process that forks ------------------------------------------------------------------------------------------


def _load() -> None:
    """Import all that commands import when they run."""
    import importlib

    import torch

    for name in MODULES.split():
        importlib.import_module(name)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports much more


def _start(arguments: list[str], folder: str, output: str, errors: str) -> int:
    process = os.fork()
    if process:
        return process
    try:
        _become(arguments, folder, output, errors)
    finally:
        os._exit(1)  # a signal came before it was a command, or after


def _start_without(name: str, arguments: list[str], folder: str, output: str, errors: str) -> int:
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        REMOVALS[name](patch)
        return _start_quickly(arguments, folder, output, errors)


def _start_quickly(arguments: list[str], folder: str, output: str, errors: str) -> int:
    from keisei.parallel import crew, spawner
    from quick_workers import fork

    before = spawner._start, crew._LONGEST_PAUSE
    spawner._start, crew._LONGEST_PAUSE = fork, 0.2
    try:
        return _start(arguments, folder, output, errors)
    finally:
        spawner._start, crew._LONGEST_PAUSE = before


def _become(arguments: list[str], folder: str, output: str, errors: str) -> None:
    import traceback

    from keisei.cli import main

    os.setpgid(0, 0)
    os.chdir(folder)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, output, os.O_WRONLY | os.O_NOCTTY),
        (2, errors, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY),
    ):
        file = os.open(path, flags, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.argv = ["keisei", *arguments]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = 120  # as Python ends where its output cannot be written
    os._exit(status)


def _wait(process: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return RUNNING


def _serve() -> None:
    _load()
    tasks: dict[str, Callable[..., int]] = {"start": _start, "quickly": _start_quickly, "wait": _wait}
    tasks |= {name: partial(_start_without, name) for name in REMOVALS}
    for line in sys.stdin:
        task, *arguments = json.loads(line)
        print(tasks[task](*arguments), flush=True)


if __name__ == "__main__":
    _serve()
