"""Games, networks and managers for tests of worker processes: everything here can be sent to another process."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch

from keisei.collect.blocks import BlockRules, nobody
from keisei.collect.collector import BuildEnvironment
from keisei.collect.frozen import ChooseFrozen
from keisei.collect.loop import action_noise, play
from keisei.environment import Array, Environment, Observation, Step, UInt8
from keisei.networks import MLP, DenseNetwork, Network
from keisei.parallel.crew import Crew, Event
from keisei.parallel.manager import ParallelManager, ParallelSettings
from keisei.policy import Actor, Policy, encode_numbers
from keisei.rollout import ARRAYS, Rollout, RolloutLayout
from keisei.threads import torch_threads
from tictactoe import TicTacToe

SEED, COPIES, STEPS, BLOCKS = 7, 4, 24, 4
CONNECT_FOUR = Path(__file__).parent.parent / "examples" / "connect_four.py"

GameName = Literal["tic-tac-toe", "connect four"]


def environment(name: GameName, first_lane: int, copies: int = COPIES) -> Environment:
    """A block of a small game: of lists with cut-offs, or of masks and in plain NumPy."""
    if name == "tic-tac-toe":
        return TicTacToe(copies=copies, seed=SEED, first_lane=first_lane, random_plies=1, move_limit=8)
    specification = importlib.util.spec_from_file_location("connect_four", CONNECT_FOUR)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return cast(Environment, module.ConnectFour(copies=copies, seed=SEED, first_lane=first_lane))


def network(name: GameName, seed: int = 0) -> Network:
    """A small network for a game."""
    group = environment(name, 0).groups[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DenseNetwork(MLP(group.shape, [16]), 16, group.actions)


def policy(name: GameName) -> Policy:
    return Policy(network(name), encode_numbers)


def no_frozen(past: Sequence[Actor]) -> ChooseFrozen:
    return nobody


def rules(name: GameName = "tic-tac-toe", build: BuildEnvironment | None = None, steps: int = STEPS) -> BlockRules:
    """How blocks of a game are played; `build` may put another environment in its place."""
    return BlockRules(build or partial(environment, name), partial(policy, name), no_frozen, steps, SEED)


def digest(rollout: Rollout) -> str:
    """A hash of all that a rollout says; what lies behind its lists is not said."""
    whole = sha256()
    for name in ARRAYS:
        array = getattr(rollout, name)
        if name == "legal_actions" and rollout.group.legal == "list":
            used = rollout.legal_offsets[:, -1, -1]
            array = np.concatenate([row[:end] for row, end in zip(array, used, strict=True)])
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]


def serially(
    name: GameName, iterations: int, steps: int = STEPS, *, blocks: int = BLOCKS, copies: int = COPIES
) -> list[str]:
    """What the blocks live, in the plainest way: an environment for each that nobody saves or loads."""
    plays = policy(name)
    environments = [environment(name, block * copies, copies) for block in range(blocks)]
    layout = RolloutLayout(environments[0].groups[0], steps)
    rollout = layout.rollout(layout.allocate(blocks))
    found = []
    for iteration in range(iterations):
        plays.network.load_state_dict(network(name, iteration).state_dict())
        for block, one in enumerate(environments):
            noise = action_noise(SEED, np.arange(block * copies, (block + 1) * copies), iteration, steps)
            with torch_threads(1):
                play(one, plays, (), rollout.block(block), noise)
        found.append(digest(rollout))
    return found


def collected(manager: ParallelManager, name: GameName, iterations: int, first: int = 0) -> list[str]:
    """What a manager collects, with the same weights."""
    found = []
    for iteration in range(first, first + iterations):
        manager.publish(network(name, iteration).state_dict(), iteration)
        found.append(digest(manager.collect(iteration)))
    return found


def send_at_random(manager: ParallelManager, number: signal.Signals, count: int) -> threading.Thread:
    """Send a signal to random workers that are at work, at random instants, from another thread."""
    chance = random.Random(5)

    def work() -> None:
        for _ in range(count):
            time.sleep(chance.uniform(0.1, 0.6))
            if ready := [worker for worker in crew(manager).workers if worker.ready]:
                os.kill(chance.choice(ready).process.pid, number)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def through(manager: ParallelManager, number: signal.Signals, count: int) -> list[str]:
    """What a manager collects while signals come, after the first rollout."""
    collected(manager, "tic-tac-toe", 1)
    thread = send_at_random(manager, number, count)
    found: list[str] = []
    while thread.is_alive() or len(found) < 10:
        found += collected(manager, "tic-tac-toe", 1, first=1 + len(found))
    return found


class Log(list[str]):
    """What a manager says."""

    def __call__(self, text: str) -> None:
        self.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self)


@contextmanager
def managed(
    of: BlockRules | None = None, workers: int = 2, log: Log | None = None, **settings: object
) -> Iterator[ParallelManager]:
    """A manager whose workers are gone in the end."""
    made = ParallelSettings(blocks=BLOCKS, num_workers=workers, worker_timeout=20.0, max_restarts=50)
    made = replace(made, **settings)  # type: ignore[arg-type]
    say = log if log is not None else Log()
    with ParallelManager(of or rules(), made, say) as manager:
        yield manager
    assert manager._crew is None


def crew(manager: ParallelManager) -> Crew:
    """The workers of a manager, to do harm to."""
    assert manager._crew is not None
    return manager._crew


def process_ids(manager: ParallelManager) -> list[int]:
    return [worker.process.pid for worker in crew(manager).workers]


def everybody(manager: ParallelManager) -> list[int]:
    """The processes of all workers, and of the spare."""
    return [worker.process.pid for worker in crew(manager)._everybody]


def wait_for_spare(manager: ParallelManager) -> int:
    """Wait until a spare is ready; gives its process."""
    until = time.monotonic() + 30
    while True:
        crew(manager).listen()
        found = [one.process.pid for one in crew(manager)._everybody if one.place < 0 and one.ready]
        if found:
            return found[0]
        assert time.monotonic() < until, "no spare comes"


class Enough(Exception):
    """It was waited for long enough."""


def give_up(manager: ParallelManager, over: Callable[[], bool]) -> None:
    """Whoever waits for workers gets `Enough` as soon as something is so."""
    crew_of = crew(manager)
    listen = crew_of.listen

    def listening(seconds: float = 0.05) -> list[Event]:
        if over():
            raise Enough
        return listen(seconds)

    crew_of.listen = listening  # type: ignore[method-assign]


def after(seconds: float) -> Callable[[], bool]:
    """Whether so long has gone by."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


