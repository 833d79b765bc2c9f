"""Playing one block of a run: a pure function of its state, the weights, the run's seed and the iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keisei.collect.collector import BuildEnvironment
from keisei.collect.frozen import ChooseFrozen
from keisei.collect.loop import Beat, Endless, Frozen, Quota, action_noise, play, silent
from keisei.collect.past import NO_PAST, PastRules
from keisei.environment import NO_SEAT, Array, Bool, Environment, Int8, Int64, UInt8, longest_game
from keisei.errors import ContractError, StateError
from keisei.policy import Actor
from keisei.rollout import Rollout, RolloutLayout
from keisei.threads import torch_threads


def nobody(block: int, iteration: int) -> Sequence[Frozen]:
    """No frozen opponent."""
    return ()


@dataclass(frozen=True)
class BlockRules:
    """What playing blocks needs beside weights and states. It can be pickled."""

    build_environment: BuildEnvironment
    build_policy: Callable[[], Actor]
    build_frozen: Callable[[Sequence[Actor]], ChooseFrozen]  # from the past selves, the oldest first
    steps: int
    seed: int
    finals: bool = False  # keep the last positions of games that are cut off
    games: int | None = None  # instead of `steps`: every copy plays so many games
    past: PastRules = NO_PAST

    def most_steps(self, environment: Environment) -> int:
        """How many steps a rollout can have."""
        return self.steps if self.games is None else self.games * longest_game(environment)

    def layout(self, environment: Environment) -> RolloutLayout:
        """Where the arrays of a block of this environment lie."""
        return RolloutLayout(environment.groups[0], self.most_steps(environment), finals=self.finals)


class BlockPlayer:
    """Plays whichever block it is given. Environments are kept, one for each block that it met."""

    def __init__(self, rules: BlockRules, past: Sequence[Actor] = ()) -> None:
        """`past` are the past selves, which may change from block to block."""
        self.policy = rules.build_policy()
        self._build_environment = rules.build_environment
        self.choose_frozen = rules.build_frozen(past)
        self._games = rules.games
        self._seed = rules.seed
        self._first = rules.build_environment(0)
        self._steps = rules.most_steps(self._first)
        self._kept: dict[int, Environment] = {}  # each belongs to the lanes of one block

    @property
    def environment(self) -> Environment:
        """The environment of a block."""
        return self._first

    def first_state(self, block: int) -> UInt8:
        """The state in which a block begins, `[copies, state_bytes]`."""
        state = np.zeros((self._first.copies, self._first.state_bytes), np.uint8)
        if state.size:
            environment = self._build_environment(block * self._first.lanes)
            environment.save_state(state)
            environment.close()
        return state

    def play(self, block: int, iteration: int, start: UInt8, end: UInt8, rollout: Rollout, beat: Beat = silent) -> None:
        """Play a block on from `start`; fills `end` and the block's share of the rollout. Calls `beat` at each step."""
        begun = 0

        def begin_step() -> None:
            nonlocal begun
            begun += 1
            beat()

        try:
            environment = self._at(block, start)
            noise = action_noise(self._seed, self._lanes(block), iteration, self._steps)
            frozen = self.choose_frozen(block, iteration)
            until = Endless(environment) if self._games is None else Quota(environment, self._games)
            with torch_threads(1):
                played = play(environment, self.policy, frozen, rollout, noise, begin_step, until)
            check_rollout(rollout.until(played), self._first)
            until.check(played)
            if end.size:
                environment.save_state(end)
        except BaseException as error:
            if block in self._kept:
                self._kept.pop(block).close()  # nobody knows where it stands
            error.add_note(where(block, iteration, self._seed, begun))
            if begun and isinstance(error, Exception):
                check_rollout(rollout, self._first, begun)  # what was handed out before may say why
            raise

    def forget(self) -> None:
        """Let go of all environments; those that cannot save their states begin anew."""
        for environment in self._kept.values():
            environment.close()
        self._kept = {}

    def _at(self, block: int, start: UInt8) -> Environment:
        if block not in self._kept:
            self._kept[block] = self._build_environment(block * self._first.lanes)
        if start.size:
            self._kept[block].load_state(start)
        return self._kept[block]

    def _lanes(self, block: int) -> Int64:
        lanes = self._first.lanes
        return np.arange(block * lanes, (block + 1) * lanes)

    def close(self) -> None:
        """Give the environments back; may be called twice."""
        self.forget()
        self._first.close()


