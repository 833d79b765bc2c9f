"""How fast one process collects by the size of its blocks; the network is that of `configs/shogi-quick.yaml`."""

from __future__ import annotations

from keisei import build
from keisei.bench.harness import Report, Sample, Settings, result, result_against, take_turns
from keisei.bench.learning import CONFIG, UNIT, Playing
from keisei.bench.machine import describe, held_to
from keisei.config import load_run
from keisei.threads import torch_threads

SIZES = (8, 16, 32, 64, 128, 256)
COPIES = 256


class Blocks:
    """Collecting 256 games in blocks of one size."""

    def __init__(self, size: int) -> None:
        self.name = f"blocks_of_{size}"
        config = load_run(CONFIG, (f"environment.copies={COPIES}", f"parallel.block_size={size}"))
        self._playing = Playing(build.serial(config, build.game(config), steps=16))

    def measure(self, seconds: float) -> Sample:
        """Play whole rollouts for about so long; in processor seconds."""
        return self._playing.measure(seconds)


def run(settings: Settings) -> Report:
    """Collect in blocks of each size, against the largest."""
    machine = describe([settings.core])
    with held_to([settings.core]), torch_threads(1):
        contenders = [Blocks(size) for size in SIZES]
        measured = take_turns(contenders, settings)
    largest = contenders[-1].name
    results = [result_against(measured[one.name], UNIT, measured[largest], largest) for one in contenders[:-1]]
    return Report("blocks", machine, (*results, result(measured[largest], UNIT)), (f"{COPIES} games in all",))
