"""The turn of a world, in functions that are made for one world: compiled, or run as the plain Python that they are.

Nothing here allocates. `register` is what each function goes through on its way: nothing for plain Python, and what
lets Numba compile it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from keisei.environment import NO_SEAT, PASS, Bool, Float32, Int8, Int32, Int64, UInt8
from keisei.gridworld.moves import BAD_REWARD, LARGEST_REWARD
from keisei.gridworld.place import FINISHED, SEQUENTIAL, Place
from keisei.gridworld.rules import (
    BAD_SENSE,
    NOTHING_ALLOWED,
    at_fault,
    check_agent,
    check_all,
    decide_all,
    decide_next,
    is_over,
    place_agents,
)
from keisei.gridworld.view import INVENTORY, POSITION, look, show_frames

if TYPE_CHECKING:
    from keisei.gridworld.world import AnyWorld

F = TypeVar("F", bound=Callable[..., object])

LAY_OUT, FURNISH, CHANGE, ACT, AFTER, ALLOWED, SENSE, ENGINE = range(8)
DOING = ("lay_out()", "furnish()", "change()", "act()", "after()", "allowed()", "sense()", "the engine")

GOING_ON, CUT_OFF, OVER, LEFT = range(4)
REASONS = ("going on", "turn limit", "world over", "finished")

PLAYS, PASSES, BEGINS = range(3)
"""What a world does in a step."""

NO_SUCH_ACTION, NOT_ALLOWED, PARTIAL_PASS = range(1, 4)
"""What is wrong with an action."""


class Places(Protocol):
    """A record array: one `Place` per world."""

    def __len__(self) -> int: ...
    def __getitem__(self, world: int) -> Place: ...


class Register(Protocol):
    """What makes a function fit to be called by compiled ones."""

    def __call__(self, function: F) -> F: ...


class Memory(NamedTuple):
    """Worlds, and the same memory as bytes: whole places are copied as bytes, which is quick to compile."""

    worlds: Places
    now: UInt8  # [worlds, state_bytes]
    last: UInt8  # [worlds, state_bytes] as the last episode ended
    blank: UInt8  # [state_bytes] before anything is in a world


Start = Callable[[Memory, int], None]
GoOn = Callable[[Place], int]


class Outcome(NamedTuple):
    """Where `play` writes, each `[worlds, agents]`: the arrays of a `Step`."""

    reward: Float32
    discount: Float32
    ended: Bool
    cut_off: Bool
    reason: UInt8
    length: Int32


def make_start(world: AnyWorld, register: Register) -> Start:
    """The function that begins an episode."""
    lay_out, furnish, change = world.lay_out, world.furnish, world.change

    @register
    def start(memory: Memory, number: int) -> None:
        place = memory.worlds[number]
        seed, stream, drawn = place.seed, place.world, place.drawn
        a, b, c, d = place.words[0], place.words[1], place.words[2], place.words[3]
        for i in range(memory.blank.shape[0]):
            memory.now[number, i] = memory.blank[i]
        place.seed, place.world, place.drawn = seed, stream, drawn
        place.words[0], place.words[1], place.words[2], place.words[3] = a, b, c, d
        place.doer = -1
        place.doing = LAY_OUT
        lay_out(place)
        if not at_fault(place):
            place.doing = ENGINE
            place_agents(place)
        if not at_fault(place):
            place.doing = FURNISH
            furnish(place)
        if not at_fault(place):
            place.doing = CHANGE
            change(place)
            check_all(place)
        for agent in range(place.row.shape[0]):
            place.paid[agent] = 0.0
        if place.turns == SEQUENTIAL:
            decide_next(place)
        else:
            decide_all(place)
        for agent in range(place.row.shape[0]):
            if place.deciding[agent]:
                look(place, agent)

    return start


def make_go_on(world: AnyWorld, register: Register) -> GoOn:
    """The function that goes on until somebody decides, and gives `GOING_ON`, or why the episode is over."""
    change, after = world.change, world.after

    @register
    def go_on(place: Place) -> int:
        while not at_fault(place):
            if is_over(place):
                place.turn += 1
                return OVER
            if place.turns == SEQUENTIAL and decide_next(place):
                return GOING_ON
            place.doing, place.doer = AFTER, -1
            after(place)
            check_all(place)
            if at_fault(place):
                return OVER
            place.turn += 1
            if is_over(place):
                return OVER
            place.doing, place.doer = CHANGE, -1
            change(place)
            check_all(place)
            if is_over(place):
                return OVER
            if place.turn >= place.max_turns:
                return CUT_OFF
            if place.turns != SEQUENTIAL and decide_all(place):
                return GOING_ON
        return OVER

    return go_on


def collect(place: Place, number: int, outcome: int, turn: int, out: Outcome) -> None:
    """Write what one step of a world led to, and count what was paid."""
    for agent in range(place.row.shape[0]):
        paid = place.paid[agent]
        if not abs(paid) <= LARGEST_REWARD:
            place.fault, place.doer = BAD_REWARD, agent
        place.paid[agent] = 0.0
        place.returns[agent] += paid
        if paid > 0:
            place.gains[agent] += 1
            place.gain_turns[agent] += turn
        reason = LEFT if outcome != GOING_ON and place.status[agent] == FINISHED else outcome
        out.reward[number, agent] = paid
        out.discount[number, agent] = reason in (GOING_ON, CUT_OFF)
        out.ended[number, agent] = outcome != GOING_ON
        out.cut_off[number, agent] = reason == CUT_OFF
        out.reason[number, agent] = reason
        out.length[number, agent] = 0 if outcome == GOING_ON else place.turn


def pass_over(place: Place, number: int, out: Outcome) -> None:
    """Write that nothing happened in a world."""
    for agent in range(place.row.shape[0]):
        out.reward[number, agent] = 0
        out.discount[number, agent] = 1
        out.ended[number, agent] = False
        out.cut_off[number, agent] = False
        out.reason[number, agent] = GOING_ON
        out.length[number, agent] = 0


def make_act_all(world: AnyWorld, register: Register) -> Callable[[Place, int, Int64], None]:
    """The function that lets all deciding agents act, in seat order."""
    act = world.act

    @register
    def act_all(place: Place, number: int, actions: Int64) -> None:
        for agent in range(place.row.shape[0]):
            if place.deciding[agent] and place.status[agent] == 0 and not place.over:
                place.doing, place.doer = ACT, agent
                act(place, agent, actions[number, agent])
                if not at_fault(place):
                    check_agent(place, agent)
                if at_fault(place):
                    return
        for agent in range(place.row.shape[0]):
            place.deciding[agent] = 0
            if not at_fault(place):
                check_agent(place, agent)
                if at_fault(place):
                    place.doer = agent

    return act_all


def make_play_one(world: AnyWorld, register: Register, start: Start) -> Callable[..., None]:
    """The function that plays one action per deciding agent in one world."""
    act_all, go_on = make_act_all(world, register), make_go_on(world, register)

    @register
    def play_one(memory: Memory, number: int, actions: Int64, out: Outcome) -> None:
        place = memory.worlds[number]
        turn = place.turn + 1
        act_all(place, number, actions)
        outcome = go_on(place)
        if not at_fault(place):
            collect(place, number, outcome, turn, out)
        if at_fault(place):
            return
        for agent in range(place.row.shape[0]):
            if place.deciding[agent] or outcome != GOING_ON:
                look(place, agent)
        if outcome != GOING_ON:
            for i in range(memory.blank.shape[0]):
                memory.last[number, i] = memory.now[number, i]
            start(memory, number)

    return play_one


def make_play(world: AnyWorld, register: Register) -> Callable[..., int]:
    """The function that lets each world of a range play, pass or begin; gives the one at fault, or -1.

    All three are one function, since a compiler takes a while to begin.
    """
    start = make_start(world, register)
    play_one = make_play_one(world, register, start)

    @register
    def play(memory: Memory, actions: Int64, what: UInt8, out: Outcome, first: int, end: int, at: Int64) -> int:
        for number in range(first, end):
            at[0] = number
            if what[number] == PASSES:
                pass_over(memory.worlds[number], number, out)
            elif what[number] == BEGINS:
                start(memory, number)
            else:
                play_one(memory, number, actions, out)
            if at_fault(memory.worlds[number]):
                return number
        return -1

    return play


def make_check(world: AnyWorld, register: Register) -> Callable[[Places, Int64, UInt8, Int64], int]:
    """The function that finds which worlds pass, and gives the first lane whose action is wrong, or -1."""
    allowed, count = world.allowed, len(world.actions)

    @register
    def check(worlds: Places, actions: Int64, what: UInt8, problem: Int64) -> int:
        for number in range(len(worlds)):
            place = worlds[number]
            agents: int = place.row.shape[0]
            deciding, passing = 0, 0
            for agent in range(agents):
                if place.deciding[agent]:
                    deciding += 1
                    action = actions[number, agent]
                    if action == PASS:
                        passing += 1
                    elif not 0 <= action < count:
                        problem[0] = NO_SUCH_ACTION
                        return number * agents + agent
                    elif not allowed(place, agent, action):
                        problem[0] = NOT_ALLOWED
                        return number * agents + agent
            what[number] = PASSES if passing > 0 else PLAYS
            if 0 < passing < deciding:
                problem[0] = PARTIAL_PASS
                return number * agents
        return -1

    return check


def make_show(world: AnyWorld, register: Register) -> Callable[[Places, Int64, UInt8, Bool, int, int, Int64], int]:
    """The function that writes packed observations of some seats, in the worlds that are wanted."""
    sense, senses = world.sense, len(world.senses)

    @register
    def show(worlds: Places, seats: Int64, out: UInt8, wanted: Bool, first: int, end: int, at: Int64) -> int:
        for number in range(first, end):
            if not wanted[number]:
                continue
            at[0] = number
            place = worlds[number]
            for i in range(len(seats)):
                agent, row = seats[i], number * len(seats) + i
                byte = show_frames(place, agent, out, row)
                if place.feels[agent] & POSITION:
                    out[row, byte] = min(255, max(0, place.row[agent]))
                    out[row, byte + 1] = min(255, max(0, place.column[agent]))
                    byte += 2
                for which in range(senses):
                    felt = sense(place, agent, which)
                    if not 0 <= felt <= 255:
                        place.doing, place.doer, place.fault = SENSE, agent, BAD_SENSE
                        return number
                    out[row, byte] = felt
                    byte += 1
                if place.feels[agent] & INVENTORY:
                    for kind in range(place.items.shape[0]):
                        if place.items[kind]:
                            out[row, byte] = min(255, place.taken[agent, kind])
                            byte += 1
        return -1

    return show


def make_permit(world: AnyWorld, register: Register) -> Callable[[Places, Int64, UInt8, Int8, int, int, Int64], int]:
    """The function that writes who decides, and what is allowed then."""
    allowed, count = world.allowed, len(world.actions)

    @register
    def permit(worlds: Places, seats: Int64, mask: UInt8, seat: Int8, first: int, end: int, at: Int64) -> int:
        for number in range(first, end):
            at[0] = number
            place = worlds[number]
            for i in range(len(seats)):
                agent, row = seats[i], number * len(seats) + i
                decides = place.deciding[agent] != 0
                seat[row] = agent if decides else NO_SEAT
                possible = 0
                for action in range(count):
                    legal = decides and allowed(place, agent, action)
                    mask[row, action] = legal
                    possible += legal
                if decides and possible == 0:
                    place.doing, place.doer, place.fault = ALLOWED, agent, NOTHING_ALLOWED
                    return number
        return -1

    return permit
