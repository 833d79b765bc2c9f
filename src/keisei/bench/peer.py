"""Peers: other people's programs, run in `.venv-peers…` and asked to measure themselves, one round at a time.

They are separate programs for two reasons: some are under licences that must not reach this package, and their
dependencies need not fit ours. The other end of the line is `benchmarks/runner.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from keisei.bench.harness import Contender, Sample
from keisei.errors import WorkerError

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "benchmarks"
_END_SECONDS = 10.0
"""So long a peer may take to stop its own workers."""


class Peer:
    """A running program of a peer; between requests it sleeps."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self.name = name
        self._process = process
        greeting = self._listen()
        self.version = str(greeting["version"])

    def ask(self, measure: str, seconds: float) -> Sample:
        """Let it measure for about so long; raises `WorkerError` where it fails."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has died, and listening says so
            print(json.dumps({"measure": measure, "seconds": seconds}), file=self._process.stdin, flush=True)
        answer = self._listen()
        return Sample(float(answer["work"]), float(answer["seconds"]))

    def _listen(self) -> dict[str, str | float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"peer {self.name} ended with status {self._process.wait()} instead of answering")
        answer: dict[str, str | float] = json.loads(line)
        return answer


@dataclass(frozen=True)
class PeerContender:
    """One measure of a peer, as a contender."""

    peer: Peer
    measure_name: str

    @property
    def name(self) -> str:
        """The peer and what it measures, as in `cshogi.perft5`."""
        return f"{self.peer.name}.{self.measure_name}"

    def measure(self, seconds: float) -> Sample:
        """Ask the peer."""
        return self.peer.ask(self.measure_name, seconds)


def contenders_of(peer: Peer | None, measures: Sequence[str]) -> list[Contender]:
    """The peer's measures as contenders; none where it is not installed."""
    return [] if peer is None else [PeerContender(peer, measure) for measure in measures]


def note_on(peer: Peer | None, name: str) -> str:
    """Which version was measured, or how to get one."""
    if peer is None:
        return f"{name} is not installed, so nothing is compared with it: run `make bench-peers`"
    return f"{peer.name} is version {peer.version}"


def python_of(name: str) -> Path:
    """The interpreter of a peer: that of `.venv-peers`, or of an environment of its own where there is one."""
    own = ROOT / f".venv-peers-{name}"
    return (own if own.exists() else ROOT / ".venv-peers") / "bin" / "python"


@contextmanager
def running_peer(name: str, python: Path | None = None, programs: Path = PROGRAMS) -> Iterator[Peer | None]:
    """The peer's program while it runs, on the cores of this thread; None where it is not installed."""
    python, program = python or python_of(name), programs / f"peer_{name}.py"
    if not (python.exists() and program.exists()):
        yield None
        return
    with subprocess.Popen(
        [python, "-E", "-s", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Peer(process, name)
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Let the program end by itself, which is how its workers end, too; then end what is left."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
