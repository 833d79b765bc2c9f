"""The engine: the contract, one life however it is computed, turns of both kinds, agents that freeze or leave."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from keisei.environment import PASS, Array, new_state
from keisei.errors import ActionError, ConfigError, StateError
from keisei.gridworld import SHIPPED, GridworldEnvironment, View
from keisei.testing import check_environment
from small_worlds import Player, random_actions, same, write_world

EVERY = pytest.mark.parametrize("name", SHIPPED)
SHORT = {"max_turns": 15}
FORMS = ("packed", "uint8", "float32")
SEEING = View(radius=1, frames=3, position=True, inventory=True)
COLOURS = View(radius=2, cells="colours")


# --- the contract


@EVERY
def test_contract_of_shipped_worlds(name: str) -> None:
    check_environment(GridworldEnvironment(name, copies=3, seed=5, observation="packed", numbers=SHORT), steps=40)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("turns", ["simultaneous", "sequential"])
def test_contract_with_several_views(form: str, turns: str) -> None:
    environment = GridworldEnvironment(
        "tag", copies=2, observation=form, turns=turns, views=[((1, 4), SEEING), ((2,), COLOURS)], debug=True,  # type: ignore[arg-type]
        numbers={"height": 5, "width": 6, "max_turns": 4},
    )  # fmt: skip
    assert [group.lanes.tolist() for group in environment.groups] == [[0, 3, 5, 8], [1, 4, 6, 9], [2, 7]]
    check_environment(environment, steps=12)


LEAVING = """
def act(place, agent, action):
    place.seen[agent, 0] += 1
    walk(place, agent, action)
    if agent == 0 and action == 2:
        freeze(place, 1, 2)
    if agent == 1 and action == 1:
        finish(place, 1)
        pay(place, 1, 7.5)
    if place.turn == 8 and action == 3:
        end_episode(place)

def allowed(place, agent, action):
    return action != 3 or place.turn % 2 == 0
"""


def leaving(folder: Path, *, debug: bool, **more: object) -> GridworldEnvironment:
    path = write_world(folder, LEAVING, "allowed=allowed", name="leaving")
    return GridworldEnvironment(str(path), debug=debug, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("turns", ["simultaneous", "sequential"])
def test_contract_where_agents_freeze_and_leave(tmp_path: Path, turns: str) -> None:
    check_environment(leaving(tmp_path, debug=True, copies=4, turns=turns, numbers={"agents": 3}), steps=30)


# --- one life, however it is computed


@EVERY
@pytest.mark.parametrize("turns", ["simultaneous", "sequential"])
def test_debug_agrees_with_compiled_bit_for_bit(name: str, turns: str) -> None:
    both = [
        Player(GridworldEnvironment(name, copies=2, seed=9, numbers=SHORT, turns=turns, debug=debug))  # type: ignore[arg-type]
        for debug in (True, False)
    ]
    assert same(both[0].written(), both[1].written())
    for number, actions in enumerate(random_actions(both[0].environment, 40)):
        for player in both:
            player.play(actions)
        if number % 10 == 0 or both[0].outcome.ended.any():
            assert same(both[0].written(), both[1].written()), number


@pytest.mark.parametrize("turns", ["simultaneous", "sequential"])
def test_a_world_is_the_same_alone_or_among_others_in_any_number_of_threads(turns: str) -> None:
    def player(copies: int, first: int, threads: int) -> Player:
        return Player(
            GridworldEnvironment("tag", copies=copies, seed=3, first_lane=5 * first, threads=threads, turns=turns)  # type: ignore[arg-type]
        )

    together = [player(7, 0, threads) for threads in (1, 2, 3, 16)]
    apart = [player(1, number, 1) for number in range(7)]
    for actions in random_actions(together[0].environment, 60):
        for one in together:
            one.play(actions)
        for number, one in enumerate(apart):
            one.play(actions[5 * number : 5 * number + 5])
    for one in together[1:]:
        assert same(together[0].written(), one.written())
    for number, one in enumerate(apart):
        for whole, part in zip(together[0].written(), one.written(), strict=True):
            size = len(whole) // 7
            assert same([whole[number * size : (number + 1) * size]], [part])
    for one in together:
        one.environment.close()


def test_worlds_of_one_run_are_different_and_seeds_too() -> None:
    one, other = (Player(GridworldEnvironment("tag", copies=4, seed=seed)) for seed in (1, 2))
    cells = one.environment.worlds.now["cells"]
    assert len({world.tobytes() for world in cells}) == 4
    assert not np.array_equal(cells, other.environment.worlds.now["cells"])


def test_states_go_on_elsewhere_byte_for_byte() -> None:
    here, there = Player(GridworldEnvironment("tag", copies=3, seed=1)), Player(GridworldEnvironment("tag", copies=3))
    actions = random_actions(here.environment, 60)
    for some in actions[:33]:
        here.play(some)
    state = here.state
    assert state.shape == (3, here.environment.state_bytes)
    there.environment.load_state(state)
    assert same([state], [there.state])
    for some in actions[33:]:
        assert same([here.play(some).reward], [there.play(some).reward])
    assert same(here.written()[:-4], there.written()[:-4])


def test_states_of_other_rules_are_refused() -> None:
    one, other = (GridworldEnvironment("tag", numbers={"free": free}) for free in (10.0, 11.0))
    state = new_state(one)
    one.save_state(state)
    with pytest.raises(StateError, match="saved state of world 0 is damaged, or was saved under other rules"):
        other.load_state(state)


def test_a_layout_is_never_freed() -> None:
    """Compiled functions know the layout of a world by an address, which must not be used again for another one."""
    kept = set()
    for agents in (1, 2, 3, 1, 2, 3):
        environment = GridworldEnvironment("empty", debug=True, numbers={"agents": agents})
        kept.add(id(environment.worlds.now.dtype))
        assert environment.worlds.now.dtype is environment.worlds.last.dtype
        del environment
        gc.collect()
    assert len(kept) == 3


# --- turns


WATCHED = """
def act(place, agent, action):
    walk(place, agent, action)
    place.count += 1
    pay(place, agent, place.count)
    if agent == 1:
        pay(place, 0, 100)

