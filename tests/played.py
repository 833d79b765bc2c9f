"""A block's share of a rollout, played into memory that was full of something else, and how to read it."""

from __future__ import annotations

import numpy as np
import torch

from keisei.collect.loop import Frozen, action_noise, play
from keisei.environment import Environment, Int8
from keisei.policy import Policy
from keisei.rollout import ARRAYS, Rollout, RolloutLayout
from plain_network import double_log_softmax

LANES = 5


def played(
    environment: Environment,
    policy: Policy,
    *,
    steps: int = 12,
    frozen: Frozen | None = None,
    iteration: int = 0,
    fill: int = 0xFF,
    reset: bool = True,
    finals: bool = False,
) -> Rollout:
    """A block's share of a rollout, in memory that was full of something else."""
    if reset:
        state = np.zeros((environment.copies, environment.state_bytes), np.uint8)
        environment.save_state(state)
    layout = RolloutLayout(environment.groups[0], steps, finals=finals)
    memory = layout.allocate(1)
    memory[:] = fill
    rollout = layout.rollout(memory)
    noise = action_noise(3, np.arange(environment.lanes), iteration, steps)
    play(environment, policy, () if frozen is None else (frozen,), rollout, noise)
    if reset:
        environment.load_state(state)
    return rollout


def written(rollout: Rollout) -> dict[str, bytes]:
    """All bytes that somebody should have written."""
    arrays = {name: getattr(rollout, name) for name in ARRAYS}
    if rollout.group.legal == "list":
        arrays["legal_actions"] = rollout.legal_actions[0, : rollout.legal_offsets[0, -1, -1]]
    return {name: array.tobytes() for name, array in arrays.items()}


def stored_legal(rollout: Rollout, t: int, b: int) -> list[int]:
    """The legal actions of a row, read from the bare arrays."""
    if rollout.group.legal == "list":
        start, end = rollout.legal_offsets[0, t, b : b + 2]
        listed: list[int] = rollout.legal_actions[0, start:end].tolist()
        return listed
    row = rollout.legal_actions[0, t, b].astype(np.uint8)
    return np.flatnonzero(row if rollout.group.legal == "mask" else np.unpackbits(row, bitorder="little")).tolist()


def alternating() -> Int8:
    return (np.arange(LANES) % 2).astype(np.int8)


def check_sampled(rollout: Rollout, place: tuple[int, int], policy: Policy, column: int, uniform: float) -> float:
    """That a policy, asked for one row alone, finds that number in the share of this column; gives its logarithm."""
    t, b = place
    legal = torch.tensor([stored_legal(rollout, t, b)])
    with torch.no_grad():
        logits, _ = policy.network(policy.encode(rollout.observation[0, t, b : b + 1]), legal)
    log_probabilities = double_log_softmax(logits[0])
    ends = log_probabilities.exp().cumsum(0)
    assert (ends[column - 1] if column else 0) - 1e-5 <= uniform <= ends[column] + 1e-5
    return log_probabilities[column].item()


def column_of(rollout: Rollout, t: int, b: int) -> int:
    """The place of the stored choice in the list of legal actions."""
    choice = int(rollout.choice[0, t, b])
    return choice if rollout.group.legal == "list" else stored_legal(rollout, t, b).index(choice)