def where(block: int, iteration: int, seed: int, step: int) -> str:
    """Where something went wrong, and how to see it again."""
    return (
        f"in block {block} of iteration {iteration}, seed {seed}, step {step}. The same comes again in "
        "one process, where a debugger can stop it: with parallel.enabled=false, from the last checkpoint on"
    )


def check_rollout(rollout: Rollout, environment: Environment, steps: int | None = None) -> None:
    """Raise ContractError, naming field and place, where a block's rollout holds what it must not.

    `steps` is how many were begun; those are looked at. The last of them has been seen, but its outcome is not known.
    """
    begun = rollout.reward.shape[1] if steps is None else steps
    done = begun if steps is None else begun - 1
    seen = begun + 1 if steps is None else begun
    numbers = {
        "observation": rollout.observation[:, :seen],
        "reward": rollout.reward[:, :done],
        "value": rollout.value[:, :done],
        "log_probability": rollout.log_probability[:, :done],
        "final_observation": rollout.final_observation[:, :done],
    }
    if steps is None:
        numbers |= {"bootstrap": rollout.bootstrap[:, None], "final_value": rollout.final_value}
    for name, array in numbers.items():
        if array.dtype.kind == "f":
            _complain(name, array, ~np.isfinite(array), "a finite number")
    discount, reason = rollout.discount[:, :done], rollout.reason[:, :done]
    seat = rollout.seat[:, :seen].view(np.int8)
    _complain("discount", discount, (discount != 0) & (np.abs(discount) != 1), "-1, 0 or 1")
    _complain("reason", reason, reason >= len(environment.reasons), f"less than {len(environment.reasons)}")
    _complain("seat", seat, (seat < NO_SEAT) | (seat >= len(environment.seats)), "a seat of the game")
    ended, cut_off = rollout.ended[:, :done], rollout.cut_off[:, :done]
    _complain("cut_off", cut_off, cut_off & ~ended, "only games that ended")
    _check_legal(rollout, seat)


def _check_legal(rollout: Rollout, seat: Int8) -> None:
    group, seen = rollout.group, seat.shape[1]
    decides = seat != NO_SEAT
    if group.legal == "list":
        offsets = rollout.legal_offsets[:, :seen]
        counts = np.diff(offsets, axis=-1)
        _complain(
            "legal.offsets", counts, (counts < 0) | (counts > group.most_legal), f"0 to {group.most_legal} actions"
        )
        actions = rollout.legal_actions[0, : offsets[0, -1, -1]].view(np.uint16)
        _complain("legal.actions", actions, actions >= group.actions, f"less than {group.actions}")
    else:
        mask = rollout.legal_actions[:, :seen].view(np.uint8)
        if group.legal == "mask":
            _complain("legal.actions", mask, mask > 1, "0 or 1")
        counts = np.asarray(mask.any(-1), np.int32)
    _complain("legal.actions", counts, decides & (counts == 0), "an action for a seat that decides")


def _complain(field: str, found: Array, wrong: Bool, expected: str) -> None:
    """Raise ContractError for the first entry that is wrong; the last three axes of most fields begin with T and B."""
    if wrong.any():
        at = tuple(int(index) for index in np.argwhere(wrong)[0])
        where = f"step {at[1]}, lane {at[2]}" if len(at) > 2 else f"entry {at[-1]}"
        raise ContractError(f"expected {expected} as {field}, found {found[at]!s} in {where}")


def check_states(expected: UInt8, saved: UInt8) -> None:
    """Raise StateError where saved states are not of the same blocks."""
    if saved.shape != expected.shape or saved.dtype != expected.dtype:
        raise StateError(f"expected block states {list(expected.shape)}, found {saved.dtype} {list(saved.shape)}")
