"""Many games of Shogi at once, behind the `Environment` contract. The games themselves are played in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from keisei.environment import Array, Group, Int64, LegalForm, Observation, Step, UInt8
from keisei.errors import ActionError, ConfigError, NotationError, StateError
from keisei.shogi import _native
from keisei.shogi.actions import ACTIONS, MOST_LEGAL, PACKED_BYTES, PLANES, action_to_usi
from keisei.shogi.arguments import checked_number
from keisei.shogi.board import Board, Declaration

ObservationForm = Literal["packed", "uint8", "float32"]

_MOST_PLIES = 65535
_MOST_REMEMBERED = 1024


class ShogiEnvironment:
    """Each game is a lane; black and white alternate in it. Ended games start again by themselves."""

    seats = ("black", "white")
    reasons = _native.REASONS

    def __init__(
        self,
        *,
        copies: int = 1,
        seed: int = 0,
        threads: int = 1,
        observation: ObservationForm = "uint8",
        legal: LegalForm = "list",
        declaration: Declaration = "27",
        move_limit: int = 512,
        openings: Sequence[str] = ("startpos",),
        random_plies: int = 0,
        random_share: float = 1.0,
        remembered_share: float = 0.0,
        remembered_positions: int = 16,
        first_lane: int = 0,
    ) -> None:
        """`openings` are drawn uniformly ('startpos', handicap names, SFENs); up to `random_plies` random moves follow
        in a share of the games. Another share begins in the middle of one of the lane's earlier games, of which the
        last `remembered_positions` are remembered with one position each.

        Lane `i` is lane `first_lane + i` of the run, and plays the same games wherever it is played.
        """
        copies = checked_number("copies", copies, 1, 2**24)
        threads = checked_number("threads", threads, 1, 1024)
        seed = checked_number("seed", seed, 0, 2**64 - 1)
        first_lane = checked_number("first_lane", first_lane, 0, 2**63)
        move_limit = checked_number("move_limit", move_limit, 1, _MOST_PLIES)
        random_plies = checked_number("random_plies", random_plies, 0, move_limit - 1)
        remembered_positions = checked_number("remembered_positions", remembered_positions, 1, _MOST_REMEMBERED)
        _check_share("random_share", random_share)
        _check_share("remembered_share", remembered_share)
        _check_choice("observation", observation, get_args(ObservationForm))
        _check_choice("legal", legal, get_args(LegalForm))
        _check_openings(openings, declaration)
        remembered = remembered_positions if remembered_share else 0
        starts = random_plies, random_share, remembered, remembered_share
        self._batch = _native.Batch(
            copies, threads, seed, first_lane, observation, legal, declaration, move_limit, list(openings), *starts
        )
        shape = (PACKED_BYTES,) if observation == "packed" else (PLANES, 9, 9)
        dtype = np.dtype(np.float32 if observation == "float32" else np.uint8)
        self.copies = self.lanes = copies
        self.groups = (Group(np.arange(copies, dtype=np.int32), shape, dtype, ACTIONS, legal, MOST_LEGAL),)
        self.state_bytes = self._batch.state_bytes
        self.longest_game = move_limit

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every game anew, random streams included, and write what is seen."""
        self._batch.reset(*_arrays(observation))

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what the sides to move see."""
        self._batch.observe(*_arrays(observation))

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per game (`PASS`: none); raises `ActionError` before anything changes."""
        chosen = self._checked_actions(actions)
        lane = self._batch.step(
            chosen,
            step.reward,
            step.discount,
            step.ended,
            step.cut_off,
            step.reason,
            step.length,
            step.final[0],
            *_arrays(observation),
        )
        if lane >= 0:
            raise ActionError(self._wrong_action(int(chosen[lane]), lane))

    def save_state(self, out: UInt8) -> None:
        """Write the games' states, random streams included, to `out` `[copies, state_bytes]`."""
        self._batch.save(out)

    def load_state(self, saved: UInt8) -> None:
        """Go back to saved states; raises `StateError`, and changes nothing, where one is not of these games."""
        saved = np.asarray(saved)
        if saved.dtype != np.uint8 or saved.shape != (self.copies, self.state_bytes):
            raise StateError(
                f"expected saved states as uint8 [{self.copies}, {self.state_bytes}], "
                f"found {saved.dtype} {list(saved.shape)}"
            )
        lane = self._batch.load(np.ascontiguousarray(saved))
        if lane >= 0:
            raise StateError(f"the saved state of lane {lane} is damaged, or was saved under other rules or openings")

    def close(self) -> None:
        """Nothing is held but memory and threads, which go with the object."""

    def sfen(self, lane: int) -> str:
        """The position of a lane."""
        return self._batch.sfen(lane)

    def sfens(self) -> list[str]:
        """The positions of all lanes."""
        return [self._batch.sfen(lane) for lane in range(self.copies)]

    def _checked_actions(self, actions: Sequence[Array]) -> Int64:
        if len(actions) != 1:
            raise ActionError(f"expected one array of actions, found {len(actions)}: {self._first(actions)}")
        chosen = np.asarray(actions[0])
        if chosen.shape != (self.copies,) or chosen.dtype.kind not in "iu" or chosen.dtype == np.uint64:
            raise ActionError(
                f"expected actions as integers that int64 holds [{self.copies}], "
                f"found {chosen.dtype} {list(chosen.shape)}: {self._first(actions)}"
            )
        return np.ascontiguousarray(chosen, np.int64)

    def _first(self, actions: Sequence[Array]) -> str:
        """The first lane, with what is given as its action, in words."""
        given = [action for array in actions[:1] for action in np.asarray(array).ravel()[:1].tolist()]
        which = f"action {given[0]!r}" if given else "no action"
        return f"{which} of lane 0, in '{self.sfen(0)}'"

    def _wrong_action(self, action: int, lane: int) -> str:
        if not 0 <= action < ACTIONS:
            return f"action {action} of lane {lane} is not in 0..{ACTIONS - 1}, in '{self.sfen(lane)}'"
        turn = Board(self.sfen(lane)).turn
        return f"illegal action {action} ('{action_to_usi(action, turn)}') of lane {lane} in '{self.sfen(lane)}'"


def _arrays(observation: object) -> tuple[Array, Array, Array, Array]:
    if not isinstance(observation, Sequence) or len(observation) != 1:
        raise ValueError(f"observation: expected a list of one Observation, found {type(observation).__name__}")
    (seen,) = observation
    return seen.values, seen.legal.actions, seen.legal.offsets, seen.seat


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, found {value!r}")


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name}: expected a share from 0 to 1, found {value}")


def _check_openings(openings: Sequence[str], declaration: Declaration) -> None:
    if isinstance(openings, str) or not openings:
        raise ConfigError(f"openings: expected a list of SFENs or names, found {openings!r}")
    for number, text in enumerate(openings):
        try:
            outcome = Board(text, declaration=declaration).outcome()
        except NotationError as error:
            raise NotationError(f"openings: number {number}: {error}") from None
        if outcome is not None:
            raise ConfigError(f"openings: number {number}, '{text}', is a finished game ({outcome.reason})")