Trouble = Callable[["Troubled"], None]


class Troubled:
    """An environment that plays as the one inside, until trouble comes."""

    def __init__(self, inside: Environment, trouble: Trouble, at: int) -> None:
        self.inside, self.trouble, self.at, self.steps = inside, trouble, at, 0
        self.copies, self.lanes, self.seats = inside.copies, inside.lanes, inside.seats
        self.groups, self.reasons, self.state_bytes = inside.groups, inside.reasons, inside.state_bytes
        self.step_now: Step | None = None
        self.seen_now: Sequence[Observation] = ()

    def reset(self, observation: Sequence[Observation]) -> None:
        self._begin()
        self.inside.reset(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        self._begin()
        self.inside.observe(observation)

    def _begin(self) -> None:
        if self.at == 0:
            self.trouble(self)

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        self.inside.step(actions, step, observation)
        self.steps += 1
        self.step_now, self.seen_now = step, observation
        if self.steps == self.at or (self.at < 0 and self.steps >= -self.at):
            self.trouble(self)

    def save_state(self, out: UInt8) -> None:
        self.inside.save_state(out)

    def load_state(self, saved: UInt8) -> None:
        self.inside.load_state(saved)

    def close(self) -> None:
        self.inside.close()


@dataclass(frozen=True)
class WithTrouble:
    """Builds environments that get into trouble at a step of their lives; at and after it, where it is negative; at 0
    when they begin.

    Only workers do, and with a `flag` only the first of them.
    """

    trouble: Trouble
    at: int = 5
    flag: Path | None = None
    name: GameName = "tic-tac-toe"
    home: int = field(default_factory=os.getpid)
    saved: bool = True

    def __call__(self, first_lane: int) -> Environment:
        made = Troubled(environment(self.name, first_lane), self._at_work, self.at)
        if not self.saved:
            made.state_bytes = 0
        return made

    def _at_work(self, troubled: Troubled) -> None:
        if os.getpid() == self.home:
            return
        if self.flag is not None:
            try:
                self.flag.touch(exist_ok=False)
            except FileExistsError:
                return
        self.trouble(troubled)
