"""Every world against its reference, over thousands of random turns.

Compared are each reward, what is told of each episode and, in one copy, each plane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import keisei
from keisei.config_worlds import ViewConfig
from keisei.environment import NO_SEAT, Float32, Int64, UInt8, new_observation, new_step
from keisei.gridworld import GridworldEnvironment
from reference_worlds import Chance, Cleanup, Empty, Iowa, Reference, StagHunt, Tag, TreasureHunt, philox

SEED, FIRST_WORLD, COPIES = 2**64 - 12345, 2**33 + 5, 3

WORLDS: dict[str, tuple[type[Reference], int, int, int, int]] = {  # height, width, agents, turns
    "treasure_hunt": (TreasureHunt, 21, 21, 2, 100),
    "cleanup": (Cleanup, 21, 31, 10, 100),
    "tag": (Tag, 11, 11, 5, 20),
    "stag_hunt": (StagHunt, 11, 11, 2, 100),
    "iowa": (Iowa, 20, 20, 2, 100),
    "empty": (Empty, 11, 11, 1, 100),
}
TURNS = {"cleanup": 350, "stag_hunt": 3000}


PLAIN = ViewConfig()
VARIANTS: list[tuple[str, int, ViewConfig]] = [
    ("treasure_hunt", 1, ViewConfig(radius=4, frames=1, inventory=True)),
    ("treasure_hunt", 7, ViewConfig(radius=1, frames=3, position=True, cells="colours")),
    ("cleanup", 3, ViewConfig(radius=3, frames=2, cells="colours")),
    ("cleanup", 12, ViewConfig(radius=2, position=False, inventory=True)),
    ("tag", 2, ViewConfig(radius=0, position=True)),
    ("tag", 8, ViewConfig(radius=6, frames=2)),
    ("stag_hunt", 6, ViewConfig(radius=3, position=True, inventory=True)),
    ("iowa", 5, ViewConfig(frames=4, inventory=True)),
    ("empty", 9, ViewConfig(radius=5, position=True)),
]
"""Other numbers of agents, who see otherwise."""

BOTH = pytest.mark.parametrize("turns", ["simultaneous", "sequential"])


@BOTH
@pytest.mark.parametrize("name", WORLDS)
def test_world_goes_as_its_reference(name: str, turns: str) -> None:
    comparison = Comparison(name, turns)
    comparison.go_on(TURNS.get(name, 700))
    assert comparison.happened >= set(comparison.references[0].deeds(0)), "each deed was done at least once"


@BOTH
@pytest.mark.parametrize(("name", "agents", "view"), VARIANTS)
def test_world_goes_as_its_reference_as_plain_python(name: str, agents: int, view: ViewConfig, turns: str) -> None:
    Comparison(name, turns, agents, view, debug=True, copies=1).go_on(16)


def other(kind: type[Reference], **changed: object) -> type[Reference]:
    """A reference with other numbers."""
    return type("Other", (kind,), changed)


HUNTERS = [{"stag_hunters": 3}, {"stag_hunters": 1}, {"hare_hunters": 2}, {"stag_hunters": 3, "hare_hunters": 3}]


@pytest.mark.parametrize("hunters", HUNTERS)
def test_prey_takes_as_many_hunters_as_a_configuration_says(hunters: dict[str, float]) -> None:
    numbers = {**hunters, "growth": 0.05}
    comparison = Comparison("stag_hunt", "simultaneous", 40, debug=True, copies=1, numbers=numbers)
    comparison.references[0] = other(StagHunt, **numbers)(11, 11, 40, 7, Chance(SEED, FIRST_WORLD))
    comparison.go_on(21)
    assert comparison.happened >= {"hunts", "stags", "hares"}


@pytest.mark.parametrize(("columns", "channel"), [(1, [15]), (5, [13, 14, 15, 16, 17]), (998, range(1, 30))])
def test_channel_is_as_wide_as_a_configuration_says(columns: int, channel: Sequence[int]) -> None:
    numbers = {"channel_columns": columns}
    comparison = Comparison("cleanup", "simultaneous", 3, debug=True, copies=1, numbers=numbers)
    comparison.references[0] = other(Cleanup, channel=channel)(21, 31, 3, 7, Chance(SEED, FIRST_WORLD))
    comparison.go_on(8)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(("name", "agents", "view"), VARIANTS)
def test_compiled_world_of_other_numbers_goes_as_its_reference(
    name: str, agents: int, view: ViewConfig, turns: str
) -> None:
    Comparison(name, turns, agents, view).go_on(1000)


class Comparison:
    """An environment and as many references, which live the same life."""

    def __init__(
        self,
        name: str,
        turns: str,
        agents: int | None = None,
        view: ViewConfig = PLAIN,
        *,
        debug: bool = False,
        copies: int = COPIES,
        numbers: Mapping[str, float] | None = None,
    ) -> None:
        kind, height, width, usual, max_turns = WORLDS[name]
        self.agents, self.max_turns = agents or usual, 7 if debug else max_turns
        environment = keisei.make(
            name, copies=copies, seed=SEED, first_lane=FIRST_WORLD * self.agents, agents=self.agents,
            max_turns=self.max_turns, observation="uint8", turns=turns, debug=debug, numbers=numbers or {},
            **view.model_dump(),
        )  # fmt: skip
        assert isinstance(environment, GridworldEnvironment)
        self.environment, self.sequential = environment, turns == "sequential"
        self.references = [
            kind(height, width, self.agents, self.max_turns, Chance(SEED, FIRST_WORLD + i)) for i in range(copies)
        ]
        self.frames: list[list[UInt8]] = [[] for _ in range(self.agents)]  # of the first copy
        self.happened: set[str] = set()  # what was told as more than nothing
        self.seen, self.step = new_observation(environment), new_step(environment)
        environment.reset(self.seen)

    def go_on(self, turns: int) -> None:
        """Live so many turns, and compare each step."""
        generator = np.random.default_rng(1)
        for turn in range(turns):
            for seat in range(self.agents) if self.sequential else [-1]:
                self._compare_seen(turn, seat)
                actions = likely(self.environment, generator)
                self.environment.step([actions], self.step, self.seen)
                for copy in range(len(self.references)):
                    self._compare_outcome(turn, copy, seat, actions)

    def _compare_seen(self, turn: int, seat: int) -> None:
        """What those see who decide in the first copy: one seat, or all (-1)."""
        deciding = range(self.agents) if seat < 0 else [seat]
        assert self.seen[0].seat[: self.agents].tolist() == [
            a if a in deciding else NO_SEAT for a in range(self.agents)
        ]
        for agent in deciding:
            expected = observed(self.environment, self.references[0], agent, self.frames[agent])
            assert np.array_equal(self.seen[0].values[agent], expected), (turn, agent)

    def _compare_outcome(self, turn: int, copy: int, seat: int, actions: Int64) -> None:
        reference, mine = self.references[copy], slice(copy * self.agents, (copy + 1) * self.agents)
        own: list[int] = actions[mine].tolist()
        paid, last = reference.play(own) if seat < 0 else reference.play_seat(seat, own[seat])
        step = self.step
        assert step.reward[mine].tolist() == np.array(paid, np.float32).tolist(), (turn, copy, seat)
        assert step.cut_off[mine].all() == step.ended[mine].any() == last
        if last and copy == 0:
            for agent in range(self.agents):
                expected = observed(self.environment, reference, agent, self.frames[agent])
                assert np.array_equal(step.final[0][agent], expected), (turn, agent)
                self.frames[agent].clear()
        if last:
            self._compare_told(turn, copy)
            reference.begin()

    def _compare_told(self, turn: int, copy: int) -> None:
        """What is told of an episode."""
        names = self.environment.groups[0].figures
        told: Float32 = np.zeros((self.environment.lanes, len(names)), np.float32)
        self.environment.tell(self.step.ended, told)
        for agent in range(self.agents):
            found = dict(zip(names, told[copy * self.agents + agent].tolist(), strict=True))
            assert found == pytest.approx(self.references[copy].figures(agent), rel=1e-5, nan_ok=True), (turn, copy)
            self.happened |= {name for name, value in found.items() if value > 0}


def likely(environment: GridworldEnvironment, generator: np.random.Generator) -> Int64:
    """Random actions; those that are no moves more often than not where there are such."""
    count = environment.groups[0].actions
    return generator.choice(
        count, environment.lanes, p=None if count == 4 else [0.6 / 4] * 4 + [0.4 / (count - 4)] * (count - 4)
    )


def observed(
    environment: GridworldEnvironment,
    reference: Reference,
    agent: int,
    frames: list[UInt8],
) -> UInt8:
    """The planes that an agent should see; `frames` holds those of its decisions before, and gets this one."""
    how, world = environment.encodings[0], environment.file.world
    radius, kinds = how.size // 2, world.kinds[1:]
    window = np.array(reference.window(agent, radius, [kind.name for kind in kinds]), np.uint8)
    if "red" in how.names:
        window = coloured(window, [(world.layers.index(kind.layer), kind.colour) for kind in kinds])
    frames.append(window)
    nothing = np.zeros_like(frames[0])
    last = [nothing] * (how.frames - len(frames)) + frames[-how.frames :]
    extras = []
    if "row" in how.names:
        extras += list(reference.agents[agent].cell)
    if isinstance(reference, Tag):
        extras.append(int(reference.it == agent))
    extras += [reference.taken[agent].count(name) for name in how.names[how.frame_planes + len(extras) :]]
    planes = [np.full((1, how.size, how.size), extra, np.uint8) for extra in extras]
    return np.concatenate([*last, *planes])


def coloured(window: UInt8, kinds: list[tuple[int, tuple[int, int, int]]]) -> UInt8:
    """Red, green and blue of what is on top in each cell; `kinds` are their layers and colours."""
    picture = np.zeros((3, *window.shape[1:]), np.uint8)
    for row, column in np.ndindex(window.shape[1:]):
        there = [kinds[kind] for kind in np.flatnonzero(window[:, row, column])]
        if there:
            picture[:, row, column] = max(there)[1]
    return picture


def test_chance_is_philox_as_published() -> None:
    assert philox([0, 0, 0, 0], [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert philox(pi, [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
