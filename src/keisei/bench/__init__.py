"""What `keisei bench` runs: each benchmark measures and gives a `Report`; nothing here prints.

`harness` lets contenders take turns, `machine` says where, `peer` talks to other people's programs (the ones in
`benchmarks/`); every other module is one benchmark, with a function `run`, or a part of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from keisei.bench.harness import Report, Settings

BENCHMARKS: Mapping[str, str] = {
    "perft": "Count move trees, against cshogi.",
    "environment": "Play random games in many copies, against cshogi.",
    "learning": "Play and learn Shogi, against the bare passes of the network.",
    "blocks": "Play Shogi in blocks of several sizes, in one process.",
    "transport": "Hand rollouts from process to process, against a pickled queue.",
    "sync": "Hand weights from process to process, against a queue of state dicts.",
    "connect-four": "Train on connect four by PPO, against CleanRL's manner and MaskablePPO.",
    "connect-four-workers": "Train on the peers' connect four in worker processes, against five of them.",
    "gridworld": "Live and learn in gridworlds: worlds alone, acting, training, whole epochs.",
    "async-learning": "Learn connect four from five seeds, while collecting and not.",
    "staleness": "Learn connect four with weights that are published seldom, or lag behind.",
}
"""The benchmarks, by name, and what each does. A module is loaded only when it is run."""


def run(name: str, settings: Settings) -> Report:
    """Run the benchmark called `name`."""
    module = import_module(f"keisei.bench.{name.replace('-', '_')}")
    report: Report = module.run(settings)
    return report
