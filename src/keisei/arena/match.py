"""Matches: two opponents play over any two-seat environment, many games side by side, in pairs with colours swapped.

Games `2p` and `2p + 1` start from the same random opening; the challenger has the first seat in the one, the second in
the other. Every game is played once, to its end. What happens in a game depends on seed, number and players, not on
the lane that it is played in or on the games beside it. What results say about strength is in `rating.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from keisei.arena.rating import Sprt
from keisei.arena.result import GameResult, MatchResult, Winner
from keisei.environment import (
    NO_SEAT,
    PASS,
    Array,
    Bool,
    Environment,
    Float64,
    Group,
    Int8,
    Int64,
    Legal,
    Observation,
    Step,
    legal_list,
    new_observation,
    new_step,
    pick_legal,
)
from keisei.errors import ActionError, ConfigError, ContractError
from keisei.opponents import Opponent, uniform

_NO_GAME = -1

_MOST_DRAWS = 200
"""So many openings are drawn for a pair; where the game ends within each of them, the match is refused."""

_OPENING_STEPS = np.uint64(1 << 63)
"""Openings draw from the upper half of all steps: no opponent of the same seed gets there."""


def evaluate(
    environment: Environment,
    challenger: Opponent,
    against: Opponent,
    *,
    games: int,
    seed: int,
    opening_plies: int,
    sprt: Sprt | None = None,
) -> MatchResult:
    """The result of a match, the same for the same seed, opponents fresh from their seeds, and environment.

    The environment is started anew and must start all games from one position; it may have any number of copies. Each
    pair's opening has between half of `opening_plies` and all of them, so both sides come to open. An opponent is asked
    for the games in which it is to move only; the `lanes` of the group that it gets are the numbers of those games.
    With `sprt` the match ends with the pair, in their order, that decides; later games, begun already, do not count.
    """
    played: list[GameResult] = []
    pairs = [0] * 5
    for game in _in_order(_play(environment, (challenger, against), games, _Openings(seed, opening_plies))):
        played.append(game)
        if game.number % 2 == 1:
            pairs[round(2 * (played[-2].points + game.points))] += 1
            if sprt is not None and sprt.decide(pairs) is not None:
                break
    return MatchResult(tuple(played), sprt)


def _in_order(games: Iterable[GameResult]) -> Iterator[GameResult]:
    """The games in the order of their numbers: each is held back until those before it are finished."""
    waiting: dict[int, GameResult] = {}
    number = 0
    for game in games:
        waiting[game.number] = game
        while number in waiting:
            yield waiting.pop(number)
            number += 1


def _play(
    environment: Environment, players: tuple[Opponent, Opponent], games: int, openings: _Openings
) -> Iterator[GameResult]:
    """The games as they end."""
    _check(environment, games)
    (group,) = environment.groups
    (seen,) = observation = new_observation(environment)
    step = new_step(environment)
    environment.reset(observation)
    table = _Table(environment.lanes, games, openings)
    while table.playing.any():
        actions = table.choose(players, group, seen)
        movers = seen.seat.copy()
        environment.step([actions], step, observation)
        yield from table.advance(movers, step, environment.reasons)


def _check(environment: Environment, games: int) -> None:
    if len(environment.seats) != 2 or environment.lanes != environment.copies or len(environment.groups) != 1:
        raise ConfigError(
            "a match needs a game whose two seats take turns in one lane, all lanes in one group; found "
            f"{len(environment.seats)} seats, {environment.lanes} lanes in {environment.copies} copies, "
            f"{len(environment.groups)} groups"
        )
    if games < 1:
        raise ConfigError(f"games: expected 1 or more, found {games}")


@dataclass(frozen=True)
class _Openings:
    """Random legal plies by seed, pair, how often the pair has drawn, and ply: the same for both of its games."""

    seed: int
    most: int

    def __post_init__(self) -> None:
        if self.most < 0:
            raise ConfigError(f"opening_plies: expected 0 or more, found {self.most}")

    def plies(self, pair: int, draw: int) -> int:
        """How long the opening is: half of the most, rounded up, to the most."""
        least = (self.most + 1) // 2
        (number,) = self.numbers(np.array([pair]), np.array([draw]), np.array([0])).tolist()
        return least + int(number * (self.most - least + 1))

    def numbers(self, pairs: Int64, draws: Int64, plies: Int64) -> Float64:
        """The numbers in [0, 1) that pick the actions of these plies, counted from 1 `[n]`."""
        return uniform(self.seed, pairs.astype(np.uint64), _OPENING_STEPS | (draws << 32 | plies).astype(np.uint64))


class _Table:
    """Which game is played in which lane, and how far it is. A lane that becomes free takes the next game."""

    def __init__(self, lanes: int, games: int, openings: _Openings) -> None:
        self.openings = openings
        self.waiting = iter(range(games))
        self.game: Int64 = np.full(lanes, _NO_GAME, np.int64)  # [L] its number
        self.draw: Int64 = np.zeros(lanes, np.int64)  # [L] how many openings were drawn for it in vain
        self.opening: Int64 = np.zeros(lanes, np.int64)  # [L] the plies of its opening
        self.ply: Int64 = np.zeros(lanes, np.int64)  # [L] the plies played
        self.starts: dict[int, int] = {}  # by pair, a hash of where its opening led
        for lane in range(lanes):
            self._begin_next(lane)

    @property
    def playing(self) -> Bool:
        """Where there is a game [L]."""
        playing: Bool = self.game != _NO_GAME
        return playing

    def choose(self, players: tuple[Opponent, Opponent], group: Group, seen: Observation) -> Int64:
        """What is played in each lane [L]: by the opening, or by the player to move; `PASS` without a game."""
        if (seen.seat[self.playing] == NO_SEAT).any():
            lane = int((self.playing & (seen.seat == NO_SEAT)).argmax())
            raise ContractError(f"seat: nobody decides in lane {lane}, in a match")
        actions = np.full(len(self.game), PASS, np.int64)
        opens = self.playing & (self.ply < self.opening)
        self._check_starts(group, seen)
        if len(rows := self._rows(opens)):
            actions[rows] = self._open(rows, *_part(group, seen, rows, self.game))
        for index, player in enumerate(players):
            to_move = self.playing & ~opens & (seen.seat == (self.game + index) % 2)
            if len(rows := self._rows(to_move)):
                actions[rows] = _answer(player, *_part(group, seen, rows, self.game))
        return actions

    def advance(self, movers: Int8, step: Step, reasons: tuple[str, ...]) -> Iterator[GameResult]:
        """The games that this step ended; their lanes go on with the next. One still in its opening begins anew."""
        self.ply += self.playing
        for lane in np.flatnonzero(self.playing & step.ended).tolist():
            if self.ply[lane] <= self.opening[lane]:
                self._draw_opening(lane, int(self.draw[lane]) + 1)
                continue
            number = int(self.game[lane])
            yield GameResult(
                number=number,
                seat=number % 2,
                winner=_winner(float(step.reward[lane]), bool(step.cut_off[lane]), int(movers[lane]) == number % 2),
                reason=reasons[step.reason[lane]],
                length=int(step.length[lane]),
                opening=int(self.opening[lane]),
            )
            self._begin_next(lane)

    def _begin_next(self, lane: int) -> None:
        self.game[lane] = next(self.waiting, _NO_GAME)
        if self.game[lane] != _NO_GAME:
            self._draw_opening(lane, 0)

    def _draw_opening(self, lane: int, draw: int) -> None:
        if draw == _MOST_DRAWS:
            raise ConfigError(
                f"opening_plies: {self.openings.most} are too many, the game ended within each of {draw} openings"
            )
        self.draw[lane], self.ply[lane] = draw, 0
        self.opening[lane] = self.openings.plies(int(self.game[lane]) // 2, draw)

    def _open(self, rows: Int64, group: Group, seen: Observation) -> Array:
        """The next plies of these lanes' openings `[n]`."""
        numbers = self.openings.numbers(self.game[rows] // 2, self.draw[rows], self.ply[rows] + 1)
        return pick_legal(legal_list(group, seen.legal), numbers)

    def _rows(self, where: Bool) -> Int64:
        """These lanes, in the order of their games."""
        rows = np.flatnonzero(where)
        return rows[np.argsort(self.game[rows])]

    def _check_starts(self, group: Group, seen: Observation) -> None:
        """The second game of a pair comes out of its opening where the first one did."""
        for lane in np.flatnonzero(self.playing & (self.ply == self.opening)).tolist():
            pair = int(self.game[lane]) // 2
            _, part = _part(group, seen, np.array([lane]), self.game)
            start = hash((part.values.tobytes(), part.legal.actions.tobytes(), part.seat.tobytes()))
            if self.starts.setdefault(pair, start) != start:
                raise ConfigError(
                    f"the games of pair {pair} came to different positions by the same opening: a match needs an "
                    "environment that starts all games from one position (Shogi: one of openings, random_plies 0)"
                )


def _part(group: Group, seen: Observation, rows: Int64, numbers: Int64) -> tuple[Group, Observation]:
    """These rows of what a group sees, as a group whose lanes are numbered by `numbers[rows]`; nothing is shared."""
    legal = seen.legal
    part = _part_list(legal, rows) if group.legal == "list" else Legal(legal.actions[rows], legal.offsets)
    lanes = numbers[rows].astype(np.int32)
    return replace(group, lanes=lanes), Observation(seen.values[rows], part, seen.seat[rows])


def _part_list(legal: Legal, rows: Int64) -> Legal:
    counts = np.diff(legal.offsets)[rows]
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    index = np.arange(offsets[-1]) + np.repeat(legal.offsets[rows] - offsets[:-1], counts)
    return Legal(legal.actions[index], offsets)


def _answer(player: Opponent, group: Group, seen: Observation) -> Array:
    """The player's actions; whether they are legal is for the environment to say."""
    actions = np.asarray(player(group, seen))
    if actions.shape != group.lanes.shape or actions.dtype.kind not in "iu":
        raise ActionError(
            f"expected integers [{len(group.lanes)}] from {player!r}, found {actions.dtype} {list(actions.shape)}"
        )
    if (actions == PASS).any():
        raise ActionError(f"{player!r} passed in game {group.lanes[actions == PASS][0]}, where it is to move")
    return actions


def _winner(reward: float, cut_off: bool, challenger_moved: bool) -> Winner | None:
    """Who won, by the reward of the seat that made the last ply."""
    if cut_off or reward == 0:
        return None
    return "challenger" if (reward > 0) == challenger_moved else "against"
