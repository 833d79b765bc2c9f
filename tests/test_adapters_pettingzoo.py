"""PettingZoo environments brought in keep the contract and pay each seat its own; what is wrong is refused."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from foreign_games import Market, Meadow, Pile
from keisei.adapters import pettingzoo_builder, pettingzoo_games
from keisei.adapters.pettingzoo_lanes import GameLanes, Lanes, SeatLanes
from keisei.adapters.pettingzoo_worlds import Api
from keisei.environment import (
    NO_SEAT,
    PASS,
    Array,
    Bool,
    Environment,
    Float32,
    Int64,
    Observation,
    Step,
    legal_list,
    new_observation,
    new_step,
    pick_legal,
)
from keisei.errors import ActionError, ConfigError, ContractError, StateError
from keisei.learning.advantage import advantages
from keisei.testing import check_environment
from lived import blank, group_of

Options = dict[str, object]
Turns = Pile | Market
COPIES, SEED, GAMMA = 3, 4, 0.9


def games(
    name: str,
    lanes: Lanes = "auto",
    options: Options | None = None,
    *,
    copies: int = COPIES,
    first_lane: int = 0,
) -> Environment:
    """Copies of one of the games in `foreign_games`, as a configuration would name them."""
    build = pettingzoo_builder(f"foreign_games:{name}", "auto", options or {})
    return pettingzoo_games(build, lanes=lanes, copies=copies, seed=SEED, first_lane=first_lane)


KINDS: list[tuple[str, Lanes, Options]] = [
    ("Pile", "auto", {}),
    ("Pile", "auto", {"deads_first": True, "mask": "info"}),
    ("Pile", "auto", {"mask": "method"}),
    ("Pile", "seat", {}),
    ("Pile", "seat", {"mask": "info", "deads_first": True}),
    ("Pile", "seat", {"mask": "method"}),
    ("Market", "auto", {}),
    ("Market", "auto", {"deads_first": False}),
    ("Meadow", "auto", {}),
    ("Meadow", "auto", {"mask": "dictionary"}),
    ("Meadow", "auto", {"mask": "info"}),
    ("Meadow", "auto", {"mask": "method"}),
]


@pytest.mark.parametrize(("name", "lanes", "options"), KINDS)
def test_environment_keeps_the_contract(name: str, lanes: Lanes, options: Options) -> None:
    check_environment(games(name, lanes, options), steps=80)


@pytest.mark.parametrize(
    ("name", "api", "lanes", "kind"),
    [
        ("classic/connect_four_v3", "auto", "auto", GameLanes),
        ("pettingzoo.classic.connect_four_v3", "aec", "seat", SeatLanes),
        ("classic/tictactoe_v3", "aec", "auto", GameLanes),
        ("classic/rps_v2", "auto", "auto", SeatLanes),
        ("pettingzoo.classic.rps_v2", "auto", "auto", SeatLanes),
        ("classic/rps_v2", "aec", "auto", GameLanes),
    ],
)
def test_pettingzoos_own_games_keep_the_contract(name: str, api: Api, lanes: Lanes, kind: type) -> None:
    pytest.importorskip("pygame")
    build = pickle.loads(pickle.dumps(pettingzoo_builder(name, api, {})))
    made = pettingzoo_games(build, lanes=lanes, copies=2)
    assert isinstance(made, kind)
    check_environment(made, steps=40)


# --- what each seat is paid, against PettingZoo's own loop


@dataclass
class Lived:
    """What came of playing at random: `[T, L]`, and the actions by copy."""

    environment: Environment
    seats: list[list[int]] = field(default_factory=list)
    actions: list[list[int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def returns(self, gamma: float) -> tuple[Float32, Int64, Bool]:
        """What follows each decision, as a learner computes it that expects nothing `[T, L]`; whose it is; the ends."""
        lanes = self.environment.lanes
        rollout = blank(group_of((1,), 1, "mask", lanes), 1, len(self.steps))
        for t, step in enumerate(self.steps):
            for name in ("reward", "discount", "ended", "cut_off"):
                getattr(rollout, name)[0, t] = getattr(step, name)
        rollout.acted[0] = np.array(self.seats) != NO_SEAT
        return (
            advantages(rollout, gamma, 1.0, np.ones_like(rollout.reward))[0],
            np.array(self.seats, np.int64),
            rollout.ended[0],
        )


def lived(environment: Environment, steps: int = 150) -> Lived:
    """Random legal play."""
    (group,) = environment.groups
    generator = np.random.default_rng(1)
    (seen,) = new_observation(environment)
    found = Lived(environment)
    environment.reset([seen])
    for _ in range(steps):
        actions = pick_legal(legal_list(group, seen.legal), generator.random(environment.lanes))
        found.seats.append(seen.seat.tolist())
        found.actions.append(actions.tolist())
        step = new_step(environment)
        environment.step([actions], step, [seen])
        found.steps.append(step)
    environment.close()
    return found


def copy_seed(lane: int) -> int:
    return int(np.random.SeedSequence([SEED, lane]).generate_state(1)[0]) >> 1


Payments = list[dict[str, float]]
"""By step, what each agent got that lived before it."""


def episodes_of_turns(made: Turns, seed: int, actions: list[tuple[str, int]]) -> list[tuple[list[str], Payments]]:
    """The same actions in PettingZoo's own loop: who acted, and who was paid what."""
    found: list[tuple[list[str], Payments]] = []
    waiting = iter(actions)
    for number in itertools.count():
        made.reset(seed=seed if number == 0 else None)
        acted: list[str] = []
        paid: Payments = []
        told: dict[str, float] = dict.fromkeys(made.possible_agents, 0.0)
        for agent in made.agent_iter():
            _, got, over, cut_off, _ = made.last()
            told[agent] += got
            if over or cut_off:
                made.step(None)
                continue
            try:
                expected, action = next(waiting)
            except StopIteration:
                return found
            assert agent == expected
            dead = {one for one in made.agents if made.terminations[one] or made.truncations[one]}
            made.step(action)
            acted.append(agent)
            paid.append({one: reward for one, reward in made.rewards.items() if one not in dead})
        assert told == pytest.approx({one: sum(step.get(one, 0.0) for step in paid) for one in told})
        found.append((acted, paid))
    raise AssertionError


