"""`keisei soak`: what is done to workers is seen and mended, and where something does not hold, it says so."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from keisei.bench import soak
from keisei.bench.harm import HARM, INSIDE
from keisei.bench.soak import Soak
from keisei.cli import app
from keisei.parallel.shared_memory import Slab

runner = CliRunner()


def quiet(line: str) -> None:
    pass


def test_a_short_soak_holds_and_says_what_it_did() -> None:
    ran = runner.invoke(
        app, ["soak", "--duration", "2", "--faults", "--seed", "3", "--every", "0.05", "--workers", "2", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["soak"]["seed"] == 3
    assert said["harmed"]
    assert all(one["seen"] and one["mended"] for one in said["harmed"])
    assert all(said["held"].values())
    assert "seed 3" in ran.output


@pytest.mark.slow
@pytest.mark.parametrize("kind", HARM)
def test_each_kind_of_harm_is_seen_and_mended(kind: str) -> None:
    outcome = soak.run(Soak(seconds=2.0, seed=1, every=0.05, workers=2, faults=True, kinds=(kind,)), quiet)
    assert all(outcome.held.values()), outcome
    assert outcome.harmed


def test_without_checksum_a_stray_write_is_not_seen_and_the_soak_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slab, "complaint", lambda *ignored: "")
    monkeypatch.setattr("keisei.bench.harm.SEEN_SECONDS", 1.0)
    kinds = ("stray write into a sealed slab",)
    assert kinds[0] in INSIDE
    outcome = soak.run(Soak(seconds=0.3, seed=1, every=0.01, workers=1, faults=True, kinds=kinds), quiet)
    assert not outcome.held["every fault seen"]
    assert not outcome.held["the same weights, bit for bit"]


def test_without_faults_nothing_is_done() -> None:
    outcome = soak.run(Soak(seconds=0.2, seed=1, every=0.01, workers=1, faults=False), quiet)
    assert not outcome.harmed
    assert outcome.restarts == 0
    assert all(outcome.held.values())
