"""The contract test that anyone can run over an environment: `check_environment`.

It plays random legal actions and looks at every array that crosses the border. It knows no rules: whether the game is
played rightly is for the environment's own tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar, cast

import numpy as np

from keisei.environment import (
    NO_SEAT,
    PASS,
    Array,
    Bool,
    Environment,
    Group,
    Int8,
    Int32,
    Int64,
    Legal,
    Observation,
    UInt8,
    legal_list,
    new_observation,
    new_state,
    new_step,
    pick_legal,
)
from keisei.errors import ActionError, ContractError, StateError

_Part = TypeVar("_Part")
_Record = dict[str, dict[int, int]]
"""What was written, in brief: by field and lane, a hash."""

_FENCE, _FENCE_BYTE = 64, 0xC3
_RUBBISH = 0xFF
"""What a step's outcome is filled with before it is written: no number, no truth value, no reason."""


def check_environment(environment: Environment, *, steps: int = 200, seed: int = 0) -> None:
    """Check that an environment keeps the contract over `steps` steps of random play, then close it.

    Raises `ContractError` with one line that names the field, what is wrong with it, and where.
    """
    missing = [name for name in vars(Environment) if not name.startswith("_") and not hasattr(environment, name)]
    _require(not missing, "environment", f"{type(environment).__name__} has no {', '.join(missing)}")
    _check_description(environment)
    arrays, others = _Arrays(environment, 0xA5), _Arrays(environment, 0x5A)
    arrays.spoil()
    environment.reset(arrays.observation)
    _check_observation(environment, arrays, others, "after reset()")
    record = _play(environment, arrays, others, steps, seed)
    _check_passes(environment, arrays, others, seed)
    _check_refusals(environment, arrays, others)
    others.spoil()
    environment.reset(others.observation)
    _compare_runs(record, _play(environment, others, arrays, steps, seed), "from the first run after a second reset()")
    if environment.state_bytes:
        _check_states(environment, arrays, others, steps, seed + 1)
    environment.close()
    environment.close()


class _Arrays:
    """The caller's arrays, filled with rubbish and each between two fences: cells left out or written outside show.

    Two of them have different fillings, so that what the environment did not write differs between two runs.
    """

    def __init__(self, environment: Environment, filling: int) -> None:
        self.filling = filling
        self._blocks: dict[str, UInt8] = {}
        self.observation = self._fenced("observation", new_observation(environment))
        self.step = self._fenced("step", new_step(environment))

    def _fenced(self, name: str, plain: _Part) -> _Part:
        """The same arrays, dataclasses and tuples, with fences around each array."""
        if isinstance(plain, np.ndarray):
            block = np.full(plain.nbytes + 2 * _FENCE, _FENCE_BYTE, np.uint8)
            self._blocks[name] = block
            return cast(_Part, block[_FENCE:-_FENCE].view(plain.dtype).reshape(plain.shape))
        if isinstance(plain, tuple):
            return cast(_Part, tuple(self._fenced(f"{name}[{i}]", part) for i, part in enumerate(plain)))
        assert is_dataclass(plain)
        assert not isinstance(plain, type)
        parts = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return replace(plain, **{key: self._fenced(f"{name}.{key}", part) for key, part in parts.items()})

    def spoil(self) -> None:
        """Fill everything with what no environment would write."""
        for name, block in self._blocks.items():
            observed = name.startswith(("observation", "step.final"))
            block[_FENCE:-_FENCE] = self.filling if observed else _RUBBISH

    def check_fences(self, where: str) -> None:
        for name, block in self._blocks.items():
            if (block[:_FENCE] != _FENCE_BYTE).any() or (block[-_FENCE:] != _FENCE_BYTE).any():
                raise ContractError(f"{name}: memory beside the array was written, {where}")

    def contents(self) -> bytes:
        return b"".join(block.tobytes() for block in self._blocks.values())


def _require(condition: bool, field: str, problem: str) -> None:
    if not condition:
        raise ContractError(f"{field}: {problem}")


