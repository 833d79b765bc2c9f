"""The contract between whoever plays and what is played: `Environment`, and the arrays that cross it.

An environment is many copies of one game or world, stepped together. The caller owns every array; the environment
fills them. What the arrays mean is said here once; `keisei.testing.check_environment` checks that it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Int8 = npt.NDArray[np.int8]
UInt8 = npt.NDArray[np.uint8]
UInt32 = npt.NDArray[np.uint32]
UInt16 = npt.NDArray[np.uint16]
Bool = npt.NDArray[np.bool_]

NO_SEAT = -1
"""The seat of a lane in which nobody decides now."""

PASS = -1
"""In place of an action: a copy whose deciding lanes all pass stays as it is, while others play on."""

WORLD_FIGURE = "world/"
"""What the names of figures begin with that are of a whole copy, not of one of its lanes."""

LegalForm = Literal["list", "mask", "bits"]
"""How legal actions are written: 16-bit numbers with offsets, a byte per action, or a bit per action."""


@dataclass(frozen=True)
class Group:
    """Lanes that see and act alike: they share one observation array and one action space."""

    lanes: Int32  # [G] the lanes of the group, ascending
    shape: tuple[int, ...]  # of one observation
    dtype: np.dtype[np.generic]
    actions: int  # how many actions there are
    legal: LegalForm
    most_legal: int  # no state has more legal actions than this
    figures: tuple[str, ...] = ()  # what is told of each ended game, see `Telling`


@dataclass(frozen=True)
class Legal:
    """The legal actions of a group's lanes, in the form the group names.

    `list`: lane `g` may play `actions[offsets[g]:offsets[g + 1]]`, in no particular but a reproducible order.
    `mask`: `actions` is `[G, A]` uint8, 1 where legal. `bits`: `[G, ceil(A / 8)]` uint8, bit `a % 8` of byte `a // 8`.
    A lane in which nobody decides has no legal action.
    """

    actions: Array  # list: [capacity] uint16, of which offsets[-1] are written
    offsets: Int32  # list: [G + 1]; otherwise [0]


@dataclass(frozen=True)
class Observation:
    """What the lanes of one group see, and may do, before they decide. From the perspective of the deciding seat."""

    values: Array  # [G, *shape]
    legal: Legal
    seat: Int8  # [G] who decides; NO_SEAT where nobody does


@dataclass(frozen=True)
class Step:
    """What one action per lane led to. Everything is said from the perspective of the seat that moved.

    `discount` is a sign: +1 where the same seat decides next in this lane, -1 where its opponent does, 0 where the
    game ended. A step that cuts a game off (a limit, not a result) keeps the sign it would have had and sets `cut_off`.
    `ended` is set in both cases: the lane has started again, and its last position is in `final`.
    """

    reward: Float32  # [L]
    discount: Float32  # [L]
    ended: Bool  # [L]
    cut_off: Bool  # [L]
    reason: UInt8  # [L] index into the environment's `reasons`; 0 where the game goes on
    length: Int32  # [L] steps of the ended game in its lane (openings included); 0 where it goes on
    final: tuple[Array, ...]  # per group [G, *shape]: the last position of ended games, seen by whoever would decide
    # next; rows of games that go on are left as they were


@runtime_checkable
class Environment(Protocol):
    """Many copies of one game, stepped together; the caller gives the arrays.

    An environment may also have `longest_game`: how many steps of a lane no game exceeds.
    """

    @property
    def copies(self) -> int:
        """How many games or worlds are played side by side."""

    @property
    def lanes(self) -> int:
        """How many streams of decisions there are: lane `l` belongs to copy `l // (lanes // copies)`."""

    @property
    def seats(self) -> tuple[str, ...]:
        """The names of the seats of one copy."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """The lanes, grouped by what they see."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a game ended, by number; number 0 is 'going on'."""

    @property
    def state_bytes(self) -> int:
        """Bytes of one copy's saved state; 0 where states cannot be saved."""

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every copy anew, random streams included, and write what its lanes see."""

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what the lanes see now; changes nothing."""

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per lane (one `[G]` int array per group), then write what came of it and what is seen next.

        Actions of lanes in which nobody decides are ignored. A copy whose deciding lanes all hold `PASS` stays as it
        is, with reward 0 and discount +1; passing in some of them only is an error. Raises `ActionError` before
        anything changes.
        """

    def save_state(self, out: UInt8) -> None:
        """Write the copies' states, random streams included, to `out` `[copies, state_bytes]`."""

    def load_state(self, saved: UInt8) -> None:
        """Go back to saved states; raises `StateError`, and changes nothing, where they are not this environment's."""

    def close(self) -> None:
        """Give back threads and memory; may be called twice."""


