"""Past selves: which versions there are, where their weights come from, and that everybody plays against the same."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from harm import HarmedRun, harm_workers
from keisei.collect.blocks import BlockRules
from keisei.collect.collector import Weights
from keisei.collect.frozen import OF_PAST, ChooseFrozen, FrozenPool, first_of
from keisei.collect.past import PastRules, PastSelves
from keisei.errors import ConfigError
from keisei.policy import Actor
from plain_network import stubborn_policy
from small_shogi import small_network, small_policy
from tiny_runs import STEPS, final_sha256, sha256, stop_after, training
from workers import Log, managed, network, rules

PAST = "opponents={past_selves: 3, past_interval: 2, past_share: 0.7}"


def weights(seed: int) -> Weights:
    return small_network(seed=seed).state_dict()


def pool(depth: int = 3, interval: int = 2) -> PastSelves:
    return PastSelves(small_policy, PastRules(depth, interval))


def versions(selves: PastSelves) -> list[int]:
    return [one.version for one in selves.kept]


# --- the pool


def test_new_past_self_comes_every_so_many_versions_and_the_oldest_goes() -> None:
    selves = pool()
    found = []
    for version in range(10):
        selves.offer(weights(version), version)
        found.append(versions(selves))
    assert found[:5] == [[], [], [2], [2], [2, 4]]
    assert found[5:] == [[2, 4], [2, 4, 6], [2, 4, 6], [4, 6, 8], [4, 6, 8]]


def test_versions_that_are_published_seldom_or_twice_give_the_same_pool() -> None:
    selves = pool(interval=4)
    for version in (0, 3, 6, 6, 9, 12, 12):
        selves.offer(weights(version), version)
    assert versions(selves) == [6, 12]


def test_past_self_plays_with_the_weights_that_it_was_offered() -> None:
    selves, network = pool(), small_network(seed=9)
    selves.offer(network.state_dict(), 2)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    found = selves[0].network.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in weights(9).items())


def test_saved_pool_is_the_same_pool() -> None:
    selves, other = pool(), pool()
    for version in (2, 4, 6, 8):
        selves.offer(weights(version), version)
    other.offer(weights(1), 5)
    other.load_state(selves.state())
    assert versions(other) == [4, 6, 8]
    for one, same in zip(selves, other, strict=True):
        mine, theirs = one.network.state_dict(), same.network.state_dict()
        assert all(torch.equal(theirs[name], tensor) for name, tensor in mine.items())
    other.load_state({"states": torch.zeros(1)})
    assert len(other) == 0


def test_no_pool_keeps_nothing() -> None:
    selves = pool(depth=0)
    assert not selves.offer(weights(0), 100)
    assert selves.state() == {}


def test_checkpoints_come_first_and_past_selves_play_in_the_other_blocks() -> None:
    low, high = stubborn_policy(3, 1), stubborn_policy(3, 2)
    checkpoints = FrozenPool([low], 0.5, 1, 4)
    choose = first_of([checkpoints, FrozenPool([high], 0.5, 1, 4, OF_PAST)])
    found = [[one.policy for one in choose(block, 3)] for block in range(2000)]
    assert [policies == [low] for policies in found] == [bool(checkpoints(block, 3)) for block in range(2000)]
    assert abs(sum(policies == [high] for policies in found) / 2000 - 0.25) < 0.04
    assert all(len(policies) <= 1 for policies in found)


# --- the same bits, whoever plays


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run ends with whose blocks are played in a row."""
    return ends_with(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def plain_ahead(tmp_path_factory: pytest.TempPathFactory) -> str:
    return ends_with(tmp_path_factory.mktemp("ahead"), "parallel.async_learning=true")


def ends_with(folder: Path, *overrides: str) -> str:
    return str(HarmedRun(folder, PAST, *overrides).through()["weights_sha256"])


def test_past_selves_change_what_a_run_ends_with(tmp_path: Path, plain: str) -> None:
    assert str(HarmedRun(tmp_path).through()["weights_sha256"]) != plain


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("shared", ["true", "false"])
def test_workers_play_against_the_same_past_selves(tmp_path: Path, plain: str, workers: int, shared: str) -> None:
    overrides = f"parallel.num_workers={workers}", f"parallel.use_shared_memory={shared}"
    assert ends_with(tmp_path, "parallel.enabled=true", *overrides) == plain


def test_killed_workers_change_no_bit(tmp_path: Path, plain: str) -> None:
    run = HarmedRun(tmp_path, PAST, "parallel.enabled=true", "parallel.num_workers=4")
    command = run.begin()
    assert harm_workers(command, random.Random(5), signal.SIGKILL, times=6) >= 3
    assert command.wait().json["weights_sha256"] == plain


def test_learning_ahead_meets_the_same_past_selves_in_any_number_of_processes(tmp_path: Path, plain_ahead: str) -> None:
    overrides = "parallel.async_learning=true", "parallel.enabled=true", "parallel.num_workers=3"
    assert ends_with(tmp_path, *overrides) == plain_ahead


def test_one_process_that_acts_for_all_blocks_meets_them_in_workers_too(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here = ends_with(tmp_path / "here", "parallel.inference=learner")
    there = ("parallel.enabled=true", "parallel.num_workers=2", "parallel.inference=learner")
    assert ends_with(tmp_path / "there", *there) == here


@pytest.mark.parametrize("ahead", ["false", "true"])
def test_run_resumed_at_any_iteration_has_its_past_selves_again(tmp_path: Path, ahead: str) -> None:
    total = f"run.total_steps={8 * STEPS}"
    overrides = total, PAST, f"parallel.async_learning={ahead}"
    through = final_sha256(tmp_path / "through", *overrides)
    for stop in (1, 3, 5, 6):
        run = tmp_path / f"stopped-{stop}"
        with training(run, *overrides) as made:
            stop_after(made, stop)
            made.run()
        with training(run, *overrides) as made:
            assert sha256(made.run()) == through


def test_past_selves_that_a_checkpoint_forgot_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what protects, the bits are others."""
    far_apart = "learner.learning_rate=0.5"  # selves so alike that they draw the same moves would not be missed
    overrides = f"run.total_steps={8 * STEPS}", PAST, far_apart
    through = final_sha256(tmp_path / "through", *overrides)
    run = tmp_path / "stopped"
    with training(run, *overrides) as made:
        stop_after(made, 5)
        made.run()
    monkeypatch.setattr(PastSelves, "load_state", lambda selves, saved: None)
    with training(run, *overrides) as made:
        assert sha256(made.run()) != through


# --- what goes wrong


def test_garbled_weights_of_a_past_self_are_refused_and_written_again() -> None:
    log = Log()
    past_rules = rules_with_past()
    with managed(past_rules, workers=2, log=log) as manager:
        manager.publish(network("tic-tac-toe", 1).state_dict(), 1)
        manager._work.past.sync.memory.bytes[200] ^= 1
        kept = manager.collect(0).choice.copy()
    with managed(past_rules, workers=1) as manager:
        manager.publish(network("tic-tac-toe", 1).state_dict(), 1)
        assert np.array_equal(manager.collect(0).choice, kept)
    assert "wrong checksum" in log.text


def rules_with_past() -> BlockRules:
    return replace(rules(), build_frozen=always_past, past=PastRules(2, 1))


def always_past(past: Sequence[Actor]) -> ChooseFrozen:
    return FrozenPool(past, 1.0, 3, 4, OF_PAST)


def test_game_without_two_seats_has_no_past_selves(tmp_path: Path) -> None:
    environment = "environment={name: gymnasium, id: CartPole-v1, copies: 4, options: {}}"
    with pytest.raises(ConfigError, match="past_selves"), training(tmp_path, environment, PAST):
        pass
