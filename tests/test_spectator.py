"""The world beside the numbers goes as the run's own first world does, and touches nothing of the run."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from keisei import build
from keisei.checkpoint import latest
from keisei.environment import UInt8
from keisei.gridworld.follower import FollowedWorld
from keisei.metrics import open_metrics
from keisei.screen import Screen
from keisei.small_picture import Picture, picture_text
from keisei.spectator import TURNS_PER_SECOND, Spectator, WorldSpectator
from keisei.stopping import StopRequest
from keisei.train import GROUPS, Training
from small_society import loaded
from some_run import record


class Clock:
    """A clock that a test turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def trained(folder: Path, spectator: Spectator | None, **changes: dict[str, object]) -> Training:
    config = loaded(folder, **changes)
    with open_metrics(folder) as metrics:
        training = build.training(config, folder, metrics, StopRequest(), spectator=spectator)
        training.prepare()
        training.run()
    return training


def followed(spectator: Spectator) -> UInt8:
    """The state of a spectator's world."""
    assert isinstance(spectator, WorldSpectator)
    world = spectator._world
    assert isinstance(world, FollowedWorld)
    state: UInt8 = np.zeros((1, world._environment.state_bytes), np.uint8)
    world._environment.save_state(state)
    return state.reshape(-1)


VIEWS: dict[str, object] = {"views": [{"seats": "1", "radius": 3}]}


@pytest.mark.parametrize("changes", [{}, {"turns": "sequential"}, VIEWS], ids=["as it is", "sequential", "views"])
def test_spectators_world_stands_where_the_runs_first_world_stands(tmp_path: Path, changes: dict[str, object]) -> None:
    config = loaded(tmp_path, environment=changes)
    spectator = build.spectator(config)
    trained(tmp_path, spectator, environment=changes)
    found = latest(tmp_path, GROUPS).checkpoint.tensors["environment"]["states"]
    assert found.shape[:2] == (2, 2)
    assert np.array_equal(followed(spectator), found[0, 0].numpy())
    assert not np.array_equal(followed(spectator), found[0, 1].numpy())


def test_spectator_of_a_resumed_run_goes_on_with_it(tmp_path: Path) -> None:
    trained(tmp_path, None)
    spectator = build.spectator(loaded(tmp_path))
    longer: dict[str, object] = {"total_steps": 480}
    with open_metrics(tmp_path) as metrics:
        training = build.training(loaded(tmp_path, run=longer), tmp_path, metrics, StopRequest(), spectator=spectator)
        training.restore(latest(tmp_path, GROUPS))
        training.prepare()
        training.run()
    found = latest(tmp_path, GROUPS).checkpoint.tensors["environment"]["states"]
    assert np.array_equal(followed(spectator), found[0, 0].numpy())


def test_looking_changes_no_bit(tmp_path: Path) -> None:
    weights = []
    for name in ("alone", "watched"):
        folder = tmp_path / name
        folder.mkdir()
        spectator = build.spectator(loaded(folder)) if name == "watched" else None
        trained(folder, spectator)
        weights.append(latest(folder, GROUPS).checkpoint.weights)
    assert weights[0].keys() == weights[1].keys()
    assert all(bool((weights[0][name] == weights[1][name]).all()) for name in weights[0])


def test_pictures_come_turn_by_turn_and_then_those_of_the_newest_rollout(tmp_path: Path) -> None:
    clock = Clock()
    spectator = build.spectator(loaded(tmp_path))
    assert isinstance(spectator, WorldSpectator)
    spectator._clock = clock
    assert spectator.picture() is None
    trained(tmp_path, spectator)
    captions = []
    for _ in range(9):
        picture = spectator.picture()
        assert picture is not None
        assert picture.colours.shape == (9, 9, 3)
        captions.append(picture.caption.split(" ·")[0])
        clock.now += 1 / TURNS_PER_SECOND
    turns = [int(caption.removeprefix("turn ").split("/")[0]) for caption in captions]
    assert turns == [*range(7), 6, 6]  # an epoch is an episode; then nothing new has come


def test_other_games_have_no_spectator(tmp_path: Path) -> None:
    from keisei.config import load_run

    assert type(build.spectator(load_run())) is Spectator
    assert Spectator().picture() is None


# --- on the screen ---------------------------------------------------------------------------------------------------


def drawn(width: int, height: int, side: int = 21, encoding: str = "utf-8", colours: str | None = "truecolor") -> str:
    """A screen with a picture, as text."""
    picture = Picture(np.full((side, side, 3), 200, np.uint8), "turn 3/100 · 5 -1")
    screen = Screen("run", "about it", picture=lambda: picture)
    screen.record(record(3))
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(
        record=True,
        width=width,
        height=height,
        file=file,
        force_terminal=True,
        color_system=colours,  # type: ignore[arg-type]
    )
    console.print(screen)
    text = console.export_text()
    assert {cell_len(line) for line in text.splitlines()} == {width}
    return text


def test_picture_stands_beside_the_numbers_where_there_is_room() -> None:
    text = drawn(100, 40)
    assert text.count("▀") == 21 * 11
    assert "turn 3/100" in text
    assert "policy loss" in text
    assert "speed" in text


@pytest.mark.parametrize(
    ("width", "height", "colours"), [(70, 40, "truecolor"), (100, 12, "truecolor"), (100, 40, None)]
)
def test_picture_is_left_out_where_there_is_no_room_or_no_colour(width: int, height: int, colours: str | None) -> None:
    text = drawn(width, height, colours=colours)
    assert "▀" not in text
    assert "policy loss" in text


def test_terminal_that_knows_ascii_alone_gets_coloured_spaces() -> None:
    text = drawn(120, 40, encoding="ascii")
    assert text.isascii() or "▀" not in text
    assert "turn 3/100" in text


def test_colours_of_two_rows_stand_in_one_line() -> None:
    colours = np.array([[[255, 0, 0]], [[0, 255, 0]], [[0, 0, 255]]], np.uint8)
    found = picture_text(Picture(colours, ""), 100, 20, ascii_only=False)
    assert found is not None
    spans = [str(span.style) for span in found.lines.spans]
    assert spans[:2] == ["#ff0000 on #00ff00", "#0000ff"]
