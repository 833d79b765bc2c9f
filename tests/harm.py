"""Runs with workers, as commands, and harm done to them from outside: what anybody with a shell could do."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path

from commands import Command, start, wait_until
from crowding import crowded
from tiny_runs import STEPS, TESTS, TIC_TAC_TOE, Sections, records, write_config

ITERATIONS = 40
WORKERS = "parallel.enabled=true", "parallel.num_workers=4"
AHEAD = "parallel.async_learning=true"
BASE: Sections = {
    **TIC_TAC_TOE,
    "run": {"seed": 3, "total_steps": ITERATIONS * 2 * STEPS, "checkpoint_interval": 5},
    "environment": {
        **TIC_TAC_TOE["environment"],
        "path": str(TESTS / "troubled_games.py"),
        "class": "SlowTicTacToe",
        "options": {"pause": 0.001, "random_plies": 2},
        "copies": 8,
    },
    "parallel": {
        **TIC_TAC_TOE["parallel"],
        "worker_timeout": 0.5,
        "max_restarts": 1000,
    },
}
"""Four blocks, so that four workers have something to do; about two seconds."""


class HarmedRun:
    """One run in a folder, with workers."""

    def __init__(self, folder: Path, *overrides: str, base: Sections = BASE) -> None:
        self.folder, self.run = folder, folder / "run"
        write_config(folder, *overrides, base=base)

    def begin(
        self, *words: str, how: str = "quickly", output: Path | None = None, errors: Path | None = None
    ) -> Command:
        """Start it, or go on with it."""
        words = words or ("train", "config.yaml", "--run-dir", "run", "--json")
        return start(self.folder, *words, how=how, output=output, errors=errors)

    def resume(self, *overrides: str, how: str = "quickly") -> Command:
        """Go on with it."""
        return self.begin("resume", "run", *overrides, "--json", how=how)

    def through(self, how: str = "quickly") -> dict[str, object]:
        """Let it run to its end; gives what it says there."""
        return self.begin(how=how).wait().json

    def reached(self) -> int:
        """The last iteration that it has recorded."""
        with suppress(FileNotFoundError, ValueError):
            return max((int(str(line["iteration"])) for line in records(self.run)), default=0)
        return 0


def children(process: int) -> list[int]:
    """The processes that one has started."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def send(process: int, number: int) -> None:
    """Send a signal, if the process is still there."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def is_running(command: Command) -> bool:
    """Whether a command has not ended; one that has is nobody's child any more but a zombie."""
    try:
        return "Z" not in Path(f"/proc/{command.process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def harm_workers(command: Command, chance: random.Random, number: int, times: int) -> int:
    """Send a signal to random workers at random instants while a run goes on; gives how often."""
    done = 0
    while is_running(command) and done < times:
        time.sleep(chance.uniform(0.02, 0.12))
        if workers := children(command.process):
            send(chance.choice(workers), number)
            done += 1
    return done


def harm_throughout(run: HarmedRun, command: Command, chance: random.Random, number: int) -> int:
    """Send a signal to a random worker at a random instant of each iteration; gives how often."""
    done = reached = 0
    while is_running(command):
        if workers := children(command.process):
            send(chance.choice(workers), number)
            done += 1
        wait_for_iteration(run, reached + 1, command)
        reached = run.reached()
        time.sleep(chance.uniform(0, 0.05))
    return done


def group_of(command: Command) -> list[int]:
    """The living processes of a command's group: itself, its workers, and theirs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) == command.process and state not in "ZX":
                found.append(int(folder.name))
    return found


def nobody_left(command: Command, seconds: float = 1.0) -> bool:
    """Whether no process of a command's group is left after so long."""
    until = time.monotonic() + crowded(seconds)
    while group_of(command) and time.monotonic() < until:
        time.sleep(0.005)
    return not group_of(command)


def wait_for_workers(command: Command, count: int = 4) -> None:
    """Wait until so many processes work for a command."""
    wait_until(lambda: len(children(command.process)) >= count)


def wait_for_iteration(run: HarmedRun, iteration: int, command: Command) -> None:
    """Wait until a run has come so far, or has ended."""
    while run.reached() < iteration and is_running(command):
        time.sleep(0.01)