def _require_all(good: Bool, field: str, problem: str, where: str, lanes: Int32 | None = None) -> None:
    """`good` has one entry per lane, or one per row of a group with these lanes."""
    if not good.all():
        row = int(np.argmin(good))
        raise ContractError(f"{field}: {problem} in lane {row if lanes is None else lanes[row]}, {where}")


def _check_description(environment: Environment) -> None:
    copies, lanes = environment.copies, environment.lanes
    _require(copies >= 1, "copies", f"{copies} is less than 1")
    _require(lanes >= 1 and lanes % copies == 0, "lanes", f"{lanes} is no multiple of {copies} copies")
    for name, texts in (("seats", environment.seats), ("reasons", environment.reasons)):
        _require(1 <= len(texts) <= 128 and len(set(texts)) == len(texts), name, f"{texts!r} are not 1..128 names")
    _require(environment.state_bytes >= 0, "state_bytes", f"{environment.state_bytes} is negative")
    for index, group in enumerate(environment.groups):
        _check_group(group, f"groups[{index}]")
    together = np.concatenate([np.zeros(0, np.int32), *(group.lanes for group in environment.groups)])
    _require(np.array_equal(np.sort(together), np.arange(lanes)), "groups", f"do not cover {lanes} lanes once each")


def _check_group(group: Group, name: str) -> None:
    lanes = group.lanes
    is_row = lanes.dtype == np.int32 and lanes.ndim == 1 and lanes.flags.c_contiguous and len(lanes) > 0
    _require(is_row, f"{name}.lanes", "is no contiguous int32 array [G]")
    _require(bool((np.diff(lanes) > 0).all()), f"{name}.lanes", "do not ascend")
    _require(all(size >= 1 for size in group.shape), f"{name}.shape", f"{group.shape} has a size below 1")
    plain = group.dtype.isnative and group.dtype.kind in "biuf"
    _require(plain, f"{name}.dtype", f"{group.dtype!r} is no native dtype of numbers")
    _require(group.legal in ("list", "mask", "bits"), f"{name}.legal", f"{group.legal!r} is no form of legal actions")
    most = 1 << 16 if group.legal == "list" else np.iinfo(np.int32).max
    _require(1 <= group.actions <= most, f"{name}.actions", f"{group.actions} is not in 1..{most}")
    fits = 1 <= group.most_legal <= group.actions
    _require(fits, f"{name}.most_legal", f"{group.most_legal} is not in 1..{group.actions}")


def _check_observation(environment: Environment, arrays: _Arrays, others: _Arrays, where: str) -> None:
    """What `arrays` hold is a possible observation, and the same that `observe` writes."""
    arrays.check_fences(where)
    for index, (group, seen) in enumerate(zip(environment.groups, arrays.observation, strict=True)):
        name = f"observation[{index}]"
        _require_all(_finite(seen.values), f"{name}.values", "not finite", where, group.lanes)
        known = (seen.seat >= NO_SEAT) & (seen.seat < len(environment.seats))
        _require_all(known, f"{name}.seat", "no seat, and not NO_SEAT", where, group.lanes)
        _check_legal_form(group, seen.legal, f"{name}.legal", arrays.filling, where)
        _check_legal(group, seen, f"{name}.legal", where)
    before = _saved(environment)
    others.spoil()
    environment.observe(others.observation)
    others.check_fences(where)
    _compare(_observed(environment, arrays), _observed(environment, others), f"from what observe() writes, {where}")
    _require(np.array_equal(before, _saved(environment)), "observe", f"changes the state, {where}")


def _check_legal_form(group: Group, legal: Legal, name: str, filling: int, where: str) -> None:
    if group.legal == "list":
        offsets = legal.offsets
        rises = offsets[0] == 0 and bool((np.diff(offsets) >= 0).all()) and offsets[-1] <= len(legal.actions)
        _require(rises, f"{name}.offsets", f"do not rise from 0 to at most {len(legal.actions)}, {where}")
        beyond = legal.actions[offsets[-1] :].view(np.uint8)
        _require(bool((beyond == filling).all()), f"{name}.actions", f"written beyond the last offset, {where}")
    elif group.legal == "mask":
        known = np.all(legal.actions.view(np.uint8) <= 1, axis=1)
        _require_all(known, f"{name}.actions", "neither 0 nor 1", where, group.lanes)
    else:
        spare = np.unpackbits(legal.actions.view(np.uint8), axis=1, bitorder="little")[:, group.actions :]
        _require_all((spare == 0).all(axis=1), f"{name}.actions", "bits set beyond the actions", where, group.lanes)


