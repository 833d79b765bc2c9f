"""Every world against its reference, over thousands of random turns: each reward and, in one copy, each plane."""

from __future__ import annotations

import numpy as np
import pytest

import keisei
from keisei.environment import Int64, UInt8, new_observation, new_step
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
TURNS = {"cleanup": 350}


def started(name: str, agents: int) -> GridworldEnvironment:
    environment = keisei.make(
        name, copies=COPIES, seed=SEED, first_lane=FIRST_WORLD * agents, agents=agents, observation="uint8"
    )
    assert isinstance(environment, GridworldEnvironment)
    return environment


@pytest.mark.parametrize("name", WORLDS)
def test_world_goes_as_its_reference(name: str) -> None:
    kind, height, width, agents, max_turns = WORLDS[name]
    environment = started(name, agents)
    references = [kind(height, width, agents, max_turns, Chance(SEED, FIRST_WORLD + i)) for i in range(COPIES)]
    seen, step = new_observation(environment), new_step(environment)
    environment.reset(seen)
    generator = np.random.default_rng(1)
    frames: list[list[UInt8]] = [[] for _ in range(agents)]
    for turn in range(TURNS.get(name, 700)):
        for agent in range(agents):
            expected = observed(environment, references[0], agent, frames[agent])
            assert np.array_equal(seen[0].values[agent], expected), (turn, agent)
        actions = likely(environment, generator)
        environment.step([actions], step, seen)
        for i, reference in enumerate(references):
            mine = slice(i * agents, (i + 1) * agents)
            paid, last = reference.play(actions[mine].tolist())
            assert step.reward[mine].tolist() == np.array(paid, np.float32).tolist(), (turn, i)
            assert step.cut_off[mine].all() == step.ended[mine].any() == last
            if last and i == 0:
                for agent in range(agents):
                    expected = observed(environment, reference, agent, frames[agent])
                    assert np.array_equal(step.final[0][agent], expected), (turn, agent)
                    frames[agent].clear()
            if last:
                reference.begin()


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
    how = environment.encodings[0]
    radius = how.size // 2
    kinds = [kind.name for kind in environment.file.world.kinds[1:]]
    frames.append(np.array(reference.window(agent, radius, kinds), np.uint8))
    nothing = np.zeros_like(frames[0])
    last = [nothing] * (how.frames - len(frames)) + frames[-how.frames :]
    extras = []
    if "row" in how.names:
        extras += list(reference.agents[agent].cell)
    if isinstance(reference, Tag):
        extras.append(int(reference.it == agent))
    planes = [np.full((1, how.size, how.size), extra, np.uint8) for extra in extras]
    return np.concatenate([*last, *planes])


def test_chance_is_philox_as_published() -> None:
    assert philox([0, 0, 0, 0], [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert philox(pi, [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