def discounted(paid: Payments, agent: str, first: int, gamma: float) -> float:
    return sum(gamma**k * step.get(agent, 0.0) for k, step in enumerate(paid[first:]))


@pytest.mark.parametrize("gamma", [1.0, GAMMA])
@pytest.mark.parametrize(
    ("name", "lanes", "make"),
    [
        ("Pile", "game", Pile),
        ("Pile", "seat", Pile),
        ("Market", "seat", Market),
        ("Market", "seat", lambda: Market(deads_first=False)),
    ],
)
def test_returns_are_those_of_pettingzoos_own_loop(
    name: str, lanes: Lanes, make: Callable[[], Turns], gamma: float
) -> None:
    options: Options = {"deads_first": make().deads_first}
    played = lived(games(name, lanes, options))
    returns, seats, ended = played.returns(gamma)
    size = played.environment.lanes // COPIES
    names = played.environment.seats
    episodes = 0
    for copy in range(COPIES):
        own = range(copy * size, (copy + 1) * size)
        decisions = [(t, lane) for t in range(len(seats)) for lane in own if seats[t, lane] != NO_SEAT]
        assert [t for t, _ in decisions] == list(range(len(seats)))  # one after the other
        actions = [(names[seats[t, lane]], played.actions[t][lane] + 1) for t, lane in decisions]
        first = 0
        for acted, paid in episodes_of_turns(make(), copy_seed(copy * size), actions):
            for ply, agent in enumerate(acted):
                t, lane = decisions[first + ply]
                assert names[seats[t, lane]] == agent
                assert returns[t, lane] == pytest.approx(discounted(paid, agent, ply, gamma), abs=1e-4)
            first += len(acted)
            assert ended[first - 1, own].any()
            episodes += 1
    assert episodes > 20


@pytest.mark.parametrize("gamma", [1.0, GAMMA])
def test_returns_of_those_who_decide_at_once_are_those_of_their_own_rewards(gamma: float) -> None:
    played = lived(games("Meadow"))
    returns, seats, ended = played.returns(gamma)
    names, size = played.environment.seats, len(played.environment.seats)
    lives = 0
    for copy in range(COPIES):
        made, t = Meadow(), 0
        seed: int | None = copy_seed(copy * size)
        while t < len(seats):
            made.reset(seed=seed)
            seed, begun, paid = None, t, []
            acted: list[list[str]] = []
            while made.agents and t < len(seats):
                acted.append(list(made.agents))
                lane_of = {agent: copy * size + names.index(agent) for agent in made.agents}
                assert {names.index(agent) for agent in made.agents} == set(seats[t, list(lane_of.values())].tolist())
                assert (seats[t, copy * size : (copy + 1) * size] != NO_SEAT).sum() == len(lane_of)
                _, rewards, leaves, stops, _ = made.step({a: played.actions[t][lane] for a, lane in lane_of.items()})
                paid.append(rewards)
                for agent, lane in lane_of.items():
                    assert ended[t, lane] == (leaves[agent] or stops[agent])
                    assert played.steps[t].cut_off[lane] == (stops[agent] and not leaves[agent])
                t += 1
            if made.agents:
                break
            for ply, agents in enumerate(acted):
                for agent in agents:
                    found = returns[begun + ply, copy * size + names.index(agent)]
                    assert found == pytest.approx(discounted(paid, agent, ply, gamma), abs=1e-4)
                    lives += 1
    assert lives > 300
    assert "lamb" in {names[seat] for row in seats.tolist() for seat in row if seat != NO_SEAT}


