"""Where games begin: random openings in a share of them, and positions that a lane remembers of its own games."""

from __future__ import annotations

import numpy as np
import pytest

import reference_shogi as reference
from keisei import make
from keisei.environment import UInt8
from keisei.errors import ConfigError, StateError
from shogi_table import Table

START = reference.START.rsplit(" ", 1)[0]


def placed(table: Table, lane: int) -> str:
    """The position of a lane, without the number of the move."""
    return table.environment.sfen(lane).rsplit(" ", 1)[0]


def plies(table: Table, lane: int) -> int:
    """The plies played, as the packed position keeps them."""
    row = table.values[lane].astype(np.int64)
    return int(row[97] + 256 * row[98])


def table(copies: int, share: float, *, kept: int = 3, move_limit: int = 12, seed: int = 5, **options: object) -> Table:
    return Table(
        copies,
        seed=seed,
        observation="packed",
        move_limit=move_limit,
        remembered_share=share,
        remembered_positions=kept,
        **options,
    )


class Memory:
    """Slow and obvious: of each lane the positions of its games from openings, and where its games began."""

    def __init__(self, of: Table) -> None:
        self.table = of
        self.games: list[list[dict[str, int]]] = [[] for _ in range(of.copies)]
        self.now: list[dict[str, int] | None] = [{} for _ in range(of.copies)]
        self.starts: list[list[tuple[str, int, int]]] = [[] for _ in range(of.copies)]  # position, plies, from which

    def play(self) -> None:
        self.table.play_at_random()
        for lane in range(self.table.copies):
            if self.table.outcome.ended[lane]:
                self._begin(lane)
            elif (now := self.now[lane]) is not None:
                now[placed(self.table, lane)] = plies(self.table, lane)

    def _begin(self, lane: int) -> None:
        ended, position, number = self.now[lane], placed(self.table, lane), plies(self.table, lane)
        if ended is not None:
            self.games[lane].append(ended)
        found = [back for back, game in enumerate(reversed(self.games[lane])) if game.get(position) == number]
        self.starts[lane].append((position, number, found[0] if found and number else -1))
        self.now[lane] = None if number else {}


def played(of: Table, steps: int) -> Memory:
    memory = Memory(of)
    for _ in range(steps):
        memory.play()
    return memory


def test_remembered_starts_are_positions_of_the_lanes_own_last_games_at_their_own_ply() -> None:
    memory = played(table(24, 0.5), 260)
    starts = [start for lane in memory.starts for start in lane]
    later = [(back, number) for position, number, back in starts if number]
    assert {position for position, number, _ in starts if not number} == {START}
    assert 0.4 < len(later) / len(starts) < 0.6
    assert all(0 <= back < 3 for back, _ in later), "not of the last three games from openings"
    assert {number for _, number in later} == set(range(1, 12))
    assert {back for back, _ in later} == {0, 1, 2}


def test_every_position_of_a_game_is_remembered_as_often_as_any_other() -> None:
    memory = played(table(200, 0.5, kept=1), 130)
    numbers = [number for lane in memory.starts for _, number, _ in lane if number]
    counts = np.bincount(numbers, minlength=12)[1:12]
    expected = len(numbers) / 11
    assert len(numbers) > 800
    # one remembered position begins about one game on average, but sometimes several: half the weight
    assert ((counts - expected) ** 2 / expected).sum() < 2 * 29.6  # 10 degrees of freedom, p = 0.001


def test_game_from_a_remembered_position_is_cut_off_at_the_same_limit() -> None:
    of = table(16, 1.0)
    for _ in range(100):
        of.play_at_random()
        for lane in np.flatnonzero(of.outcome.cut_off):
            assert of.outcome.length[lane] == 12
    assert all(plies(of, lane) > 0 for lane in range(16)), "all games but the first begin from a remembered position"


def test_remembered_positions_are_part_of_the_state() -> None:
    one = table(6, 0.6)
    for _ in range(50):
        one.play_at_random()
    state, time = one.saved(), one.time
    other = table(6, 0.6)
    other.environment.load_state(state)
    other.environment.observe(other.observation)
    other.time = time
    assert np.array_equal(other.saved(), state)
    for _ in range(100):
        one.play_at_random()
        other.play_at_random()
        assert other.told() == one.told()
    assert np.array_equal(other.saved(), one.saved())
    assert not np.array_equal(forgotten(one, state), one.saved()), "without what it remembers a lane plays the same"


def forgotten(of: Table, state: UInt8) -> UInt8:
    """Where the same steps lead from a fresh table in which nothing is remembered."""
    fresh = table(of.copies, 0.6)
    for _ in range(100):
        fresh.play_at_random()
    return fresh.saved()


def test_state_is_the_same_bytes_whatever_was_remembered_before() -> None:
    used, fresh = table(4, 0.5), table(4, 0.5)
    for _ in range(70):
        used.play_at_random()
    used.environment.reset(used.observation)
    assert np.array_equal(used.saved(), fresh.saved())


def test_state_of_other_starts_is_refused() -> None:
    plain, remembering = Table(2, move_limit=12), table(2, 0.5)
    assert remembering.environment.state_bytes > plain.environment.state_bytes
    for other in (table(2, 0.4), table(2, 0.5, random_plies=4), table(2, 0.5, random_plies=4, random_share=0.5)):
        with pytest.raises(StateError):
            other.environment.load_state(remembering.saved())


def test_lanes_remember_alone_on_any_number_of_threads() -> None:
    whole, threaded, part = table(40, 0.5), table(40, 0.5, threads=3), table(8, 0.5, first_lane=16)
    for _ in range(80):
        for each in (whole, threaded, part):
            each.play_at_random()
    assert np.array_equal(threaded.saved(), whole.saved())
    assert np.array_equal(part.saved(), whole.saved()[16:24])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_share_of_games_begins_with_random_plies(share: float) -> None:
    of = Table(4000, seed=3, observation="packed", random_plies=40, random_share=share)
    begun = np.array([plies(of, lane) for lane in range(4000)])
    assert begun.max() <= 40
    assert abs((begun > 0).mean() - share * 40 / 41) < 0.03  # p < 0.001: four deviations


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"remembered_share": 1.1}, "remembered_share"),
        ({"remembered_positions": 0}, "remembered_positions"),
        ({"random_share": -0.1}, "random_share"),
    ],
)
def test_impossible_starts_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make("shogi", **options)
