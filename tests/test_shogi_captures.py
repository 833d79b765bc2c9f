"""What a move takes is read from what the mover sees, in every form alike; a greedy opponent lives on it."""

from __future__ import annotations

import numpy as np
import pytest

from keisei.environment import Int64, Observation, legal_list, new_observation, new_step
from keisei.opponents import GreedyOpponent, RandomOpponent
from keisei.shogi import ShogiEnvironment
from keisei.shogi.actions import ACTIONS, action_to_usi
from keisei.shogi.captures import capture_values, destinations
from keisei.shogi.environment import ObservationForm

VALUE = {"P": 1, "L": 3, "N": 3, "S": 5, "G": 6, "B": 8, "R": 10}
VALUE |= {"+P": 7, "+L": 6, "+N": 6, "+S": 6, "+B": 12, "+R": 13}
FORMS: tuple[ObservationForm, ...] = ("packed", "uint8", "float32")


def piece_on(sfen: str, square: str) -> str:
    """The piece on a USI square, "" for none, read from the SFEN."""
    rank = sfen.split("/")[ord(square[1]) - ord("a")].split()[0]
    cells: list[str] = []
    promoted = ""
    for letter in rank:
        if letter == "+":
            promoted = "+"
        else:
            cells += [""] * int(letter) if letter.isdigit() else [promoted + letter]
            promoted = ""
    return cells[9 - int(square[0])]


def seen_by(environment: ShogiEnvironment) -> Observation:
    observation = new_observation(environment)
    environment.observe(observation)
    return observation[0]


def played_on(form: ObservationForm, steps: int) -> ShogiEnvironment:
    environment = ShogiEnvironment(copies=24, seed=5, observation=form, random_plies=60)
    observation, step, opponent = new_observation(environment), new_step(environment), RandomOpponent(1)
    environment.reset(observation)
    for _ in range(steps):
        environment.step([opponent(environment.groups[0], observation[0])], step, observation)
    return environment


def values_of_all(environment: ShogiEnvironment) -> tuple[Int64, Int64, Int64]:
    """Rows, actions and worth of every legal action."""
    seen = seen_by(environment)
    legal = legal_list(environment.groups[0], seen.legal)
    rows = np.repeat(np.arange(environment.lanes), np.diff(legal.offsets))
    actions = legal.actions.astype(np.int64)
    return rows, actions, capture_values(seen.values, rows, actions)


@pytest.mark.parametrize("form", FORMS)
def test_capture_is_worth_what_stands_on_the_square(form: ObservationForm) -> None:
    captured = set()
    environment = played_on(form, 40)
    rows, actions, worth = values_of_all(environment)
    for row, action, value in zip(rows.tolist(), actions.tolist(), worth.tolist(), strict=True):
        sfen = environment.sfen(row)
        usi = action_to_usi(action, "black" if sfen.split()[1] == "b" else "white")
        taken = piece_on(sfen, usi[2:4])
        captured.add(taken.upper())
        assert value == (VALUE[taken.upper()] if taken else 0), (sfen, usi)
    assert len(captured) > 8


def test_every_kind_of_piece_has_its_value() -> None:
    for kind, value in VALUE.items():
        sfen = f"4k4/9/9/9/4{kind.lower()}4/4G4/9/9/4K4 b - 1"
        environment = ShogiEnvironment(openings=[sfen], observation="packed")
        assert values_of_all(environment)[2].max() == value, kind


def test_destination_is_that_of_the_move() -> None:
    for action in range(0, ACTIONS, 7):
        square = int(destinations(np.array([action]))[0])
        usi = action_to_usi(action, "black")
        assert usi[2:4] == f"{9 - square % 9}{'abcdefghi'[square // 9]}"


@pytest.mark.parametrize("form", FORMS)
def test_greedy_opponent_takes_the_hanging_rook(form: ObservationForm) -> None:
    sfen = "4k4/9/9/3pr4/4G4/4P4/9/9/4K4 {} - 1"
    for turn, expected in (("b", "5e5d"), ("w", "5d5e")):
        environment = ShogiEnvironment(openings=[sfen.format(turn)], observation=form)
        chosen = GreedyOpponent(0, capture_values)(environment.groups[0], seen_by(environment))
        assert action_to_usi(int(chosen[0]), "black" if turn == "b" else "white").startswith(expected)


def test_greedy_opponent_beats_a_random_one() -> None:
    environment = ShogiEnvironment(copies=32, observation="packed")
    observation, step = new_observation(environment), new_step(environment)
    environment.reset(observation)
    opponents = (GreedyOpponent(1, capture_values), RandomOpponent(2))
    greedy = np.arange(32) % 2  # its seat
    wins, games = 0, 0
    for _ in range(700):
        seen = observation[0]
        first, second = (opponent(environment.groups[0], seen) for opponent in opponents)
        moves = seen.seat == greedy
        environment.step([np.where(moves, first, second)], step, observation)
        wins += int((step.reward * np.where(moves, 1, -1) > 0).sum())
        games += int((step.reward != 0).sum())
    assert games > 80
    assert wins > 0.95 * games