def _check_legal(group: Group, seen: Observation, name: str, where: str) -> None:
    legal = legal_list(group, seen.legal)
    counts = np.diff(legal.offsets)
    _require_all(counts <= group.most_legal, name, f"more than most_legal ({group.most_legal})", where, group.lanes)
    _require_all((seen.seat == NO_SEAT) | (counts > 0), name, "no legal action", where, group.lanes)
    _require_all((seen.seat != NO_SEAT) | (counts == 0), name, "legal actions where nobody decides", where, group.lanes)
    for lane, (start, end) in zip(group.lanes, pairwise(legal.offsets), strict=True):
        actions = legal.actions[start:end].tolist()
        _require(max(actions, default=0) < group.actions, name, f"action out of range in lane {lane}, {where}")
        _require(len(set(actions)) == len(actions), name, f"an action twice in lane {lane}, {where}")


def _play(environment: Environment, arrays: _Arrays, others: _Arrays, steps: int, seed: int) -> list[_Record]:
    """Play random actions from what `arrays` hold, check each step, and give what was written, in brief."""
    generator = np.random.default_rng(seed)
    decisions = np.zeros(environment.lanes, np.int64)
    record = []
    for number in range(steps):
        where = f"step {number}"
        actions = _random_actions(environment, arrays, generator)
        seats = _seats(environment, arrays)
        decisions += seats != NO_SEAT
        arrays.spoil()
        environment.step(actions, arrays.step, arrays.observation)
        _check_outcome(environment, arrays, seats, where)
        step = arrays.step
        _require_all(~step.ended | (step.length >= decisions), "length", "less than the decisions made", where)
        decisions[step.ended] = 0
        _check_observation(environment, arrays, others, where)
        record.append(_written(environment, arrays))
    return record


def _check_outcome(environment: Environment, arrays: _Arrays, seats: Int8, where: str) -> None:
    step = arrays.step
    _require_all(np.isfinite(step.reward), "reward", "not finite", where)
    _require_all(np.isin(step.discount, (-1, 0, 1)), "discount", "not -1, 0 or 1", where)
    _require_all(step.ended.view(np.uint8) <= 1, "ended", "neither true nor false", where)
    _require_all(step.cut_off.view(np.uint8) <= 1, "cut_off", "neither true nor false", where)
    ended, cut_off = step.ended, step.cut_off
    _require_all(ended | ~cut_off, "cut_off", "set, but ended is not", where)
    _require_all((step.discount == 0) == (ended & ~cut_off), "discount", "0 must mean ended and not cut off", where)
    _require_all(step.reason < len(environment.reasons), "reason", "not one of `reasons`", where)
    _require_all((step.reason > 0) == ended, "reason", "must be 0 where the game goes on, and only there", where)
    counted = np.where(ended, step.length > 0, step.length == 0)
    _require_all(counted, "length", "must be 0 where the game goes on, and above 0 where it ended", where)
    after = _seats(environment, arrays)
    plain = ~ended & (seats != NO_SEAT) & (after != NO_SEAT)
    _require_all(~plain | ((step.discount == 1) == (seats == after)), "discount", "does not tell who is next", where)
    for index, (group, final) in enumerate(zip(environment.groups, step.final, strict=True)):
        untouched = (final.reshape(len(final), -1).view(np.uint8) == arrays.filling).all(axis=1)
        over = ended[group.lanes]
        _require_all(untouched | over, f"final[{index}]", "written, but not ended", where, group.lanes)
        _require_all(_finite(final) | ~over, f"final[{index}]", "not finite", where, group.lanes)


