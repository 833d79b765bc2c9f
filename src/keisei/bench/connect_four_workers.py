"""How fast PPO learns the peers' own connect four in Python, unchanged, with everything that two cores can give.

Sizes are those of `connect_four`. Keisei plays in two worker processes, through its Gymnasium adapter, and learns
meanwhile; each peer runs in every mode that it has.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

from keisei.bench.connect_four import UNIT, Training
from keisei.bench.harness import Measurement, Report, Result, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.bench.peer import PROGRAMS, contenders_of, note_on, running_peer
from keisei.config import load_run
from keisei.threads import torch_threads

OURS = "c4_workers"
MODES: Mapping[str, Sequence[str]] = {
    "cleanrl": ("in_process", "workers"),
    "maskable_ppo": ("in_process", "workers"),
    "sample_factory": ("in_process", "workers", "workers_batched", "workers_synchronous"),
    "tianshou": ("in_process", "workers", "workers_shared_memory"),
    "rllib": ("in_process", "workers"),
}
"""What each peer can be asked to measure."""


def run(settings: Settings) -> Report:
    """Train in turns with the peers, on two cores, by the clock on the wall."""
    cores = [*sorted(os.sched_getaffinity(0) - {settings.core})[:1], settings.core]
    machine = describe(cores)
    with held_to(cores), torch_threads(1), ExitStack() as stack:
        ours = stack.enter_context(training())
        peers = {name: stack.enter_context(running_peer(name)) for name in MODES}
        theirs = [one for name, peer in peers.items() for one in contenders_of(peer, MODES[name])]
        measured = take_turns([ours, *theirs], settings)
    results = compared(measured)
    notes = [note_on(peer, name) for name, peer in peers.items()]
    notes += [f"{name} is at its best in its mode '{mode}'" for name, mode in best_modes(measured).items()]
    return Report("connect-four-workers", machine, tuple(results), tuple(notes))


def best_modes(measured: Mapping[str, Measurement]) -> dict[str, str]:
    """The mode in which each peer was fastest."""
    rates = {name: median(one.rates) for name, one in measured.items() if name != OURS}
    best: dict[str, str] = {}
    for name in sorted(rates, key=lambda name: rates[name]):
        peer, _, mode = name.partition(".")
        best[peer] = mode
    return best


def compared(measured: Mapping[str, Measurement]) -> list[Result]:
    """Ours against the best mode of each peer, then every mode by itself."""
    ours, best = measured[OURS], best_modes(measured)
    results = [result_against(ours, UNIT, measured[f"{name}.{mode}"], name) for name, mode in best.items()]
    return (results or [result(ours, UNIT)]) + [result(one, UNIT) for name, one in measured.items() if name != OURS]


@contextmanager
def training(*overrides: str) -> Iterator[Training]:
    """A training that collects ahead in two worker processes."""
    with the_peers_game_found():
        ours = Training(load_run(PROGRAMS / "c4_workers.yaml", overrides), OURS, time.perf_counter)
        try:
            yield ours
        finally:
            ours.close()


@contextmanager
def the_peers_game_found() -> Iterator[None]:
    """Let this process and its workers import the peers' game."""
    before = os.environ.get("PYTHONPATH")
    sys.path.append(str(PROGRAMS))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [before, str(PROGRAMS)]))
    try:
        yield
    finally:
        sys.path.remove(str(PROGRAMS))
        os.environ.pop("PYTHONPATH")
        os.environ |= {} if before is None else {"PYTHONPATH": before}
