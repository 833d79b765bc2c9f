"""How fast move trees are counted."""

from __future__ import annotations

import time

from keisei.bench.harness import Report, Sample, Settings, result, result_against, take_turns
from keisei.bench.machine import describe, held_to
from keisei.bench.peer import contenders_of, note_on, running_peer
from keisei.errors import ContractError
from keisei.shogi import Board

DEPTH = 5
NODES = 19_861_490
UNIT = "nodes/s"


class Perft:
    """Our perft from the start position, from Python."""

    name = "perft5"

    def measure(self, seconds: float) -> Sample:
        """Count the tree again and again; in processor seconds."""
        nodes = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds:
            found = Board().perft(DEPTH)
            if found != NODES:
                raise ContractError(f"perft {DEPTH} of the start position must be {NODES}, not {found}")
            nodes += found
        return Sample(nodes, spent)


def run(settings: Settings) -> Report:
    """Count move trees, against cshogi driven from Python."""
    machine = describe([settings.core])
    with held_to([settings.core]), running_peer("cshogi") as cshogi:
        measured = take_turns([Perft(), *contenders_of(cshogi, ["perft5"])], settings)
        note = note_on(cshogi, "cshogi")
    theirs = measured.get("cshogi.perft5")
    results = [result_against(measured["perft5"], UNIT, theirs, "cshogi")]
    if theirs is not None:
        results.append(result(theirs, UNIT))
    return Report("perft", machine, tuple(results), (note,))