# --- single games, step by step


class Player:
    """One environment with its arrays at hand."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.observation: tuple[Observation, ...] = new_observation(environment)
        self.outcome: Step = new_step(environment)
        environment.observe(self.observation)

    def step(self, *actions: int) -> None:
        self.environment.step([np.array(actions)], self.outcome, self.observation)

    @property
    def stones(self) -> Int64:
        return self.observation[0].values[:, 0].astype(np.int64)

    @property
    def seats(self) -> list[int]:
        found: list[int] = self.observation[0].seat.tolist()
        return found


def test_rewards_and_signs_are_those_of_the_seat_that_moved() -> None:
    player = Player(games("Pile", copies=1))
    checked = {"again": 0, "other": 0, "lost": 0, "won": 0, "cut off": 0}
    for _ in range(200):
        before, seat = int(player.stones[0]), player.seats[0]
        player.step(0)  # one stone
        left, outcome = before - 1, player.outcome
        reward = 0.1 - (0.5 if left % 2 == 0 else 0) + (left == 0)
        assert outcome.reward[0] == pytest.approx(reward)
        again = left % 5 == 0
        if outcome.ended[0]:
            checked["won" if left == 0 else "cut off"] += 1
            assert outcome.cut_off[0] == (left > 0)
            assert outcome.discount[0] == (0 if left == 0 else 1 if again else -1)
            assert outcome.final[0][0].tolist() == [left, 1]  # seen by whoever would decide next
            assert player.seats == [0]
        else:
            checked["again" if again else "other"] += 1
            checked["lost"] += reward < 0
            assert outcome.discount[0] == (1 if again else -1)
            assert player.seats == [seat if again else 1 - seat]
    assert all(checked.values()), checked


@pytest.mark.parametrize("deads_first", [True, False])
def test_cut_off_keeps_the_sign_whoever_of_the_dead_steps_first(deads_first: bool) -> None:
    """With all of three stones taken each time, the ninth ply is the left seat's, and the right one would be next."""
    player = Player(games("Pile", options={"deads_first": deads_first}, copies=40))
    signs = set()
    for _ in range(9):
        before = player.stones
        player.step(*[0] * 40)
        cut_off = player.outcome.cut_off
        left = before[cut_off] - 1
        assert (player.outcome.discount[cut_off] == np.where(left % 5 == 0, 1, -1)).all()
        signs |= set(player.outcome.discount[cut_off].tolist())
    assert signs == {1, -1}


def test_lane_lives_the_same_whatever_the_number_of_copies() -> None:
    for name, size in (("Pile", 1), ("Market", 3), ("Meadow", 4)):

        def views(copies: int, first_copy: int, name: str = name, size: int = size) -> Array:
            player = Player(games(name, copies=copies, first_lane=first_copy * size))
            seen = []
            for _ in range(40):
                player.step(*np.where(np.array(player.seats) == NO_SEAT, PASS, 0).tolist())
                seen.append(player.observation[0].values.copy())
            return np.stack(seen, axis=1)

        many = views(7, 0)
        assert (many[3 * size : 5 * size] == views(2, 3)).all()
        assert len({many[copy * size].tobytes() for copy in range(7)}) == 7


def test_some_lanes_of_a_copy_cannot_pass_alone() -> None:
    player = Player(games("Meadow", copies=2))
    before = player.observation[0].values.copy()
    with pytest.raises(ActionError, match="some lanes of copy 1 pass, and others do not"):
        player.step(0, 0, 0, PASS, 0, PASS, 0, PASS)
    player.environment.observe(player.observation)
    assert (player.observation[0].values == before).all()
    player.step(0, 0, 0, PASS, PASS, PASS, PASS, PASS)
    assert (player.observation[0].values[:3] != before[:3]).any(axis=1).all()
    assert (player.observation[0].values[4:] == before[4:]).all()


def test_views_of_those_who_wait_are_shown_for_the_values_that_learning_asks_for() -> None:
    player = Player(games("Market", copies=1))
    assert player.seats == [0, NO_SEAT, NO_SEAT]
    assert player.observation[0].values[:, 3].tolist() == [0, 1, 2]
    assert player.observation[0].legal.actions.tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]


# --- what is refused


