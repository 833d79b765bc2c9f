"""Many copies of one world behind the `Environment` contract. What a turn does is in `kernel.py`.

Lane `l` is agent `l % agents` of copy `l // agents`. Where turns are sequential, what an agent is paid in the turns of
others is reported in the step in which it is paid, in a row in which the agent does not decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import xxhash

from keisei.environment import Array, Bool, Float32, Group, Int64, Observation, Step, UInt8
from keisei.errors import ActionError, ConfigError, StateError
from keisei.gridworld import kernel
from keisei.gridworld.figures import Figures
from keisei.gridworld.many import Worlds
from keisei.gridworld.running import Structured, blank_place
from keisei.gridworld.view import Encoding, View, encoding, views_of
from keisei.gridworld.world import WorldFile, load_world, numbers_of

ObservationForm = Literal["packed", "uint8", "float32"]
Turns = Literal["simultaneous", "sequential"]


@dataclass(frozen=True)
class _Crowd:
    """The seats that share a view, and so are a group."""

    seats: Int64
    encoding: Encoding
    packed: UInt8  # [G, packed_bytes] where their observations are cut before they are written out as planes


class GridworldEnvironment:
    """Each (world, agent) is a lane. Ended episodes start again by themselves."""

    reasons = kernel.REASONS

    def __init__(
        self,
        world: str | WorldFile,
        *,
        copies: int = 1,
        seed: int = 0,
        threads: int = 1,
        observation: ObservationForm = "uint8",
        turns: Turns = "simultaneous",
        view: View | None = None,
        views: Sequence[tuple[Sequence[int], View]] = (),
        numbers: Mapping[str, float] | None = None,
        debug: bool = False,
        first_lane: int = 0,
    ) -> None:
        """`view` is what all agents see, `views` what some seats see instead; `numbers` are the world's own keys.

        World `i` is world `first_lane // agents + i` of the run, and goes the same way wherever it is played.
        """
        self.file = load_world(world) if isinstance(world, str) else world
        self.numbers = numbers_of(self.file, numbers or {})
        for name, value, least, most in (
            ("copies", copies, 1, 2**24),
            ("threads", threads, 1, 1024),
            ("seed", seed, 0, 2**64 - 1),
            ("first_lane", first_lane, 0, 2**63),
        ):
            if not least <= value <= most:
                raise ConfigError(f"{name}: expected {least} to {most}, found {value}")
        agents = int(self.numbers["agents"])
        self.copies, self.lanes, self.seats = copies, copies * agents, tuple(f"agent {i}" for i in range(agents))
        views_by_seat = views_of(view or self.file.world.view, views, agents)
        self._crowds = _crowds(self.file, self.numbers, views_by_seat, copies)
        blank = blank_place(self.file.world, self.numbers, views_by_seat, turns == "sequential")
        self.longest_game = int(self.numbers["max_turns"]) * (agents if turns == "sequential" else 1)
        self.state_bytes = blank.dtype.itemsize
        self.worlds = Worlds(self.file, blank, copies, threads, debug=debug)
        self._is_packed = observation == "packed"
        self._mark = _mark(self.file, blank)
        self._start = seed, first_lane // agents
        self.worlds.reset(*self._start)
        self._figures = Figures(self.file, self.worlds.now)
        groups = (_group(crowd, copies, agents, observation, self.file) for crowd in self._crowds)
        self.groups = tuple(replace(group, figures=self._figures.names) for group in groups)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """How the observations of each group are laid out."""
        return tuple(crowd.encoding for crowd in self._crowds)

    def reset(self, observation: Sequence[Observation]) -> None:
        """Start every world anew, random streams included, and write what is seen."""
        self.worlds.reset(*self._start)
        self.observe(observation)

    def observe(self, observation: Sequence[Observation]) -> None:
        """Write what the agents see; where one does not decide, what it saw when it last did."""
        everywhere = np.ones(self.copies, np.bool_)
        for crowd, seen in zip(self._crowds, observation, strict=True):
            self._show(crowd, seen.values, everywhere, last=False)
            self.worlds.permit(crowd.seats, seen.legal.actions.view(np.uint8), seen.seat)

    def step(self, actions: Sequence[Array], step: Step, observation: Sequence[Observation]) -> None:
        """Play one action per deciding agent (`PASS` by all of a world: none); raises before anything changes."""
        chosen = self._chosen(actions)
        what = np.zeros(self.copies, np.uint8)
        lane, problem = self.worlds.check(chosen, what)
        if lane >= 0:
            raise ActionError(self._wrong_action(lane, problem, int(chosen.reshape(-1)[lane])))
        fields = (step.reward, step.discount, step.ended, step.cut_off, step.reason, step.length)
        shape = chosen.shape
        out = kernel.Outcome(*(field.reshape(shape) for field in fields))  # type: ignore[arg-type]
        self.worlds.play(chosen, what, out)
        ended: Bool = out.ended[:, 0].copy()
        if ended.any():
            for crowd, final in zip(self._crowds, step.final, strict=True):
                self._show(crowd, final, ended, last=True)
        self.observe(observation)

    def tell(self, ended: Bool, out: Float32) -> None:
        """Write the figures of the episodes that have just ended, `[L, figures]`."""
        shape = self.copies, len(self.seats)
        self._figures.write(self.worlds.last, ended.reshape(shape)[:, 0], out.reshape(*shape, -1))

    def save_state(self, out: UInt8) -> None:
        """Write the worlds' states, random streams included, to `out` `[copies, state_bytes]`."""
        out[:] = self.worlds.now.view(np.uint8).reshape(self.copies, self.state_bytes)
        out[:, :8] = np.array([self._checksum(row) for row in out], "<u8")[:, None].view(np.uint8)

    def load_state(self, saved: UInt8) -> None:
        """Go back to saved states; raises `StateError`, and changes nothing, where one is not of these worlds."""
        if saved.dtype != np.uint8 or saved.shape != (self.copies, self.state_bytes):
            raise StateError(
                f"expected saved states as uint8 [{self.copies}, {self.state_bytes}], "
                f"found {saved.dtype} {list(saved.shape)}"
            )
        for number, row in enumerate(saved):
            if self._checksum(row) != int.from_bytes(row[:8].tobytes(), "little"):
                raise StateError(f"the saved state of world {number} is damaged, or was saved under other rules")
        self.worlds.now.view(np.uint8).reshape(self.copies, self.state_bytes)[:] = saved
        self.worlds.now["check"] = 0

    def close(self) -> None:
        """Give back the threads."""
        self.worlds.close()

    def _show(self, crowd: _Crowd, values: Array, wanted: Bool, *, last: bool) -> None:
        """Write what a crowd sees, in the form that its group has."""
        if self._is_packed:
            self.worlds.show(crowd.seats, values.view(np.uint8), wanted, last=last)
            return
        self.worlds.show(crowd.seats, crowd.packed, wanted, last=last)
        if wanted.all():
            crowd.encoding.write_planes(crowd.packed, values)
            return
        rows = np.flatnonzero(np.repeat(wanted, len(crowd.seats)))
        planes = np.empty((len(rows), *crowd.encoding.shape), values.dtype)
        crowd.encoding.write_planes(crowd.packed[rows], planes)
        values[rows] = planes

    def _chosen(self, actions: Sequence[Array]) -> Int64:
        """The actions of all lanes `[copies, agents]`."""
        if len(actions) != len(self.groups):
            raise ActionError(f"expected {len(self.groups)} arrays of actions, found {len(actions)}")
        chosen = np.empty(self.lanes, np.int64)
        for group, some in zip(self.groups, actions, strict=True):
            found = np.asarray(some)
            if found.shape != group.lanes.shape or found.dtype.kind not in "iu" or found.dtype == np.uint64:
                raise ActionError(
                    f"expected integers {list(group.lanes.shape)}, found {found.dtype} {list(found.shape)}"
                )
            chosen[group.lanes] = found
        return chosen.reshape(self.copies, -1)

    def _wrong_action(self, lane: int, problem: int, action: int) -> str:
        copy, agent = divmod(lane, len(self.seats))
        turn = int(self.worlds.now["turn"][copy])
        if problem == kernel.PARTIAL_PASS:
            return f"in copy {copy} some agents pass and others do not, in turn {turn}"
        why = "is not in" if problem == kernel.NO_SUCH_ACTION else "is not allowed now, of"
        most = len(self.file.world.actions) - 1
        return f"action {action} of lane {lane} (agent {agent} of copy {copy}) {why} 0..{most}, in turn {turn}"

    def _checksum(self, row: UInt8) -> int:
        return xxhash.xxh3_64_intdigest(row[8:].tobytes(), self._mark)