@runtime_checkable
class Telling(Protocol):
    """An environment that tells more of ended games than their results: `figures` of its one group names what."""

    def tell(self, ended: Bool, out: Float32) -> None:
        """Write the figures of the last ended game of each lane that has just ended to `out` `[L, figures]`."""


LONGEST_GAME = 1000


def longest_game(environment: Environment) -> int:
    """No game of it takes more steps: what the environment says as `longest_game`, or `LONGEST_GAME`."""
    return int(getattr(environment, "longest_game", LONGEST_GAME))


def new_observation(environment: Environment) -> tuple[Observation, ...]:
    """Arrays for one observation of every group."""
    return tuple(_new_group_observation(group) for group in environment.groups)


def _new_group_observation(group: Group) -> Observation:
    size = len(group.lanes)
    return Observation(
        values=np.zeros((size, *group.shape), group.dtype),
        legal=new_legal(group),
        seat=np.full(size, NO_SEAT, np.int8),
    )


def new_legal(group: Group) -> Legal:
    """Arrays for the legal actions of a group, large enough for the most that can be."""
    size = len(group.lanes)
    if group.legal == "list":
        return Legal(np.zeros(size * group.most_legal, np.uint16), np.zeros(size + 1, np.int32))
    width = group.actions if group.legal == "mask" else -(-group.actions // 8)
    return Legal(np.zeros((size, width), np.uint8), np.zeros(0, np.int32))


def legal_mask(group: Group, legal: Legal) -> UInt8:
    """The same legal actions in `mask` form [G, A]; shares memory where it can."""
    if group.legal == "mask":
        return legal.actions.view(np.uint8)
    if group.legal == "bits":
        return np.unpackbits(legal.actions.view(np.uint8), axis=1, count=group.actions, bitorder="little")
    mask = np.zeros((len(group.lanes), group.actions), np.uint8)
    mask[np.repeat(np.arange(len(mask)), np.diff(legal.offsets)), legal.actions[: legal.offsets[-1]]] = 1
    return mask


def legal_list(group: Group, legal: Legal) -> Legal:
    """The same legal actions in `list` form, ascending where they were none; shares memory where it can."""
    if group.legal == "list":
        return Legal(legal.actions[: legal.offsets[-1]], legal.offsets)
    places = np.flatnonzero(legal_mask(group, legal).reshape(-1).view(np.bool_))  # much faster than nonzero of bytes
    offsets = np.searchsorted(places, np.arange(len(group.lanes) + 1) * group.actions).astype(np.int32)
    return Legal((places % group.actions).astype(np.uint16), offsets)


def pick_legal(legal: Legal, numbers: npt.NDArray[np.float64]) -> Int32:
    """The action that a number in [0, 1) picks for each lane of a legal list [G]; `PASS` where none is legal."""
    counts = np.diff(legal.offsets)
    index = legal.offsets[:-1] + (numbers * counts).astype(np.int64)
    picked = np.full(len(counts), PASS, np.int32)
    picked[counts > 0] = legal.actions[index[counts > 0]]
    return picked


def new_step(environment: Environment) -> Step:
    """Arrays for the outcome of one step."""
    lanes = environment.lanes
    return Step(
        reward=np.zeros(lanes, np.float32),
        discount=np.zeros(lanes, np.float32),
        ended=np.zeros(lanes, np.bool_),
        cut_off=np.zeros(lanes, np.bool_),
        reason=np.zeros(lanes, np.uint8),
        length=np.zeros(lanes, np.int32),
        final=tuple(np.zeros((len(g.lanes), *g.shape), g.dtype) for g in environment.groups),
    )


def new_state(environment: Environment) -> UInt8:
    """An array for the saved states of all copies."""
    return np.zeros((environment.copies, environment.state_bytes), np.uint8)
