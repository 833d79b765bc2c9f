"""The acting loop: one block, step by step. There is no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keisei.environment import NO_SEAT, PASS, Array, Bool, Environment, Float32, Int8, Int64, Step, Telling
from keisei.errors import ContractError
from keisei.opponents import uniform_words
from keisei.policy import Actor, LegalChoices
from keisei.rollout import Rollout

_STREAM = 0x61637473
"""Fourth word of the counter: keeps the numbers that sample actions apart from all others of the seed."""


ABSENT = -2
"""In place of the seat of a frozen opponent: it does not play in this lane."""


@dataclass(frozen=True)
class Frozen:
    """A past policy that plays one seat of each lane; nobody learns from its plies."""

    policy: Actor
    seat: Int8  # [B] the seat that it plays, or ABSENT


Beat = Callable[[], None]
"""Called at each step, as a sign of life."""


def silent() -> None:
    """No sign of life."""


class Endless:
    """Every copy plays on for as long as there are steps."""

    over = False

    def __init__(self, environment: Environment) -> None:
        self.idle: Bool = np.zeros(environment.lanes, np.bool_)

    def count(self, ended: Bool) -> None:
        """What has ended begins again."""

    def check(self, steps: int) -> None:
        """Nothing was asked for."""


class Quota:
    """Every copy plays so many games; then it is idle until the others have played theirs."""

    def __init__(self, environment: Environment, games: int) -> None:
        self.idle: Bool = np.zeros(environment.lanes, np.bool_)  # [B]
        self._games = games
        self._left = np.full((environment.copies, environment.lanes // environment.copies), games)

    @property
    def over(self) -> bool:
        """Whether all copies have played their games."""
        return bool(self.idle.all())

    def count(self, ended: Bool) -> None:
        """Some lanes' games have ended `[B]`."""
        self._left -= ended.reshape(self._left.shape)
        self.idle = (self._left <= 0).all(1).repeat(self._left.shape[1])

    def check(self, steps: int) -> None:
        """Raise ContractError where games were longer than there was room for."""
        if not self.over:
            copy = int(np.argmax(self._left.max(1)))
            done = self._games - int(self._left[copy].max())
            raise ContractError(
                f"expected {self._games} games of every copy within {steps} steps, copy {copy} has ended {done}; "
                "an environment says how long its games can be as `longest_game`"
            )


def play(
    environment: Environment,
    policy: Actor,
    frozen: Sequence[Frozen],
    rollout: Rollout,
    uniform: Float32,
    beat: Beat = silent,
    until: Endless | Quota | None = None,
) -> int:
    """Play a block's share of a rollout; `uniform [T, B]` samples the actions. Gives how many steps were played.

    Writes every cell but those of unused lists, and what would be seen and legal in steps that were not played.
    """
    games = until or Endless(environment)
    environment.observe((rollout.observation_at(0),))
    rollout.figures[:] = 0
    cut_offs: list[tuple[int, int, Array]] = []
    final = np.empty((environment.lanes, *rollout.group.shape), rollout.group.dtype)
    played = 0
    while played < len(uniform) and not games.over:
        t, played = played, played + 1
        beat()
        rollout.place_lists(t)
        rollout.valid[0, t] = ~games.idle
        actions = _decide(policy, frozen, rollout, t, uniform[t])
        environment.step((actions,), step_at(rollout, t, final), (rollout.observation_at(t + 1),))
        games.count(rollout.ended[0, t])
        tell(environment, rollout, t)
        if rollout.cut_off[0, t].any():
            cut_offs += [(t, int(b), final[b].copy()) for b in np.flatnonzero(rollout.cut_off[0, t])]
    rollout.place_lists(played)
    _write_values(policy, rollout.until(played), cut_offs)
    rollout.leave_out(played)
    return played


def tell(environment: Environment, rollout: Rollout, t: int) -> None:
    """Add up what the environment tells of the games that have just ended; for a rollout of one block."""
    ended = rollout.ended[0, t]
    if rollout.group.figures and ended.any() and isinstance(environment, Telling):
        told: Float32 = np.zeros(rollout.figures.shape[1:], np.float32)
        environment.tell(ended, told)
        rollout.figures[0] += np.where(ended[:, None], told, np.float32(0))


def action_noise(seed: int, lanes: Int64, iteration: int, steps: int) -> Float32:
    """The numbers in [0, 1) that sample actions, `[T, B]`: keyed by seed, lane, iteration and step alone."""
    step, lane = np.meshgrid(np.arange(steps), lanes, indexing="ij")
    words = uniform_words(seed, lane.ravel(), step.ravel(), iteration, _STREAM)
    # 23 bits, so that u · total stays below total in float32.
    numbers: Float32 = ((words >> np.uint64(9)).astype(np.float32) * np.float32(2**-23)).reshape(steps, len(lanes))
    return numbers


