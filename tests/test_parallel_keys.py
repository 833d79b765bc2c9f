"""The keys of `parallel`: what is out of range is refused in one line that names it; `auto` measures real workers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from keisei import build
from keisei.collect.serial import SerialCollector
from keisei.config import ParallelConfig, load_run
from keisei.errors import ConfigError
from keisei.parallel.manager import ParallelManager
from tiny_runs import TIC_TAC_TOE, write_config

REFUSED: dict[str, tuple[str, ...]] = {
    "enabled": ("perhaps", "2"),
    "num_workers": ("0", "-1", "1.5", "many", "2000"),
    "block_size": ("0", "-4", "two", "3"),
    "rollout_length": ("0", "1.5", "[]"),
    "episodes_per_worker": ("0", "-1", "x"),
    "inference": ("gpu", "1"),
    "model_sync_interval": ("0", "-1", "x"),
    "async_learning": ("maybe",),
    "max_lag": ("0", "101", "x"),
    "queue_maxsize": ("0", "x"),
    "worker_timeout": ("0", "-1", ".nan", "x"),
    "max_restarts": ("-1", "x"),
    "on_failure": ("ignore",),
    "use_shared_memory": ("2",),
    "compression": ("zip", "8"),
    "v_trace": ("2",),
    "use_threads": ("2",),
    "learner_threads": ("0", "2000", "x"),
    "parallel_actions": ("twice",),
    "parallel_training": ("twice",),
    "train_interval": ("0", "x"),
}


KNOWN = [key for key in REFUSED if key in ParallelConfig.model_fields]


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in KNOWN for value in REFUSED[key]])
def test_value_that_is_out_of_range_is_refused_in_a_line_that_names_the_key(
    tmp_path: Path, key: str, value: str
) -> None:
    path = write_config(tmp_path, base=TIC_TAC_TOE)
    with pytest.raises(ConfigError) as refused:
        load_run(path, [f"parallel.{key}={value}"])
    said = str(refused.value)
    assert f"parallel.{key}" in said
    assert "\n" not in said


def test_every_key_is_here() -> None:
    assert ParallelConfig.model_fields.keys() <= REFUSED.keys()


# --- auto ------------------------------------------------------------------------------------------------------------


def chosen(folder: Path, *overrides: str) -> tuple[type, str]:
    """Who collects, and what was said about it."""
    said: list[str] = []
    config = load_run(
        write_config(folder, base=TIC_TAC_TOE), ["parallel.enabled=true", "parallel.num_workers=auto", *overrides]
    )
    collector = build.collector(config, build.game(config), lambda kind, text: said.append(f"{kind}: {text}"))
    collector.close()
    return type(collector), "\n".join(said)


@pytest.mark.usefixtures("quick_workers")
def test_long_run_gets_who_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    kind, said = chosen(tmp_path, "run.total_steps=1000000000")
    found = re.fullmatch(r"mode: (no|2) workers: ([\d,]+) steps/s in one process, ([\d,]+) with 2 workers", said)
    assert found, said
    here, there = (int(number.replace(",", "")) for number in found.groups()[1:])
    assert (kind, found[1]) == ((ParallelManager, "2") if there > here else (SerialCollector, "no"))
