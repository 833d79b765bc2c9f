"""The contract test finds wrong actions that are taken, passes that are none, and states that do not come back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from keisei.environment import PASS, Array, Observation, Step, UInt8
from keisei.errors import ActionError, ContractError, StateError
from keisei.testing import check_environment
from tictactoe import TicTacToe


class Lenient(TicTacToe):
    """Does the wrong thing with wrong actions."""

    defect = ""

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        try:
            super().step(self._mended(actions), step, observation)
        except ActionError:
            if self.defect == "writes_first":
                step.reward[:] = 0
            if self.defect == "plays_first":
                self.games[0] += 1
            if self.defect == "raises_another":
                raise IndexError("out of range") from None
            raise

    def _mended(self, actions: Sequence[Array]) -> Sequence[Array]:
        if self.defect == "takes_floats":
            return [array.astype(np.int64) for array in actions]
        if self.defect == "takes_the_first_few":
            return [array[: self.lanes] for array in actions]
        if self.defect in ("replaces_unknown", "replaces_illegal") and len(actions) == 1:
            (chosen,) = actions
            if chosen.shape == (self.lanes,) and chosen.dtype.kind == "i":
                numbers = chosen.astype(np.int64)
                known = (numbers >= -1) & (numbers < 9)
                free = self.board[np.arange(self.lanes), np.where(known, numbers, 0)] == 0
                wrong = ~known if self.defect == "replaces_unknown" else known & ~free & (numbers >= 0)
                return [np.where(wrong, (self.board == 0).argmax(axis=1), numbers)]
        return actions


class Passing(TicTacToe):
    """Does the wrong thing in lanes that pass."""

    defect = ""

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        super().step(actions, step, observation)
        passes = actions[0] == PASS
        if self.defect == "pass_counts":
            self.games += passes
        if self.defect == "pass_pays":
            step.reward[passes] = 0.5
        if self.defect == "pass_turns":
            self.turn[passes] ^= 1
            self.observe(observation)


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("writes_first", "actions: .*: refused, but arrays are written"),
        ("plays_first", "actions: .*: refused, but the state changes"),
        ("raises_another", "actions: .*: raises IndexError, not ActionError"),
        ("takes_floats", "actions: floats: accepted without ActionError"),
        ("takes_the_first_few", "actions: one action too many: accepted without ActionError"),
        ("replaces_unknown", "actions: action 9 in lane 3: accepted without ActionError"),
        ("replaces_illegal", r"actions: action \d in lane 3: accepted without ActionError"),
    ],
)
def test_wrong_handling_of_actions_is_found(defect: str, message: str) -> None:
    environment = Lenient()
    environment.defect = defect
    with pytest.raises(ContractError, match=message):
        check_environment(environment, steps=41)


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("pass_counts", "save_state: another state in lane 0, in a copy that passes"),
        ("pass_pays", "step: reward, discount or ended are not those of PASS in lane 0"),
        ("pass_turns", r"observation\[0\].(values|seat): differs from before, in a copy that passes, in lane 0"),
    ],
)
def test_pass_that_is_none_is_found(defect: str, message: str) -> None:
    environment = Passing()
    environment.defect = defect
    with pytest.raises(ContractError, match=message):
        check_environment(environment, steps=41)


class Forgetful(TicTacToe):
    """Does not come back to where it was."""

    defect = ""

    def reset(self, observation: Sequence[Observation]) -> None:
        games = self.games.copy()
        super().reset(observation)
        if self.defect == "goes_on":
            self.games += games

    def save_state(self, out: UInt8) -> None:
        kept = out[:, 16].copy()
        super().save_state(out)
        if self.defect == "leaves_a_byte":
            out[:, 16] = kept
        if self.defect == "counts_saves":
            self.games += 1

    def load_state(self, saved: UInt8) -> None:
        games = self.games.copy()
        if self.defect == "trusts":
            return
        if self.defect == "asserts":
            assert saved.shape == (self.copies, self.state_bytes)
        if self.defect == "loads_first":
            self.games += 1
        try:
            super().load_state(saved)
        except StateError:
            if self.defect == "believes_bytes" and saved.shape == (self.copies, self.state_bytes):
                return
            raise
        if self.defect == "forgets":
            self.games[:] = games


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("goes_on", "differs from the first run after a second reset"),
        ("leaves_a_byte", "save_state: not every byte is written, or saving changes the state"),
        ("counts_saves", "observe: changes the state, after reset"),
        ("trusts", "load_state: a byte too many: accepted without StateError"),
        ("asserts", "load_state: a byte too many: raises AssertionError, not StateError"),
        ("loads_first", "load_state: a byte too many: refused, but the state changes"),
        ("believes_bytes", "load_state: .*: accepted without StateError"),
        ("forgets", "load_state: saving again gives other bytes"),
    ],
)
def test_state_that_does_not_come_back_is_found(defect: str, message: str) -> None:
    environment = Forgetful(random_plies=2)
    environment.defect = defect
    with pytest.raises(ContractError, match=message):
        check_environment(environment, steps=40)


def test_environment_without_states_is_checked_too() -> None:
    environment = TicTacToe()
    environment.state_bytes = 0
    check_environment(environment, steps=40)


def test_close_must_bear_a_second_call() -> None:
    class Fragile(TicTacToe):
        def close(self) -> None:
            super().close()
            if self.closed > 1:
                raise OSError("closed already")

    with pytest.raises(OSError, match="closed already"):
        check_environment(Fragile(), steps=4)