def _decide(policy: Actor, frozen: Sequence[Frozen], rollout: Rollout, t: int, uniform: Float32) -> Int64:
    seat, valid = rollout.seat[0, t], rollout.valid[0, t]
    acted = (seat != NO_SEAT) & valid
    for opponent in frozen:
        acted &= seat != opponent.seat
    rollout.acted[0, t] = acted
    choices = rollout.choices_at(t)
    if frozen and not (acted | ~valid).all():
        return _decide_apart(policy, frozen, rollout, t, choices, uniform)
    decision = policy.act(rollout.observation[0, t], choices, uniform)
    rollout.choice[0, t] = decision.choice
    rollout.log_probability[0, t] = decision.log_probability
    rollout.value[0, t] = decision.value
    return decision.action if acted.all() else _without_idle(rollout, t, decision.action)


def _without_idle(rollout: Rollout, t: int, actions: Int64) -> Int64:
    """Idle lanes were in the batch for its shape alone."""
    idle = ~rollout.acted[0, t]
    for field in (rollout.choice, rollout.log_probability, rollout.value):
        field[0, t, idle] = 0
    return np.where(idle, PASS, actions)


def _decide_apart(
    policy: Actor, frozen: Sequence[Frozen], rollout: Rollout, t: int, choices: LegalChoices, uniform: Float32
) -> Int64:
    """Where frozen opponents decide in some lanes: each policy sees only its own lanes."""
    actions = np.full(len(uniform), PASS, np.int64)
    acted = rollout.acted[0, t]
    for field in (rollout.choice, rollout.log_probability, rollout.value):
        field[0, t] = 0
    seat = np.where(rollout.valid[0, t], rollout.seat[0, t], NO_SEAT)
    for who, lanes in _who_decides(policy, frozen, acted, seat):
        decision = who.act(rollout.observation[0, t][lanes], choices.of(lanes), uniform[lanes])
        actions[lanes] = decision.action
        if who is policy:
            rollout.choice[0, t, lanes] = decision.choice
            rollout.log_probability[0, t, lanes] = decision.log_probability
            rollout.value[0, t, lanes] = decision.value
    return actions


def _who_decides(policy: Actor, frozen: Sequence[Frozen], acted: Array, seat: Int8) -> list[tuple[Actor, Int64]]:
    parts = [(policy, np.flatnonzero(acted))]
    parts += [(opponent.policy, np.flatnonzero(seat == opponent.seat)) for opponent in frozen]
    return [(who, lanes) for who, lanes in parts if len(lanes)]


def step_at(rollout: Rollout, t: int, final: Array) -> Step:
    """Where the environment writes what came of a step; for a rollout of one block."""
    return Step(
        reward=rollout.reward[0, t],
        discount=rollout.discount[0, t],
        ended=rollout.ended[0, t],
        cut_off=rollout.cut_off[0, t],
        reason=rollout.reason[0, t],
        length=rollout.length[0, t],
        final=(final,),
    )


def _write_values(policy: Actor, rollout: Rollout, cut_offs: list[tuple[int, int, Array]]) -> None:
    """The bootstrap values, and those of the last positions of games that were cut off, in batches of one shape."""
    after = rollout.observation[0, -1]
    rollout.bootstrap[0] = policy.values(after)
    rollout.final_value[0] = 0
    rollout.final_observation[0] = 0
    if rollout.has_finals:
        for t, b, seen in cut_offs:
            rollout.final_observation[0, t, b] = seen
    for some in _by_turns(cut_offs):
        padded = after.copy()
        for _, b, seen in some:
            padded[b] = seen
        values = policy.values(padded)
        for t, b, _ in some:
            rollout.final_value[0, t, b] = values[b]


def _by_turns(cut_offs: list[tuple[int, int, Array]]) -> list[list[tuple[int, int, Array]]]:
    """The first of each lane, the second of each, …: a lane may have a policy of its own, so it keeps its place."""
    turns: list[list[tuple[int, int, Array]]] = []
    counts: dict[int, int] = {}
    for cut_off in cut_offs:
        lane = cut_off[1]
        counts[lane] = counts.get(lane, 0) + 1
        if counts[lane] > len(turns):
            turns.append([])
        turns[counts[lane] - 1].append(cut_off)
    return turns