@pytest.mark.parametrize(
    ("name", "lanes", "broken", "message"),
    [
        ("Pile", "auto", "sum", r"rewards: expected what one seat gains to be what the other loses, found \{'left'"),
        ("Pile", "auto", "number", r"rewards\['left'\]: expected a finite number, found nan, in copy 0 \(pile_v0\)"),
        (
            "Pile",
            "seat",
            "number",
            r"rewards\['left'\]: expected a finite number, found nan, in copy 0 \(pile_v0\), st",
        ),
        ("Pile", "auto", "key", r"rewards\['right'\]: missing, in copy 0"),
        ("Pile", "auto", "alone", r"terminations: expected both seats to end together, found \['(left|right)'\]"),
        ("Market", "auto", "paid when dead", r"rewards\['\w+'\]: 1.0 for one who has died before, in copy"),
        ("Market", "auto", "selection", "agent_selection: expected one who lives, found 'dan'"),
        ("Meadow", "auto", "view", r"observations\['b'\]: missing"),
        ("Meadow", "auto", "stays", r"agents: '\w+' has died, and is still among them"),
        ("Meadow", "auto", "gone", "agents: 'a' is gone, and was neither terminated nor truncated, in copy 0"),
        ("Meadow", "auto", "stranger", r"agents: expected some of \['a', 'b', 'c', 'lamb'\], found 'wolf'"),
    ],
)
def test_what_a_foreign_environment_gets_wrong_is_refused(name: str, lanes: Lanes, broken: str, message: str) -> None:
    options: Options = {"deads_first": False} if name == "Market" else {}
    with pytest.raises(ContractError, match=message) as caught:
        lived(games(name, lanes, {"broken": broken, **options}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "lanes", "options", "message"),
    [
        ("Pile", "auto", {"broken": "spaces"}, "spaces: 'right' of copy 0 has others than 'left' of copy 0"),
        (
            "Meadow",
            "auto",
            {"broken": "possible agents"},
            "possible_agents: expected their names .* 'meadow_v0' has",
        ),
        ("Market", "game", {}, "'environment.lanes' can be 'game' only where .*: in market_v0 3 seats take turns"),
        ("Meadow", "game", {}, "'environment.lanes' can be 'game' only .*: in meadow_v0 4 seats decide at once"),
        ("Pile", "auto", {"stones": 3}, "'environment.options' do not fit 'foreign_games:Pile': .*'stones'"),
        (
            "Walk",
            "auto",
            {},
            "'environment.id' must name an AECEnv or ParallelEnv .*, and 'foreign_games:W",
        ),
        ("Nothing", "auto", {}, "'foreign_games:Nothing' has no callable of that name"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(name: str, lanes: Lanes, options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        games(name, lanes, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("id", "api", "message"),
    [
        ("pettingzoo.classic.no_such_game_v1", "auto", "not 'pettingzoo.classic.no_such_game_v1': No module named"),
        ("pettingzoo.utils", "auto", "'pettingzoo.utils' has no parallel_env or env"),
        ("pettingzoo.utils", "aec", "'pettingzoo.utils' has no env"),
        ("classic/no_such_game_v1", "auto", "not 'classic/no_such_game_v1': "),
        ("classic/connect_four_v99", "aec", "not 'classic/connect_four_v99': "),
        ("classic/connect_four_v3", "parallel", "not 'classic/connect_four_v3': "),
        ("sisl/multiwalker_v9", "auto", r"not 'sisl/multiwalker_v9': .*pip install 'pettingzoo\[sisl\]'"),
        ("foreign_games:Meadow", "aec", "must name an AECEnv of PettingZoo, and 'foreign_games:Meadow' gives"),
        ("foreign_games:Pile", "parallel", "must name a ParallelEnv of PettingZoo, and 'foreign_games:Pile' gives"),
        ("pettingzoo.mpe", "auto", "not 'pettingzoo.mpe': MPE has been moved"),
        ("pettingzoo.sisl.multiwalker_v9", "auto", "not 'pettingzoo.sisl.multiwalker_v9': No module named 'Box2D'"),
        ("", "auto", "'environment.id' must name an environment of PettingZoo, not ''"),
    ],
)
def test_name_that_leads_nowhere_is_refused_in_one_line(id: str, api: Api, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        pettingzoo_games(pettingzoo_builder(id, api, {}))
    assert "\n" not in str(caught.value)


def test_state_cannot_be_saved_and_every_copy_is_closed_once() -> None:
    environment = games("Market", copies=2)
    assert isinstance(environment, SeatLanes)
    assert environment.state_bytes == 0
    with pytest.raises(StateError):
        environment.save_state(np.zeros((2, 0), np.uint8))
    insides = [world.inside for world in environment._worlds]
    environment.close()
    environment.close()
    assert [inside.closed for inside in insides] == [1, 1]
