"""How fast PPO learns connect four on one core, and whether it does: our game in NumPy, the peers' own in Python.

All have 16 copies, rollouts of 128 steps, 4 epochs of 4 minibatches and two layers of 64 for policy and value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from keisei import arena, build
from keisei.arena.player import NetworkOpponent
from keisei.arena.result import MatchResult
from keisei.bench.harness import Report, Result, Sample, Settings, result, result_against, round_off, take_turns
from keisei.bench.machine import describe, held_to
from keisei.bench.peer import ROOT, contenders_of, note_on, running_peer
from keisei.config import Config, load_run
from keisei.policy import Actor
from keisei.threads import torch_threads

Clock = Callable[[], float]

UNIT = "steps/s"
EXAMPLES = ROOT / "examples"
PEERS = ("cleanrl", "maskable_ppo")
AT_THE_START = 0.0
"""The progress while speed is measured: schedules stand still, as those of the peers do."""

LEARNING_SECONDS = 120.0
GAMES = 1000


def run(settings: Settings) -> Report:
    """Train for a while in turns with the peers, then for two minutes alone."""
    machine = describe([settings.core])
    with held_to([settings.core]), torch_threads(1), ExitStack() as stack:
        peers = {name: stack.enter_context(running_peer(name)) for name in PEERS}
        theirs = [one for peer in peers.values() for one in contenders_of(peer, ["ppo"])]
        measured = take_turns([Training(config()), *theirs], settings)
        settings.say(f"learning for {LEARNING_SECONDS:g} s")
        found = wins(LEARNING_SECONDS, GAMES)
    results = [result_against(measured["ppo"], UNIT, measured.get(f"{name}.ppo"), name) for name in PEERS]
    results += [result(measured[one.name], UNIT) for one in theirs]
    notes = (*(note_on(peer, name) for name, peer in peers.items()), f"wins: of {GAMES} games of sampled play")
    return Report("connect-four", machine, (*results, found), notes)


def config(*overrides: str) -> Config:
    """The run that is measured: the example's, in this process, wherever it is called."""
    path = f"environment.path={EXAMPLES / 'connect_four.py'}"
    return load_run(EXAMPLES / "connect-four-random.yaml", (path, "parallel.enabled=false", *overrides))


def wins(seconds: float, games: int) -> Result:
    """The share of games that are won against random moves after so many seconds of training."""
    training = Training(config())
    training.learn_for(seconds)
    return Result("wins", round_off(100 * match(training.policy, games).wins / games), "%")


def match(policy: Actor, games: int, seed: int = 0) -> MatchResult:
    """A match against random moves, sampled play, from the empty board; either side begins every other game."""
    of_two = config("environment.options={}")
    game = build.game(of_two)
    opponent = build.opponent("random", game)(seed)
    assert opponent is not None
    environment = build.match_environment(of_two)
    try:
        challenger = NetworkOpponent(policy, seed + 1, "sample")
        return arena.evaluate(environment, challenger, opponent, games=games, seed=seed, opening_plies=0)
    finally:
        environment.close()


class Training:
    """Collecting, learning and publishing, with the collector and the learner of a run."""

    def __init__(self, section: Config, name: str = "ppo", clock: Clock = time.process_time) -> None:
        game = build.game(section)
        self.name = name
        self._clock = clock
        self._sync_interval = section.parallel.model_sync_interval
        self._learner = build.learner(section, game)
        self._collector = build.collector(section, game, lambda kind, text: None)
        self._collector.publish(self._learner.network.state_dict(), 0)
        self._iteration = 0
        self.version = 0  # of the published weights

    @property
    def policy(self) -> Actor:
        """What is learnt."""
        return self._learner.policy

    def measure(self, seconds: float) -> Sample:
        """Train in whole iterations for about so long."""
        self._iterate(AT_THE_START)  # what was collected ahead while others were measured does not count
        steps = 0
        start = self._clock()
        while (spent := self._clock() - start) < seconds:
            steps += self._iterate(AT_THE_START)
        return Sample(steps, spent)

    def learn_for(self, seconds: float) -> None:
        """Train for so long, schedules included."""
        start = self._clock()
        while (spent := self._clock() - start) < seconds:
            self._iterate(spent / seconds)

    def learn_steps(self, steps: int) -> None:
        """Train for so many steps, schedules included."""
        done = 0
        while done < steps:
            done += self._iterate(done / steps)

    def _iterate(self, progress: float) -> int:
        rollout = self._collector.collect(self._iteration)
        self._learner.learn(rollout, self._iteration, progress)
        self._iteration += 1
        if self._iteration % self._sync_interval == 0:
            self.version = self._iteration
            self._collector.publish(self._learner.network.state_dict(), self.version)
        return rollout.steps

    def close(self) -> None:
        """Give everything back."""
        self._collector.close()