def _check_passes(environment: Environment, arrays: _Arrays, others: _Arrays, seed: int) -> None:
    """Every second copy passes and stays as it is; then the others; then all."""
    generator = np.random.default_rng(seed)
    copy_of = np.arange(environment.lanes) // (environment.lanes // environment.copies)
    where = "in a copy that passes"
    for passes in (copy_of % 2 == 0, copy_of % 2 == 1, copy_of >= 0):
        actions = _random_actions(environment, arrays, generator)
        for group, chosen in zip(environment.groups, actions, strict=True):
            chosen[passes[group.lanes]] = PASS
        before, states = _observed(environment, arrays), _saved(environment)
        arrays.spoil()
        environment.step(actions, arrays.step, arrays.observation)
        step = arrays.step
        still = (step.reward == 0) & (step.discount == 1) & ~step.ended & ~step.cut_off & (step.length == 0)
        _require_all(still | ~passes, "step", "reward, discount or ended are not those of PASS", where)
        _compare(before, _observed(environment, arrays), f"from before, {where}", np.flatnonzero(passes))
        stays = (_saved(environment) == states).all(axis=1)
        _require_all(stays[copy_of] | ~passes, "save_state", "another state", where)
        _check_observation(environment, arrays, others, "after a pass")


def _check_refusals(environment: Environment, arrays: _Arrays, others: _Arrays) -> None:
    """Wrong actions raise `ActionError` and change nothing."""
    for what, actions in list(_wrong_actions(environment, arrays)):
        arrays.spoil()
        contents, before = arrays.contents(), _saved(environment)
        _expect(ActionError, "actions", what, partial(environment.step, actions, arrays.step, arrays.observation))
        _require(arrays.contents() == contents, "actions", f"{what}: refused, but arrays are written")
        _require(np.array_equal(before, _saved(environment)), "actions", f"{what}: refused, but the state changes")
    environment.observe(arrays.observation)
    _check_observation(environment, arrays, others, "after refused actions")


def _wrong_actions(environment: Environment, arrays: _Arrays) -> Iterator[tuple[str, Sequence[Array]]]:
    good = _random_actions(environment, arrays, np.random.default_rng(0))
    yield "no arrays", []
    for index, (group, seen) in enumerate(zip(environment.groups, arrays.observation, strict=True)):
        for what, chosen in _wrong_choices(group, seen, good[index]):
            yield what, [*good[:index], chosen, *good[index + 1 :]]


def _wrong_choices(group: Group, seen: Observation, good: Int32) -> Iterator[tuple[str, Array]]:
    yield "floats", good.astype(np.float64)
    yield "one action too many", np.append(good, good[-1:])
    yield "two dimensions", good[:, None]
    legal = legal_list(group, seen.legal)
    for row in np.flatnonzero(seen.seat != NO_SEAT)[-1:]:  # the last one: those before it must not have been played
        allowed = legal.actions[legal.offsets[row] : legal.offsets[row + 1]]
        illegal = np.setdiff1d(np.arange(group.actions), allowed)[:1].tolist()
        for action in (group.actions, PASS - 1, 1 << 30, *illegal):
            chosen = good.copy()
            chosen[row] = action
            yield f"action {action} in lane {group.lanes[row]}", chosen


def _expect(kind: type[Exception], field: str, what: str, call: Callable[[], None]) -> None:
    try:
        call()
    except kind:
        return
    except Exception as error:
        raise ContractError(f"{field}: {what}: raises {type(error).__name__}, not {kind.__name__}") from error
    raise ContractError(f"{field}: {what}: accepted without {kind.__name__}")


def _check_states(environment: Environment, arrays: _Arrays, others: _Arrays, steps: int, seed: int) -> None:
    """States come back byte for byte, and what follows them too; damaged ones are refused and change nothing."""
    saved, again = _saved(environment, 0xA5), _saved(environment, 0x5A)
    _require(np.array_equal(saved, again), "save_state", "not every byte is written, or saving changes the state")
    arrays.spoil()
    environment.observe(arrays.observation)
    record = _play(environment, arrays, others, steps, seed)
    _check_damaged_states(environment, saved)
    environment.load_state(saved)
    _require(np.array_equal(saved, _saved(environment)), "load_state", "saving again gives other bytes")
    others.spoil()
    environment.observe(others.observation)
    _compare_runs(record, _play(environment, others, arrays, steps, seed), "from the first run after load_state()")


