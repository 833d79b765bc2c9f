"""`keisei resume` as a user meets it: what goes on, what is refused, and checkpoints that are damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from commands import keisei, train
from keisei import run_folder
from keisei.checkpoint import folder_of, latest, numbers
from keisei.history import LINES
from tiny_runs import (
    STEPS,
    events,
    lines,
    records,
    sha256,
    summary,
    total,
    tree,
)

# --- going on --------------------------------------------------------------------------------------------------------


def test_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    first = train(tmp_path).json
    before = tree(tmp_path / "run")
    again = keisei(tmp_path, "resume", "run")
    assert (again.status, again.errors) == (0, "")
    assert again.output.startswith("run is finished.")
    assert keisei(tmp_path, "resume", "run", "--json").json["weights_sha256"] == first["weights_sha256"]
    assert tree(tmp_path / "run") == before


def test_finished_run_goes_on_for_longer(tmp_path: Path) -> None:
    train(tmp_path, total(4))
    said = keisei(tmp_path, "resume", "run", total(6), "run.keep_checkpoints=9", "--json").json
    assert (said["iterations"], said["resumed"]) == (6, 1)
    for place in (tmp_path / "run", tmp_path / str(said["checkpoint"])):
        resolved = yaml.safe_load((place / run_folder.CONFIG).read_text(encoding="utf-8"))
        assert resolved["run"]["total_steps"] == 6 * STEPS
        assert resolved["run"]["keep_checkpoints"] == 9
    assert [record["iteration"] for record in records(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("override", ["learner.learning_rate=0.1", "run.seed=4", "environment.copies=8", "network={}"])
def test_keys_that_change_bits_are_refused_by_name(tmp_path: Path, override: str) -> None:
    train(tmp_path, total(1))
    before = tree(tmp_path / "run")
    refusal = keisei(tmp_path, "resume", "run", override).refusal
    assert refusal.startswith(f"'{override.partition('=')[0]}' cannot change when a run goes on")
    assert tree(tmp_path / "run") == before


def test_run_killed_before_its_summary_is_found_finished(tmp_path: Path) -> None:
    first = train(tmp_path, total(2)).json
    run_folder.write_summary(tmp_path / "run", {"state": "running"})
    assert keisei(tmp_path, "resume", "run", "--json").json["weights_sha256"] == first["weights_sha256"]
    assert summary(tmp_path / "run")["state"] == "finished"


def test_metrics_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    through = train(tmp_path, total(4), "run.checkpoint_interval=2").json
    run = tmp_path / "run"
    shutil.rmtree(folder_of(run, 4))
    before = lines(run)
    assert keisei(tmp_path, "resume", "run", "--json").json["weights_sha256"] == through["weights_sha256"]
    kept = [line for line in before if line["iteration"] in (1, 2) and "event" not in line]
    assert records(run)[:2] == kept, "what the checkpoint knew was recorded anew"
    assert [record["iteration"] for record in records(run)] == [1, 2, 3, 4]
    assert len(list((run / "tensorboard").iterdir())) == 2


def test_event_files_of_all_sessions_are_kept(trained: Path) -> None:
    sizes = [path.stat().st_size for path in sorted((trained / "tensorboard").iterdir())]
    assert len(sizes) == 3
    assert min(sizes) > 1000
    assert [record["iteration"] for record in records(trained)] == [1, 2, 3, 4, 5, 6]


def test_numbers_that_are_missing_are_an_alarm(tmp_path: Path) -> None:
    train(tmp_path, total(2))
    (tmp_path / "run" / LINES).unlink()
    keisei(tmp_path, "resume", "run", total(3))
    assert events(tmp_path / "run", "alarm") == [f"{LINES} is gone: the numbers before the checkpoint are missing"]


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints 0, 2, 4, 6, to be copied; no schedule of it depends on its length."""
    folder = tmp_path_factory.mktemp("trained")
    train(folder, total(2), "learner.final_learning_rate=0.01", "learner.final_entropy=0.01")
    for iterations in (4, 6):
        keisei(folder, "resume", "run", total(iterations), "run.keep_checkpoints=4")
    assert numbers(folder / "run") == [0, 2, 4, 6]
    return folder / "run"


def cut(checkpoint: Path) -> None:
    file = checkpoint / "weights.safetensors"
    os.truncate(file, file.stat().st_size // 2)


def flip(checkpoint: Path) -> None:
    file = checkpoint / "optimizer.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def lose(checkpoint: Path) -> None:
    (checkpoint / "environment.safetensors").unlink()


def blow_up(checkpoint: Path) -> None:
    """Weights that are not finite, under a manifest that fits them."""
    file, manifest = checkpoint / "weights.safetensors", checkpoint / "manifest.json"
    old = file.read_bytes()
    new = old[:-4] + b"\x00\x00\xc0\x7f"
    file.write_bytes(new)
    said = json.loads(manifest.read_text(encoding="utf-8"))
    said["files"][file.name]["sha256"] = hashlib.sha256(new).hexdigest()
    manifest.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "weights.safetensors has"),
        (flip, "optimizer.safetensors"),
        (lose, "environment.safetensors"),
        (blow_up, "is not finite"),
    ],
)
def test_damaged_newest_checkpoint_is_refused_and_the_next_older_good_one_taken(
    trained: Path, tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    before = sha256(folder_of(run, 6))
    for number in (4, 6):
        damage(folder_of(run, number))
    said = keisei(tmp_path, "resume", "run", "--json").json
    assert (said["iterations"], said["weights_sha256"]) == (6, before)
    assert said["refused_checkpoints"] == 2
    refused, older, cost = events(run, "alarm")
    assert "00000006" in refused
    assert "00000004" in older
    assert reason in refused
    assert cost == "the next older one is taken, which costs 4 iterations"
    assert not latest(run).refused, "a damaged checkpoint is still there"


def test_run_without_a_good_checkpoint_is_refused_and_loses_nothing(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    for number in numbers(run):
        cut(folder_of(run, number))
    before = tree(run)
    refusal = keisei(tmp_path, "resume", "run", total(9)).refusal
    assert refusal.startswith("run has no checkpoint that can be used: ")
    assert tree(run) == before
