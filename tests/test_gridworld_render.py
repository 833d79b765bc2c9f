"""Worlds as pictures and as text: what is there can be seen, and told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import keisei
from keisei.environment import UInt8
from keisei.errors import WorldError
from keisei.gridworld import SHIPPED, GridworldEnvironment, load_world
from keisei.gridworld.letters import letter, written
from keisei.gridworld.place import FINISHED
from keisei.gridworld.playing import Stage, random_choice, scenes
from keisei.gridworld.render import Painter, Scene, cell_colours, scene
from keisei.gridworld.sprites import SHAPES, agent_sprite, seat_colours, sprite
from keisei.gridworld.text import glyphs

CELL = 16


def world(name: str, **numbers: float) -> GridworldEnvironment:
    built = keisei.make(name, seed=5, debug=True, **numbers)
    assert isinstance(built, GridworldEnvironment)
    return built


def started(name: str, **numbers: float) -> tuple[GridworldEnvironment, Scene]:
    built = world(name, **numbers)
    return built, scene(built.worlds.now[0])


def painter(of: GridworldEnvironment, cell: int = CELL) -> Painter:
    _, height, width = of.worlds.now["who"].shape
    return Painter(of.file, height, width, len(of.seats), cell)


def cell_of(picture: UInt8, row: int, column: int) -> UInt8:
    return picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_kind_of_thing_looks_different_in_each_world(name: str) -> None:
    built, seen = started(name)
    kinds = built.file.world.kinds
    row, column = 2, 2
    seen = replace(seen, status=np.full_like(seen.status, FINISHED))
    pictures = []
    for number, kind in enumerate(kinds):
        cells = seen.cells.copy()
        cells[:, row, column] = 0
        cells[built.file.world.layers.index(kind.layer), row, column] = number
        pictures.append(cell_of(painter(built).paint(replace(seen, cells=cells)), row, column))
    shown = [picture for picture, kind in zip(pictures, kinds, strict=True) if kind.shape != "agent"]
    assert all((a != b).any() for i, a in enumerate(shown) for b in shown[:i])


def test_picture_has_a_square_for_each_cell_and_a_line_of_print() -> None:
    built, seen = started("cleanup")
    picture = painter(built).paint(seen)
    assert picture.dtype == np.uint8
    assert picture.shape[1] == 31 * CELL
    assert picture.shape[0] > 21 * CELL


def test_agents_differ_by_number_and_by_where_they_look() -> None:
    looks = [agent_sprite(0, (9, 99, 199), heading, 24, marked=None, asleep=False) for heading in range(4)]
    looks += [agent_sprite(number, (9, 99, 199), 0, 24, marked=None, asleep=False) for number in (1, 2, 10, 127)]
    looks += [agent_sprite(0, (9, 99, 199), 0, 24, marked=(200, 0, 0), asleep=False)]
    looks += [agent_sprite(0, (9, 99, 199), 0, 24, marked=None, asleep=True)]
    assert all((a != b).any() for i, a in enumerate(looks) for b in looks[:i])


def test_agent_is_drawn_where_it_stands_and_nowhere_else() -> None:
    built, seen = started("treasure_hunt", agents=1)
    gone = replace(seen, status=np.array([FINISHED], np.int32))
    drawn, bare = (painter(built).paint(each)[: 21 * CELL] for each in (seen, gone))
    changed = (drawn != bare).any(-1).reshape(21, CELL, 21, CELL).any((1, 3))
    assert np.argwhere(changed).tolist() == [[int(seen.row[0]), int(seen.column[0])]]


def test_whoever_is_it_is_marked() -> None:
    built, seen = started("tag")
    it = int(np.flatnonzero(seen.looks != seen.looks.min())[0])
    usual = replace(seen, looks=np.full_like(seen.looks, seen.looks.min()), cells=seen.cells.copy())
    usual.cells[0, seen.row[it], seen.column[it]] = usual.looks[it]
    place = int(seen.row[it]), int(seen.column[it])
    assert (cell_of(painter(built).paint(seen), *place) != cell_of(painter(built).paint(usual), *place)).any()
    red = built.file.world.kinds[seen.looks[it]].colour
    assert cell_colours(built.file, seen)[place].tolist() == list(red)


def test_beam_lets_what_is_below_shine_through() -> None:
    built, seen = started("cleanup")
    cells = seen.cells.copy()
    cells[2, 8, 8] = [kind.name for kind in built.file.world.kinds].index("zapping beam")
    before, after = (cell_of(painter(built).paint(each), 8, 8) for each in (seen, replace(seen, cells=cells)))
    opaque = sprite("square", built.file.world.kinds[9].colour, CELL)
    assert (before != after).any()
    assert (after != (opaque[..., :3] * 255).astype(np.uint8)).any()


def test_print_says_the_turn_and_what_was_earned() -> None:
    built, seen = started("tag")
    first, later = (painter(built).paint(replace(seen, turn=turn))[11 * CELL :] for turn in (3, 4))
    richer = painter(built).paint(replace(seen, returns=seen.returns + 5))[11 * CELL :]
    assert (first != later).any()
    assert (first != richer).any()


@pytest.mark.parametrize("agents", [1, 40, 128])
def test_print_of_many_agents_keeps_to_its_room(agents: int) -> None:
    built, seen = started("treasure_hunt", agents=agents)
    picture = painter(built).paint(replace(seen, returns=seen.returns - 12345.6))
    assert picture.shape[1] == 21 * CELL
    assert picture.shape[0] < 24 * CELL


def test_size_of_cells_fits_the_map() -> None:
    sizes = {}
    for side in (5, 21, 100, 400):
        file = load_world("empty")
        sizes[side] = Painter(file, side, side, 1).cell
    assert sizes == {5: 40, 21: 24, 100: 10, 400: 4}


def test_shape_that_does_not_exist_is_named(tmp_path: Path) -> None:
    text = (Path(keisei.__file__).parent / "gridworld/worlds/empty.py").read_text(encoding="utf-8")
    path = tmp_path / "odd.py"
    path.write_text(text.replace('shape="brick"', 'shape="brik"'), encoding="utf-8")
    with pytest.raises(WorldError, match=r"odd: 'wall' has the shape 'brik', expected square, brick, .*agent"):
        Painter(load_world(str(path)), 11, 11, 1)


def test_every_shape_can_be_drawn_small_and_large() -> None:
    for shape in SHAPES[:-1]:
        for size in (4, 24, 60):
            drawn = sprite(shape, (100, 120, 140), size, "A")
            assert drawn.shape == (size, size, 4)
            assert 0 < drawn[..., 3].max() <= 1
            assert (drawn[..., :3] <= drawn[..., 3:] + 1e-6).all()  # colours are times what they cover


def test_hundred_and_more_agents_have_colours() -> None:
    colours = seat_colours(128)
    assert len(set(colours[:24])) == 24
    assert all(0 <= channel <= 255 for colour in colours for channel in colour)


def test_letters_are_different_and_text_has_gaps() -> None:
    shapes = [letter(character) for character in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:-+/%"]
    assert all(a.shape != b.shape or (a != b).any() for i, a in enumerate(shapes) for b in shapes[:i] if i != 24 + 10)
    assert written("I1").shape == (5, 7)
    assert not written("I1")[:, 3].any()
    assert np.array_equal(letter("a"), letter("A"))


@pytest.mark.parametrize("name", SHIPPED)
def test_text_has_two_characters_for_each_cell_and_every_agent(name: str) -> None:
    built, seen = started(name)
    lines = glyphs(built.file, seen)
    assert {len(line) for line in lines} == {seen.cells.shape[2]}
    assert {len(glyph.text) for line in lines for glyph in line} == {2}
    arrows = "^>v<"
    for agent, (row, column) in enumerate(zip(seen.row.tolist(), seen.column.tolist(), strict=True)):
        assert lines[row][column].text == f"{agent}{arrows[seen.heading[agent]]}"


def test_text_without_colours_still_says_what_is_where() -> None:
    built, seen = started("treasure_hunt")
    cells = seen.cells.copy()
    cells[0, 3, 4:8] = [3, 4, 5, 0]
    line = glyphs(built.file, replace(seen, cells=cells, status=np.full(2, FINISHED, np.int32)))[3]
    assert "".join(glyph.text for glyph in line[4:8]) == "g f b   "


def test_scenes_tell_an_episode_from_its_start_to_its_end() -> None:
    built = world("treasure_hunt", max_turns=7)
    stage = Stage(built, built, random_choice(built, 1))
    seen: Mapping[int, Scene] = dict(enumerate(scenes(stage, episodes=2)))
    assert [each.turn for each in seen.values()] == [*range(8), *range(8)]
    steps = [abs(a.row - b.row).max() + abs(a.column - b.column).max() for a, b in pairwise(list(seen.values())[:8])]
    assert max(steps) <= 2  # nobody jumps: the last scene is that of the end, not of the next start


def test_same_seed_gives_the_same_pictures() -> None:
    films = []
    for _ in range(2):
        built = world("cleanup", max_turns=5)
        films.append([painter(built).paint(each) for each in scenes(Stage(built, built, random_choice(built, 3)))])
    assert all(np.array_equal(a, b) for a, b in zip(*films, strict=True))