def _check_damaged_states(environment: Environment, saved: UInt8) -> None:
    before = _saved(environment)
    for what, state in _damaged_states(saved):
        _expect(StateError, "load_state", what, partial(environment.load_state, cast(UInt8, state)))
        _require(np.array_equal(before, _saved(environment)), "load_state", f"{what}: refused, but the state changes")


def _damaged_states(saved: UInt8) -> Iterator[tuple[str, Array]]:
    yield "a byte too many", np.pad(saved, ((0, 0), (0, 1)))
    yield "a copy too many", np.concatenate([saved, saved[:1]])
    yield "another dtype", saved.astype(np.uint16)
    yield "all zeros", np.zeros_like(saved)
    generator = np.random.default_rng(0)
    for _ in range(16):
        row, byte = generator.integers(saved.shape).tolist()
        damaged = saved.copy()
        damaged[row, byte] ^= 1 << int(generator.integers(8))
        yield f"byte {byte} of copy {row} is damaged", damaged


def _saved(environment: Environment, filling: int = 0) -> UInt8:
    """The copies' states [copies, state_bytes], where there are any."""
    out = new_state(environment)
    if environment.state_bytes:
        out[:] = filling
        environment.save_state(out)
    return out


def _random_actions(environment: Environment, arrays: _Arrays, generator: np.random.Generator) -> list[Int32]:
    """A legal action for every lane that decides."""
    pairs = zip(environment.groups, arrays.observation, strict=True)
    return [pick_legal(legal_list(group, seen.legal), generator.random(len(group.lanes))) for group, seen in pairs]


def _finite(rows: Array) -> Bool:
    """Which rows hold nothing but finite numbers [G]."""
    return np.asarray(np.isfinite(rows.astype(np.float64)).reshape(len(rows), -1).all(1), np.bool_)


def _seats(environment: Environment, arrays: _Arrays) -> Int8:
    """Who decides in each lane [L]."""
    seats = np.full(environment.lanes, NO_SEAT, np.int8)
    for group, seen in zip(environment.groups, arrays.observation, strict=True):
        seats[group.lanes] = seen.seat
    return seats


def _observed(environment: Environment, arrays: _Arrays) -> _Record:
    record: _Record = {}
    for index, (group, seen) in enumerate(zip(environment.groups, arrays.observation, strict=True)):
        legal = seen.legal
        rows = {"values": list(seen.values), "seat": list(seen.seat), "legal.actions": list(legal.actions)}
        if group.legal == "list":
            rows["legal.actions"] = np.split(legal.actions, legal.offsets[1:])[: len(group.lanes)]
        for name, lines in rows.items():
            brief = {int(lane): hash(line.tobytes()) for lane, line in zip(group.lanes, lines, strict=True)}
            record[f"observation[{index}].{name}"] = brief
    return record


def _written(environment: Environment, arrays: _Arrays) -> _Record:
    step, record = arrays.step, _observed(environment, arrays)
    for name in ("reward", "discount", "ended", "cut_off", "reason", "length"):
        record[name] = {lane: hash(value.tobytes()) for lane, value in enumerate(getattr(step, name))}
    for index, (group, final) in enumerate(zip(environment.groups, step.final, strict=True)):
        ended = [(lane, row) for lane, row in zip(group.lanes, final, strict=True) if step.ended[lane]]
        record[f"final[{index}]"] = {int(lane): hash(row.tobytes()) for lane, row in ended}
    return record


def _compare(one: _Record, other: _Record, what: str, lanes: Int64 | None = None) -> None:
    for field, hashes in one.items():
        for lane, value in hashes.items():
            if (lanes is None or lane in lanes) and other[field].get(lane) != value:
                raise ContractError(f"{field}: differs {what}, in lane {lane}")


def _compare_runs(one: list[_Record], other: list[_Record], what: str) -> None:
    for number, (first, second) in enumerate(zip(one, other, strict=True)):
        _compare(first, second, f"{what}, step {number}")
