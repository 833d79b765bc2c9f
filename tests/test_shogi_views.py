"""A view turns round as the board does, and reads back as the position it was taken from."""

from __future__ import annotations

import numpy as np
import pytest

from keisei.environment import Array, new_observation, new_step
from keisei.opponents import RandomOpponent
from keisei.shogi import Board, ShogiEnvironment
from keisei.shogi.environment import ObservationForm
from keisei.shogi.views import other_view, sfen

FORMS: tuple[ObservationForm, ...] = ("packed", "uint8", "float32")


def views(form: ObservationForm) -> tuple[Array, list[str]]:
    """What 40 games look like after a while, and their SFENs without the move number."""
    environment = ShogiEnvironment(copies=40, seed=8, observation=form, random_plies=100)
    observation, step, opponent = new_observation(environment), new_step(environment), RandomOpponent(1)
    environment.reset(observation)
    for _ in range(30):
        environment.step([opponent(environment.groups[0], observation[0])], step, observation)
    return observation[0].values, [text.rsplit(" ", 1)[0] for text in environment.sfens()]


@pytest.mark.parametrize("form", FORMS)
def test_view_reads_back_as_its_position(form: ObservationForm) -> None:
    for view, expected in zip(*views(form), strict=True):
        assert sfen(view, 31) == f"{expected} 31"


@pytest.mark.parametrize("form", FORMS)
def test_other_view_is_what_the_other_side_sees_when_it_is_to_move(form: ObservationForm) -> None:
    compared = 0
    for view, text in zip(*views(form), strict=True):
        board, turn, hands = text.split(" ")
        in_check = Board(f"{text} 1").in_check()
        if in_check:
            continue  # with the other side to move, this is no position
        turned = f"{board} {'w' if turn == 'b' else 'b'} {hands} 1"
        environment = ShogiEnvironment(openings=[turned], observation=form, declaration="none")
        observation = new_observation(environment)
        environment.observe(observation)
        seen, expected = other_view(view), observation[0].values[0]
        if form == "packed":
            seen, expected = seen[:95], expected[:95]
        else:  # the plies, the occurrences and the check belong to the game, not to the position
            seen, expected = np.delete(seen, (43, 44, 45), axis=0), np.delete(expected, (43, 44, 45), axis=0)
        assert seen.dtype == expected.dtype
        assert (seen == expected).all()
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("form", FORMS)
def test_other_view_of_the_other_view_is_the_view(form: ObservationForm) -> None:
    for view, text in zip(*views(form), strict=True):
        if not Board(f"{text} 1").in_check():
            assert (other_view(other_view(view)) == view).all()