def _crowds(file: WorldFile, numbers: Mapping[str, float], views: Sequence[View], copies: int) -> tuple[_Crowd, ...]:
    """The seats by view, in the order of their first seats."""
    crowds = []
    for view in dict.fromkeys(views):
        seats = np.array([seat for seat, other in enumerate(views) if other == view], np.int64)
        how = encoding(view, file.world, int(numbers["height"]), int(numbers["width"]))
        crowds.append(_Crowd(seats, how, np.zeros((copies * len(seats), how.packed_bytes), np.uint8)))
    return tuple(crowds)


def _group(crowd: _Crowd, copies: int, agents: int, observation: ObservationForm, file: WorldFile) -> Group:
    lanes = (np.arange(copies)[:, None] * agents + crowd.seats).reshape(-1).astype(np.int32)
    dtype = np.dtype(np.float32 if observation == "float32" else np.uint8)
    shape = (crowd.encoding.packed_bytes,) if observation == "packed" else crowd.encoding.shape
    actions = len(file.world.actions)
    return Group(lanes, shape, dtype, actions, "mask", actions)


def _mark(file: WorldFile, blank: Structured) -> int:
    """What states of these rules are signed with."""
    rules = file.digest.encode() + repr(blank.dtype).encode() + blank.tobytes()
    return int.from_bytes(hashlib.sha256(rules).digest()[:8], "little")
