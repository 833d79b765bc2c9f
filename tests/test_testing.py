"""The contract test passes what keeps the contract, and names the field of what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import keisei
from keisei.environment import NO_SEAT, Array, Environment, LegalForm, Observation, Step
from keisei.errors import ContractError
from keisei.testing import check_environment
from relay import Relay
from tictactoe import TicTacToe


@pytest.mark.parametrize("legal", ["list", "mask", "bits"])
@pytest.mark.parametrize(
    ("copies", "random_plies", "move_limit"), [(4, 0, 9), (4, 3, 9), (4, 0, 6), (1, 0, 9), (33, 0, 9)]
)
def test_what_keeps_the_contract_passes(legal: LegalForm, copies: int, random_plies: int, move_limit: int) -> None:
    environment = TicTacToe(copies, legal=legal, random_plies=random_plies, move_limit=move_limit)
    assert isinstance(environment, Environment)
    check_environment(environment, steps=60)
    assert environment.closed == 2


def test_several_groups_and_lanes_that_wait_are_understood() -> None:
    check_environment(Relay(), steps=60)


@pytest.mark.parametrize("legal", ["list", "mask", "bits"])
@pytest.mark.parametrize("observation", ["packed", "uint8", "float32"])
def test_shogi_keeps_the_contract(legal: str, observation: str) -> None:
    options = {"copies": 4, "threads": 2, "move_limit": 40, "random_plies": 9}
    check_environment(keisei.make("shogi", legal=legal, observation=observation, **options), steps=90)


def test_shogi_keeps_the_contract_over_whole_games() -> None:
    check_environment(keisei.make("shogi", copies=8, observation="packed"), steps=600)


class Described(TicTacToe):
    """Says something untrue about itself."""

    def __init__(self, **untrue: object) -> None:
        super().__init__()
        for name, value in untrue.items():
            if hasattr(self, name):
                setattr(self, name, value)
            else:
                self.groups = (replace(self.groups[0], **{name: value}),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("untrue", "message"),
    [
        ({"copies": 0}, "copies: 0 is less than 1"),
        ({"copies": 3}, "lanes: 4 is no multiple of 3 copies"),
        ({"lanes": 8}, "groups: do not cover 8 lanes once each"),
        ({"groups": ()}, "groups: do not cover 4 lanes once each"),
        ({"seats": ("cross", "cross")}, "seats: "),
        ({"reasons": ()}, "reasons: "),
        ({"state_bytes": -1}, "state_bytes: -1 is negative"),
        ({"shape": (2, 0)}, r"groups\[0\].shape: "),
        ({"dtype": np.dtype(">f4")}, r"groups\[0\].dtype: "),
        ({"dtype": np.dtype("U1")}, r"groups\[0\].dtype: "),
        ({"actions": 0}, r"groups\[0\].actions: "),
        ({"actions": 1 << 17}, r"groups\[0\].actions: "),
        ({"most_legal": 10}, r"groups\[0\].most_legal: "),
        ({"legal": "words"}, r"groups\[0\].legal: "),
    ],
)
def test_untrue_description_is_found(untrue: dict[str, object], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        check_environment(Described(**untrue))


@pytest.mark.parametrize("lanes", [np.arange(4), np.array([0, 2, 1, 3], np.int32), np.zeros((1, 4), np.int32)])
def test_unfit_lanes_are_found(lanes: Array) -> None:
    environment = TicTacToe()
    environment.groups = (replace(environment.groups[0], lanes=lanes),)  # type: ignore[arg-type]
    with pytest.raises(ContractError, match=r"groups\[0\].lanes: "):
        check_environment(environment)


class Seen(TicTacToe):
    """Spoils what it has written for `observe`; the name of the defect chooses how."""

    defect = ""

    def observe(self, observation: Sequence[Observation]) -> None:
        super().observe(observation)
        getattr(self, self.defect)(observation[0])

    def changes_state(self, seen: Observation) -> None:
        self.games += 1

    def seat_out_of_range(self, seen: Observation) -> None:
        seen.seat[1] = 2

    def seat_below_none(self, seen: Observation) -> None:
        seen.seat[1] = -2

    def not_finite(self, seen: Observation) -> None:
        seen.values[2] = np.nan

    def beside_the_array(self, seen: Observation) -> None:
        longer = np.lib.stride_tricks.as_strided(seen.seat, (len(seen.seat) + 1,))
        longer[-1] = 0

    def beyond_offsets(self, seen: Observation) -> None:
        seen.legal.actions[seen.legal.offsets[-1] :] = 0

    def falling_offsets(self, seen: Observation) -> None:
        seen.legal.offsets[1] = seen.legal.offsets[2] + 1

    def late_offsets(self, seen: Observation) -> None:
        seen.legal.offsets[0] = 1

    def twice(self, seen: Observation) -> None:
        seen.legal.actions[1] = seen.legal.actions[0]

    def out_of_range(self, seen: Observation) -> None:
        seen.legal.actions[0] = 9

    def too_many(self, seen: Observation) -> None:
        self.groups = (replace(self.groups[0], most_legal=5),)

    def none_legal(self, seen: Observation) -> None:
        seen.legal.actions[0] = 0

    def nobody_decides(self, seen: Observation) -> None:
        seen.seat[3] = NO_SEAT

    def two_in_mask(self, seen: Observation) -> None:
        seen.legal.actions[3, 3] = 2

    def spare_bits(self, seen: Observation) -> None:
        seen.legal.actions[0, 1] |= 4


@pytest.mark.parametrize(
    ("defect", "legal", "message"),
    [
        ("changes_state", "list", "observe: changes the state"),
        ("seat_out_of_range", "list", r"observation\[0\].seat: .* in lane 1"),
        ("seat_below_none", "list", r"observation\[0\].seat: .* in lane 1"),
        ("not_finite", "list", r"observation\[0\].values: not finite in lane 2, after reset"),
        ("beside_the_array", "list", r"observation\[0\].seat: memory beside the array was written"),
        ("beyond_offsets", "list", r"observation\[0\].legal.actions: written beyond the last offset"),
        ("falling_offsets", "list", r"observation\[0\].legal.offsets: do not rise"),
        ("late_offsets", "list", r"observation\[0\].legal.offsets: do not rise from 0"),
        ("twice", "list", r"observation\[0\].legal: an action twice in lane 0"),
        ("out_of_range", "list", r"observation\[0\].legal: action out of range in lane 0"),
        ("too_many", "list", r"observation\[0\].legal: more than most_legal"),
        ("none_legal", "mask", r"observation\[0\].legal: no legal action in lane 0"),
        ("nobody_decides", "bits", r"observation\[0\].legal: legal actions where nobody decides in lane 3"),
        ("two_in_mask", "mask", r"observation\[0\].legal.actions: neither 0 nor 1 in lane 3"),
        ("spare_bits", "bits", r"observation\[0\].legal.actions: bits set beyond the actions in lane 0"),
    ],
)
def test_defect_of_what_is_seen_is_found(defect: str, legal: LegalForm, message: str) -> None:
    environment = Seen(legal=legal, dtype=np.float32)
    environment.defect = defect
    with pytest.raises(ContractError, match=message):
        check_environment(environment, steps=40)


class Half(TicTacToe):
    """Leaves one cell of what it should write as it was: by `reset`, by `step`, or wherever it writes."""

    defect = ""

    def reset(self, observation: Sequence[Observation]) -> None:
        kept = observation[0].values[1, 1].copy()
        super().reset(observation)
        if self.defect == "reset":
            observation[0].values[1, 1] = kept

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        kept = observation[0].values[1, 1].copy(), step.final[0].copy(), step.discount[3]
        super().step(actions, step, observation)
        if self.defect == "step":
            observation[0].values[1, 1] = kept[0]
        if self.defect == "final":
            step.final[0][:, 1, 2, 2] = kept[1][:, 1, 2, 2]
        if self.defect == "discount":
            step.discount[3] = kept[2]

    def observe(self, observation: Sequence[Observation]) -> None:
        kept = observation[0].values[1, 1].copy()
        super().observe(observation)
        if self.defect == "observe":
            observation[0].values[1, 1] = kept


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("reset", r"observation\[0\].values: differs from what observe\(\) writes, after reset\(\), in lane 1"),
        ("observe", r"observation\[0\].values: differs from what observe\(\) writes, after reset\(\), in lane 1"),
        ("step", r"observation\[0\].values: differs from what observe\(\) writes, step 0, in lane 1"),
        ("final", r"final\[0\]: differs from the first run after a second reset\(\), step \d+, in lane \d"),
        ("discount", "discount: not -1, 0 or 1 in lane 3, step 0"),
    ],
)
def test_cell_left_unwritten_is_found(defect: str, message: str) -> None:
    environment = Half()
    environment.defect = defect
    with pytest.raises(ContractError, match=message):
        check_environment(environment, steps=40)


class Stepped(TicTacToe):
    """Spoils the outcome of its steps; the name of the defect chooses how."""

    defect = ""

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        super().step(actions, step, observation)
        getattr(self, self.defect)(step)

    def infinite_reward(self, step: Step) -> None:
        step.reward[2] = np.inf

    def half_discount(self, step: Step) -> None:
        step.discount[0] = 0.5

    def discounted_end(self, step: Step) -> None:
        step.discount[step.ended] = -1

    def same_seat(self, step: Step) -> None:
        step.discount[~step.ended] = 1

    def odd_truth(self, step: Step) -> None:
        step.ended.view(np.uint8)[0] = 7

    def cut_off_only(self, step: Step) -> None:
        step.cut_off[1] = True

    def no_reason(self, step: Step) -> None:
        step.reason[:] = 0

    def unknown_reason(self, step: Step) -> None:
        step.reason[step.ended] = 4

    def always_a_length(self, step: Step) -> None:
        step.length[0] = 3

    def negative_length(self, step: Step) -> None:
        step.length[0] = -3

    def short_length(self, step: Step) -> None:
        step.length[step.ended] -= 1

    def final_while_going_on(self, step: Step) -> None:
        step.final[0][~step.ended] = 0


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("infinite_reward", "reward: not finite in lane 2, step 0"),
        ("half_discount", "discount: not -1, 0 or 1 in lane 0, step 0"),
        ("discounted_end", "discount: 0 must mean ended and not cut off"),
        ("same_seat", "discount: does not tell who is next"),
        ("odd_truth", "ended: neither true nor false in lane 0"),
        ("cut_off_only", "cut_off: set, but ended is not in lane 1"),
        ("no_reason", "reason: must be 0 where the game goes on"),
        ("unknown_reason", "reason: not one of `reasons`"),
        ("always_a_length", "length: must be 0 where the game goes on"),
        ("negative_length", "length: must be 0 where the game goes on"),
        ("short_length", "length: less than the decisions made"),
        ("final_while_going_on", r"final\[0\]: written, but not ended in lane 0, step 0"),
    ],
)
def test_defect_of_an_outcome_is_found(defect: str, message: str) -> None:
    environment = Stepped()
    environment.defect = defect
    with pytest.raises(ContractError, match=message):
        check_environment(environment, steps=40)


def test_what_is_no_environment_is_told_what_it_lacks() -> None:
    with pytest.raises(ContractError, match=r"^environment: int has no copies, lanes, seats, .*, close$"):
        check_environment(7)  # type: ignore[arg-type]  # that is the point
