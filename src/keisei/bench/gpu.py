"""What a GPU does with Keisei's networks: bare passes, collecting, training and populations beside each other.

On a machine without one the same code runs on the CPU, in tiny sizes, so that it is known to run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from keisei.bench.gpu_busy import BusyGpu
from keisei.bench.gpu_network import Parts, Shape, Tower, Watched, backward, collecting, forward, training
from keisei.bench.gpu_population import measure_population
from keisei.bench.harness import Contender, Report, Result, Settings, result, result_against, round_off, take_turns
from keisei.bench.machine import describe
from keisei.bench.peer import contenders_of, note_on, running_peer
from keisei.bench.self_play import Form, ReplayedSelfPlay
from keisei.device.place import available
from keisei.threads import torch_threads

PARTS = ("env", "networks", "population")
MOVES, SAMPLES = "moves/s", "samples/s"
_PGX = "pgx.shogi"


@dataclass(frozen=True)
class Sizes:
    """How large everything is that is measured."""

    shape: Shape
    trained: Tower
    collected: Tower
    agents: int


def sizes(gpu: bool) -> Sizes:
    """Those of the numbers to reach, or tiny ones."""
    threads = len(os.sched_getaffinity(0))
    if gpu:
        shape = Shape(games=32_768, groups=4, threads=threads, rollout=16, minibatch=16_384)
        return Sizes(shape, Tower(10, 128), Tower(6, 96), agents=128)
    shape = Shape(games=16, groups=2, threads=min(2, threads), rollout=4, minibatch=32)
    return Sizes(shape, Tower(1, 8), Tower(1, 4), agents=4)


def run(settings: Settings, parts: Sequence[str] = PARTS, tiny: bool = False) -> Report:
    """Measure what is asked for; a part that fails is named in the notes, and the others go on."""
    kind = "cpu" if tiny else available("auto")
    of, notes, results = sizes(kind != "cpu"), [_where(kind)], list[Result]()
    ways: Mapping[str, Callable[[], list[Result]]] = {
        "env": lambda: measure_environment(of.shape, settings, notes),
        "networks": lambda: measure_networks(of, kind, settings, notes),
        "population": lambda: measure_population(of.agents, kind, settings),
    }
    for name in parts:
        try:
            with torch_threads(1 if kind == "cpu" else torch.get_num_threads()):
                found = ways[name]()
            results += found
            for one in found:
                settings.say(f"{one.name}: {one.value:,} {one.unit}")
        except (RuntimeError, OSError, AssertionError, ImportError) as error:
            notes.append(f"{name} is not measured: {type(error).__name__}: {error}")
    return Report("gpu", describe(sorted(os.sched_getaffinity(0))), tuple(results), tuple(notes))


def _where(kind: str) -> str:
    if kind == "cpu":
        return f"no GPU is measured: the same code ran on the CPU in tiny sizes (torch {torch.__version__})"
    gpu = torch.cuda.get_device_properties(kind)
    return f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, torch {torch.__version__}, CUDA {torch.version.cuda}"


def measure_environment(shape: Shape, settings: Settings, notes: list[str]) -> list[Result]:
    """Packed positions and legal lists on all processors, beside Pgx where it is installed."""
    packed = Form("packed", "list")
    name = f"env_packed_{shape.threads}_threads"
    ours = ReplayedSelfPlay(name, packed, shape.games, threads=shape.threads, clock=time.perf_counter)
    with running_peer("pgx") as pgx:
        measured = take_turns([ours, *contenders_of(pgx, ["shogi"])], settings)
        if pgx is None:
            notes.append(note_on(None, "pgx"))
    ours.close()
    theirs = measured.get(_PGX)
    found = [result_against(measured[name], MOVES, theirs, "pgx")]
    return found if theirs is None else [*found, result(theirs, MOVES)]


def measure_networks(of: Sizes, kind: str, settings: Settings, notes: list[str]) -> list[Result]:
    """One network through and through, the other acting only."""
    found = []
    for tower, whole in ((of.trained, True), (of.collected, False)):
        settings.say(f"compiling: {tower.name}")
        parts = Parts(tower, of.shape, kind)
        try:
            found += _of_network(parts, whole, settings, notes)
        finally:
            parts.close()
    return found


def _of_network(parts: Parts, whole: bool, settings: Settings, notes: list[str]) -> list[Result]:
    name, busy = parts.tower.name, BusyGpu()
    contenders: list[Contender] = [forward(parts), collecting(parts)]
    if whole:
        contenders += [backward(parts), Watched(training(parts), busy)]
    measured = take_turns(contenders, settings)
    bare = measured[f"forward_{name}"]
    results = [result_against(measured[f"collect_{name}"], MOVES, bare, "forward"), result(bare, MOVES)]
    if whole:
        steps = measured[f"backward_{name}"]
        limit = replace(
            steps, name="limit", rates=tuple(_limit(*pair) for pair in zip(bare.rates, steps.rates, strict=True))
        )
        results += [result_against(measured[f"train_{name}"], MOVES, limit, "limit"), result(steps, SAMPLES)]
        if busy.percent is not None:
            results.append(Result("gpu_busy", round_off(busy.percent), "%"))
        else:
            notes.append("gpu_busy is not measured: there is no nvidia-smi")
    results += [Result(f"{key}_{name}", round_off(value), _unit(key)) for key, value in parts.numbers.items()]
    if parts.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(parts.device) / 2**30
        results.append(Result(f"peak_memory_{name}", round_off(peak), "GiB"))
    return results


def _limit(forward_rate: float, backward_rate: float) -> float:
    """Moves per second where each is computed once to act and once to learn, and nothing else takes time."""
    return 1 / (1 / forward_rate + 1 / backward_rate)


def _unit(key: str) -> str:
    return "s" if key.endswith("seconds") else "bytes"
