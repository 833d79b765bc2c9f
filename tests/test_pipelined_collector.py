"""Groups that take turns live the same as groups that are played one after the other, and runs end the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from keisei.collect.block_set import set_rules
from keisei.collect.blocks import BlockRules, nobody
from keisei.collect.collector import Collector
from keisei.collect.frozen import OF_PAST, ChooseFrozen, FrozenPool
from keisei.collect.past import PastRules
from keisei.collect.pipelined import PipelinedCollector
from keisei.collect.serial import SerialCollector
from keisei.config import load_run
from keisei.environment import Array, Observation, Step
from keisei.errors import ConfigError, StateError
from keisei.policy import Actor
from small_device import device_policy
from small_shogi import small_game, small_network
from tictactoe import TicTacToe
from tiny_runs import SHOGI, STEPS, events, final_sha256, sha256, stop_after, training
from workers import digest, policy

LANES, BLOCKS, T = 4, 4, 6
PIPELINED = "device={pipelined: true, groups: 2, threads: 2}"


def against_past(past: Sequence[Actor]) -> ChooseFrozen:
    return FrozenPool(past, 0.5, 3, LANES, OF_PAST)


def rules(*, past: bool = False) -> BlockRules:
    game = small_game(block_size=LANES, random_plies=5, move_limit=9)
    return BlockRules(
        game.build_environment,
        lambda: device_policy(game=game, rows=2 * LANES),
        against_past if past else lambda _: nobody,
        T,
        7,
        past=PastRules(2, 1) if past else PastRules(0, 1),
    )


def pipelined(groups: int = 2, *, past: bool = False) -> PipelinedCollector:
    return PipelinedCollector(rules(past=past), blocks=BLOCKS, groups=groups)


def serially(groups: int = 2, *, past: bool = False) -> SerialCollector:
    of = rules(past=past)
    return SerialCollector(set_rules(of, BLOCKS // groups) if groups < BLOCKS else of, blocks=groups)


def lived(collector: Collector, iterations: range) -> list[str]:
    found = []
    for iteration in iterations:
        collector.publish(small_network(seed=iteration).state_dict(), iteration)
        found.append(digest(collector.collect(iteration)))
    return found


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_at_once_live_the_same_as_one_after_the_other(groups: int, past: bool) -> None:
    expected = lived(serially(groups, past=past), range(4))
    assert lived(pipelined(groups, past=past), range(4)) == expected
    assert len(set(expected)) == 4


@pytest.mark.parametrize("past", [False, True])
def test_collection_goes_on_from_saved_states(past: bool) -> None:
    through = pipelined(past=past)
    lived(through, range(3))
    saved = {name: tensor.clone() for name, tensor in through.state().items()}
    expected = lived(through, range(3, 5))
    for fresh in (pipelined(past=past), serially(past=past)):
        fresh.load_state(saved)
        assert lived(fresh, range(3, 5)) == expected


def test_states_of_other_groups_are_refused() -> None:
    with pytest.raises(StateError):
        pipelined(4).load_state(pipelined(2).state())


def test_collector_acts_with_published_weights_only_and_may_be_closed_twice() -> None:
    collector, network = pipelined(), small_network(seed=3)
    collector.publish(network.state_dict(), 1)
    saved = collector.state()
    first = digest(collector.collect(0))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    collector.load_state(saved)
    assert digest(collector.collect(0)) == first
    collector.close()
    collector.close()


def test_rollout_stays_valid_for_as_many_calls_as_there_are_buffers() -> None:
    collector = PipelinedCollector(rules(), blocks=BLOCKS, groups=2, buffers=2)
    first = collector.collect(0)
    kept = digest(first)
    collector.collect(1)
    assert digest(first) == kept


# --- turns -----------------------------------------------------------------------------------------------------------


class Meeting(TicTacToe):
    """Games whose steps wait until another group is at work as well."""

    met = threading.Barrier(2, timeout=10)

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        self.met.wait()
        super().step(actions, step, observation)


class Failing(TicTacToe):
    """Games of which some fail, while others take their time."""

    late: ClassVar[list[int]] = []

    def __init__(self, first_lane: int) -> None:
        super().__init__(LANES, first_lane=first_lane)
        self.first_lane = first_lane

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        if self.first_lane:
            raise RuntimeError("the second group's game fails")
        time.sleep(0.05)
        self.late.append(1)
        super().step(actions, step, observation)


def test_groups_are_at_work_at_the_same_time() -> None:

    of = BlockRules(lambda lane: Meeting(LANES, first_lane=lane), lambda: policy("tic-tac-toe"), lambda _: nobody, 3, 1)
    collector = PipelinedCollector(of, blocks=2, groups=2)
    collector.collect(0)  # or the barrier breaks
    assert collector.statistics()["collect/groups_at_once"] > 0


def test_group_that_fails_is_told_of_when_the_others_have_ended() -> None:

    collector = PipelinedCollector(
        BlockRules(Failing, lambda: policy("tic-tac-toe"), lambda _: nobody, 3, 1), blocks=2, groups=2
    )
    with pytest.raises(RuntimeError, match="second group") as told:
        collector.collect(0)
    assert len(Failing.late) == 3
    assert any("block 1 of iteration 0" in note for note in told.value.__notes__)


# --- whole runs ------------------------------------------------------------------------------------------------------

TOTAL = f"run.total_steps={6 * STEPS}"
GAMES = "environment={copies: 8, move_limit: 20, random_plies: 12, remembered_share: 0.3}"
PAST = "opponents={past_selves: 2, past_interval: 1}"
RUN = TOTAL, GAMES, PAST, PIPELINED


def test_run_ends_the_same_with_any_number_of_threads_and_resumed(tmp_path: Path) -> None:
    through = final_sha256(tmp_path / "through", *RUN, base=SHOGI)
    assert final_sha256(tmp_path / "again", *RUN, "device.threads=1", base=SHOGI) == through
    for stop in (1, 2):
        with training(tmp_path / str(stop), *RUN, base=SHOGI) as made:
            stop_after(made, stop)
            made.run()
        with training(tmp_path / str(stop), *RUN, base=SHOGI) as made:
            assert sha256(made.run()) == through
    assert final_sha256(tmp_path / "other", *RUN, "device.groups=4", base=SHOGI) != "", "other groups are other batches"


def test_run_ends_within_rounding_of_the_plain_one(tmp_path: Path) -> None:
    overrides = f"run.total_steps={STEPS}", GAMES, "learner.minibatch_size=32"
    weights = []
    for name, device in (("plain", "device.kind=cpu"), ("pipelined", PIPELINED)):
        with training(tmp_path / name, *overrides, device, base=SHOGI) as made:
            made.run()
            weights.append({key: one.clone() for key, one in made.parts.learner.network.state_dict().items()})
    plain, there = weights
    assert all(np.allclose(plain[name], there[name], atol=1e-4) for name in plain)


def test_run_that_learns_while_groups_play_ends_the_same_each_time(tmp_path: Path) -> None:
    ahead = "parallel.async_learning=true"
    one, two = (final_sha256(tmp_path / name, *RUN, ahead, base=SHOGI) for name in ("one", "two"))
    assert one == two


def test_groups_are_measured_and_written_into_the_resolved_configuration(tmp_path: Path) -> None:
    device = "device={pipelined: true}"
    with training(tmp_path, TOTAL, GAMES, device, "environment.copies=24", base=SHOGI) as made:
        path = tmp_path / "resolved.yaml"
        path.write_text(made.parts.config, encoding="utf-8")
        made.run()
    chosen = load_run(path).device
    assert chosen.kind == "cpu" or chosen.kind.startswith("cuda")
    assert chosen.groups in (2, 3, 4)
    assert isinstance(chosen.threads, int)
    assert "auto" not in (chosen.kind, chosen.pipelined, chosen.precision, chosen.compile)
    assert "groups take turns" in "\n".join(events(tmp_path, "mode"))


def test_groups_that_do_not_divide_the_blocks_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="must divide the 4 blocks, which 3 does not"),
        training(tmp_path, TOTAL, GAMES, PIPELINED, "device.groups=3", base=SHOGI),
    ):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_device_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no GPU"), training(tmp_path, TOTAL, "device.kind=cuda", base=SHOGI):
        pass


def test_learner_of_action_values_is_not_pipelined(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="one learner of kind ppo"),
        training(tmp_path, PIPELINED, "learner={kind: dqn}"),
    ):
        pass
