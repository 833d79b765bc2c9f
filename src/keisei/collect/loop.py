"""The acting loop: one block, step by step. There is no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keisei.environment import NO_SEAT, PASS, Array, Environment, Float32, Int8, Int64, Step
from keisei.opponents import uniform_words
from keisei.policy import LegalChoices, Policy
from keisei.rollout import Rollout

_STREAM = 0x61637473
"""Fourth word of the counter: keeps the numbers that sample actions apart from all others of the seed."""


ABSENT = -2
"""In place of the seat of a frozen opponent: it does not play in this lane."""


@dataclass(frozen=True)
class Frozen:
    """A past policy that plays one seat of each lane; nobody learns from its plies."""

    policy: Policy
    seat: Int8  # [B] the seat that it plays, or ABSENT


Beat = Callable[[], None]
"""Called at each step, as a sign of life."""


def silent() -> None:
    """No sign of life."""


def play(
    environment: Environment,
    policy: Policy,
    frozen: Sequence[Frozen],
    rollout: Rollout,
    uniform: Float32,
    beat: Beat = silent,
) -> None:
    """Play a block's share of a rollout; `uniform [T, B]` samples the actions. Writes every cell but unused lists'."""
    environment.observe((rollout.observation_at(0),))
    cut_offs: list[tuple[int, int, Array]] = []
    final = np.empty((environment.lanes, *rollout.group.shape), rollout.group.dtype)
    for t in range(len(uniform)):
        beat()
        rollout.place_lists(t)
        actions = _decide(policy, frozen, rollout, t, uniform[t])
        environment.step((actions,), step_at(rollout, t, final), (rollout.observation_at(t + 1),))
        if rollout.cut_off[0, t].any():
            cut_offs += [(t, int(b), final[b].copy()) for b in np.flatnonzero(rollout.cut_off[0, t])]
    rollout.place_lists(len(uniform))
    _write_values(policy, rollout, cut_offs)


def action_noise(seed: int, lanes: Int64, iteration: int, steps: int) -> Float32:
    """The numbers in [0, 1) that sample actions, `[T, B]`: keyed by seed, lane, iteration and step alone."""
    step, lane = np.meshgrid(np.arange(steps), lanes, indexing="ij")
    words = uniform_words(seed, lane.ravel(), step.ravel(), iteration, _STREAM)
    # 23 bits, so that u · total stays below total in float32.
    numbers: Float32 = ((words >> np.uint64(9)).astype(np.float32) * np.float32(2**-23)).reshape(steps, len(lanes))
    return numbers


def _decide(policy: Policy, frozen: Sequence[Frozen], rollout: Rollout, t: int, uniform: Float32) -> Int64:
    seat = rollout.seat[0, t]
    acted = seat != NO_SEAT
    for opponent in frozen:
        acted &= seat != opponent.seat
    rollout.acted[0, t] = acted
    choices = rollout.choices_at(t)
    if acted.all():
        decision = policy.act(rollout.observation[0, t], choices, uniform)
        rollout.choice[0, t] = decision.choice
        rollout.log_probability[0, t] = decision.log_probability
        rollout.value[0, t] = decision.value
        return decision.action
    return _decide_apart(policy, frozen, rollout, t, choices, uniform)


def _decide_apart(
    policy: Policy, frozen: Sequence[Frozen], rollout: Rollout, t: int, choices: LegalChoices, uniform: Float32
) -> Int64:
    """Where not every lane is the learner's to decide: each policy sees only its own lanes."""
    actions = np.full(len(uniform), PASS, np.int64)
    acted = rollout.acted[0, t]
    for field in (rollout.choice, rollout.log_probability, rollout.value):
        field[0, t] = 0
    for who, lanes in _who_decides(policy, frozen, acted, rollout.seat[0, t]):
        decision = who.act(rollout.observation[0, t][lanes], choices.of(lanes), uniform[lanes])
        actions[lanes] = decision.action
        if who is policy:
            rollout.choice[0, t, lanes] = decision.choice
            rollout.log_probability[0, t, lanes] = decision.log_probability
            rollout.value[0, t, lanes] = decision.value
    return actions


def _who_decides(policy: Policy, frozen: Sequence[Frozen], acted: Array, seat: Int8) -> list[tuple[Policy, Int64]]:
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


def _write_values(policy: Policy, rollout: Rollout, cut_offs: list[tuple[int, int, Array]]) -> None:
    """The bootstrap values, and those of the last positions of games that were cut off, in batches of one shape."""
    after = rollout.observation[0, -1]
    rollout.bootstrap[0] = policy.values(after)
    rollout.final_value[0] = 0
    rollout.final_observation[0] = 0
    if rollout.has_finals:
        for t, b, seen in cut_offs:
            rollout.final_observation[0, t, b] = seen
    lanes = len(after)
    for first in range(0, len(cut_offs), lanes):
        some = cut_offs[first : first + lanes]
        padded = after.copy()
        for i, (_, _, seen) in enumerate(some):
            padded[i] = seen
        values = policy.values(padded)
        for i, (t, b, _) in enumerate(some):
            rollout.final_value[0, t, b] = values[i]