def after(place):
    pay(place, 1, 1000)

def change(place):
    place.count += 100

def sense(place, agent, which):
    return place.count % 256
"""
WATCHED_WORLD = 'after=after, change=change, sense=sense, senses=(Sense("count"),)'


def watched(folder: Path, turns: str) -> Player:
    path = write_world(folder, WATCHED, WATCHED_WORLD, name="watched")
    return Player(GridworldEnvironment(str(path), turns=turns, debug=True))  # type: ignore[arg-type]


def felt(player: Player) -> list[int]:
    """What each lane's agent felt when it last decided."""
    return [int(one[-1, 0, 0]) for one in player.seen[0].values]


def test_simultaneous_turns_show_all_agents_the_same_and_execute_in_seat_order(tmp_path: Path) -> None:
    player = watched(tmp_path, "simultaneous")
    assert player.deciding == [0, 1]
    assert felt(player) == [100, 100]
    assert player.play_all().reward.tolist() == [101 + 100, 102 + 1000]
    assert felt(player) == [202, 202]
    assert player.play_all().reward.tolist() == [203 + 100, 204 + 1000]


def test_sequential_turns_show_each_agent_what_the_earlier_ones_did(tmp_path: Path) -> None:
    player = watched(tmp_path, "sequential")
    assert player.deciding == [0]
    assert felt(player)[0] == 100
    assert player.play_all().reward.tolist() == [101, 0]
    assert player.deciding == [1]
    assert felt(player)[1] == 101
    assert player.play_all().reward.tolist() == [100, 102 + 1000]  # what agent 0 is paid in the turn of the other
    assert player.deciding == [0]
    assert felt(player)[0] == 202
    assert player.environment.longest_game == 20


def test_a_frozen_agent_misses_turns_and_one_that_has_left_is_gone(tmp_path: Path) -> None:
    player = Player(leaving(tmp_path, debug=True, numbers={"agents": 3}))
    worlds = player.environment.worlds
    player.play([2, 0, 0])  # freezes agent 1, before it acts, for two turns
    assert worlds.now["seen"][0, :, 0].tolist() == [1, 0, 1]
    assert player.deciding == [0, 2]
    player.play([0, 0, 0])
    assert player.deciding == [0, 2]
    player.play([0, 0, 0])
    assert player.deciding == [0, 1, 2]
    step = player.play([0, 1, 0])  # agent 1 leaves
    assert step.reward.tolist()[1] == 7.5
    assert not step.ended.any()
    assert player.deciding == [0, 2]
    assert (worlds.now["who"] == 1).sum() == 0
    for _ in range(5):
        step = player.play([0, 0, 0])
    assert not step.ended.any()
    step = player.play([0, 0, 0])  # the tenth turn
    assert step.ended.all()
    assert step.cut_off.tolist() == [True, False, True]
    assert step.discount.tolist() == [1, 0, 1]
    assert [player.environment.reasons[reason] for reason in step.reason] == ["turn limit", "finished", "turn limit"]
    assert step.length.tolist() == [10, 10, 10]


def test_a_world_that_ends_its_episode_is_not_cut_off(tmp_path: Path) -> None:
    player = Player(leaving(tmp_path, debug=True))
    for _ in range(8):
        assert not player.play([0, 0]).ended.any()
    step = player.play([3, 0])
    assert step.ended.all()
    assert not step.cut_off.any()
    assert step.discount.tolist() == [0, 0]
    assert player.environment.reasons[step.reason[0]] == "world over"
    assert player.environment.worlds.now["turn"].tolist() == [0]


def test_an_episode_is_over_when_all_have_left(tmp_path: Path) -> None:
    gone = "def act(place, agent, action):\n    finish(place, agent)\n"
    path = write_world(tmp_path, gone, name="gone")
    step = Player(GridworldEnvironment(str(path), debug=True)).play_all()
    assert step.ended.all()
    assert not step.cut_off.any()
    assert step.length.tolist() == [1, 1]


# --- what is refused


def test_wrong_actions_are_refused_and_change_nothing(tmp_path: Path) -> None:
    player = Player(leaving(tmp_path, debug=True, copies=2))
    player.play_all(0)
    before: list[Array] = [player.state]
    for actions, said in (
        ([0, 0, 0, 4], r"action 4 of lane 3 \(agent 1 of copy 1\) is not in 0..3, in turn 1"),
        ([0, 3, 0, 0], r"action 3 of lane 1 \(agent 1 of copy 0\) is not allowed now, of 0..3, in turn 1"),
        ([PASS, 0, 0, 0], "in copy 0 some agents pass and others do not, in turn 1"),
    ):
        with pytest.raises(ActionError, match=said):
            player.play(actions)
        assert same(before, [player.state])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"copies": 0}, "copies: expected 1 to"),
        ({"seed": -1}, "seed: expected 0 to"),
        ({"numbers": {"agnts": 2}}, r"unknown key 'agnts' of tag \(known are"),
        ({"numbers": {"agents": 0}}, "'agents' of tag must be from 1 to 128, not 0"),
        ({"numbers": {"agents": 2.5}}, "'agents' of tag must be whole"),
        ({"views": [((7,), View())]}, "there is no seat 7 among 5 agents"),
    ],
)
def test_what_cannot_be_is_refused(options: Mapping[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        GridworldEnvironment("tag", debug=True, **options)  # type: ignore[arg-type]
