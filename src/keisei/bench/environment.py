"""How fast many games of Shogi are played at once, and how much memory a game takes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import keisei
from keisei.bench.harness import Measurement, Report, Result, Settings, result, result_against, round_off, take_turns
from keisei.bench.machine import describe, held_to
from keisei.bench.memory import resident_bytes
from keisei.bench.peer import contenders_of, note_on, running_peer
from keisei.bench.self_play import Form, ReplayedSelfPlay, SelfPlay
from keisei.environment import new_observation

UNIT = "plies/s"
COPIES, FEWER_COPIES = 1024, 256
COPIES_IN_MEMORY = 8192

U8_LIST = Form("uint8", "list")
F32_MASK = Form("float32", "mask")
PACKED_LIST = Form("packed", "list")

CSHOGI = "cshogi.planes_119"  # its networks' planes, and a mask
COMPARED = ("env_u8_list", "env_u8_list_256", "env_f32_mask", "env_f32_mask_256", "env_f32_mask_drawn")


def run(settings: Settings) -> Report:
    """Play random games in many copies, against cshogi's board driven from Python."""
    machine = describe([settings.core])
    memory = measure_memory()
    with held_to([settings.core]), running_peer("cshogi") as cshogi:
        ours = self_plays()
        contenders = [*ours, *contenders_of(cshogi, ["planes_104", "play"])]
        contenders[2:2] = contenders_of(cshogi, ["planes_119"])  # beside those that are compared with it
        measured = take_turns(contenders, settings)
        notes = [note_on(cshogi, "cshogi")]
        for games in ours:
            games.close()
    results = compared(measured)
    others = os.sched_getaffinity(0) - {settings.core}
    if others:
        results += measure_threads(settings, second_core=min(others))
        notes.append(
            "env_1_thread and env_2_threads had two cores and the clock on the wall; the others processor seconds"
        )
    else:
        notes.append("two threads were not measured: there is only one core")
    return Report("environment", machine, (*results, *memory), tuple(notes))


def self_plays() -> list[SelfPlay]:
    """What is measured on one core.

    `env_f32_mask_drawn` differs from `env_f32_mask` in that finding and drawing moves in the mask by NumPy counts, too.
    """
    return [
        SelfPlay("env_u8_list", U8_LIST, COPIES),
        SelfPlay("env_u8_list_256", U8_LIST, FEWER_COPIES),
        ReplayedSelfPlay("env_f32_mask", F32_MASK, COPIES),
        ReplayedSelfPlay("env_f32_mask_256", F32_MASK, FEWER_COPIES),
        SelfPlay("env_f32_mask_drawn", F32_MASK, COPIES),
        SelfPlay("env_packed_list", PACKED_LIST, COPIES),
        SelfPlay("env_packed_list_256", PACKED_LIST, FEWER_COPIES),
    ]


def compared(measured: Mapping[str, Measurement]) -> list[Result]:
    """Every measurement as a result; the ones that have a like with cshogi compared with it."""
    theirs = measured.get(CSHOGI)
    return [
        result_against(one, UNIT, theirs, "cshogi") if one.name in COMPARED else result(one, UNIT)
        for one in measured.values()
    ]


def measure_threads(settings: Settings, second_core: int) -> list[Result]:
    """One thread and two, on two cores, by the clock on the wall."""
    with held_to([settings.core, second_core]):
        one = SelfPlay("env_1_thread", U8_LIST, COPIES, threads=1, clock=time.perf_counter)
        two = SelfPlay("env_2_threads", U8_LIST, COPIES, threads=2, clock=time.perf_counter)
        measured = take_turns([one, two], settings)
        one.close()
        two.close()
    return [
        result(measured["env_1_thread"], UNIT),
        result_against(measured["env_2_threads"], UNIT, measured["env_1_thread"], "one"),
    ]


def measure_memory() -> list[Result]:
    """Bytes of a saved game, and by how much this process grows per game, without the caller's arrays."""
    before = resident_bytes()
    environment = keisei.make("shogi", copies=COPIES_IN_MEMORY, seed=0, threads=1, observation="packed", legal="list")
    made = resident_bytes() - before
    observation = new_observation(environment)
    for one in observation:
        one.values.fill(0)
        one.legal.actions.fill(0)
    before = resident_bytes()
    environment.reset(observation)
    grown = made + resident_bytes() - before
    saved = environment.state_bytes
    environment.close()
    return [
        Result("bytes_per_game", saved, "bytes"),
        Result("resident_bytes", round_off(grown / COPIES_IN_MEMORY), "bytes"),
    ]
