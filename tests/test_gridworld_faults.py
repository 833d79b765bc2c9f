"""A world that breaks a rule of the engine gets one line that names function, agent, cell and turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from keisei.errors import ConfigError, WorldError
from keisei.gridworld import GridworldEnvironment, load_world
from small_worlds import Player, write_world

ACT = "def act(place, agent, action):\n    walk(place, agent, action)\n    if place.turn == 2 and agent == 1:\n        "
FAULTS = {  # what agent 1 does in turn 2, and what is said of it
    "off the map": ("place.row[agent] = 17", "the agent is off the map", r"\(17, \d\)"),
    "beside itself": ("place.column[agent] += 1", "row and column do not say where it stands", r"\(\d, \d\)"),
    "under another": ("place.cells[0, place.row[agent], place.column[agent]] = 0", "do not say where", r"\(\d, \d\)"),
    "NaN": ("pay(place, agent, np.nan)", "the reward is not a finite number", r"\(\d, \d\)"),
    "infinite": ("place.paid[agent] = -np.inf", "the reward is not a finite number", r"\(\d, \d\)"),
    "no kind": ("put(place, 0, 2, 3, 77)", "there is no such kind as the one written there", r"\(2, 3\)"),
    "no cell": ("put(place, 0, 5, 3, 1)", "there is no such cell or layer to write to", r"\(5, 3\)"),
    "no layer": ("put(place, 1, 2, 3, 1)", "there is no such cell or layer to write to", r"\(2, 3\)"),
    "index": ("place.cells[0, 50, 3] = 1", "[Ii]ndex", r"\(\d, \d\)"),
    "division": ("place.count = place.count // place.count", "zero", r"\(\d, \d\)"),
}


def played(path: Path, *, debug: bool) -> None:
    player = Player(GridworldEnvironment(str(path), debug=debug, copies=3))
    for _ in range(3):
        player.play_all(2)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_an_action_is_named(tmp_path: Path, name: str) -> None:
    code, said, cell = FAULTS[name]
    path = write_world(tmp_path, ACT + code + "\n")
    with pytest.raises(WorldError, match=rf"^small: .*{said}.*, in act\(\), agent 1, cell {cell}, turn 2, world 0$"):
        played(path, debug=True)


COMPILED = """
def act(place, agent, action):
    walk(place, agent, action)
    if place.turn == 2 and agent == 1 and place.world == 1:
        if place.level == 1.0:
            place.row[agent] = 17
        elif place.level == 2.0:
            pay(place, agent, np.nan)
        elif place.level == 3.0:
            place.cells[0, 50, 3] = 1
        elif place.level == 4.0:
            place.count = place.count // place.count
        elif place.level == 5.0:
            put(place, 0, 2, 3, 77)
        else:
            place.cells[0, 2, 3] = 99
"""


def test_compiled_worlds_name_their_faults_as_plain_ones(tmp_path: Path) -> None:
    path = str(write_world(tmp_path, COMPILED, name="compiled"))
    said = {}
    for debug in (False, True):
        for level in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
            player = Player(GridworldEnvironment(path, debug=debug, copies=3, numbers={"level": level}))
            player.play_all(2)
            player.play_all(2)
            with pytest.raises(WorldError, match=r"turn [23], world 1$") as caught:
                player.play_all(2)
            said[debug, level] = str(caught.value)
    for level in (1.0, 2.0, 5.0, 6.0):
        assert said[False, level] == said[True, level]
    for level in (3.0, 4.0):
        assert said[False, level].partition(", in ")[2] == said[True, level].partition(", in ")[2]
    assert "in act(), agent 1, cell (17, " in said[False, 1.0]
    assert "no such kind" in said[False, 6.0]
    assert "cell (2, 3)" in said[False, 6.0]


OTHERS = {  # code, more arguments of World, what is said
    "no room": (
        "def lay_out(place):\n    place.cells[:] = 1\n", "",
        r"there is no empty cell left for an agent to start on, in the engine, cell \(0, 0\), turn 0",
    ),
    "lay_out": ("def lay_out(place):\n    put(place, 0, 9, 9, 1)\n", "", r"in lay_out\(\), cell \(9, 9\), turn 0"),
    "change": (
        "def change(place):\n    if place.turn:\n        place.cells[0, 1, 2] = 9\n", "change=change",
        r"no such kind .*, in change\(\), cell \(1, 2\), turn 1",
    ),
    "after": (
        "def after(place):\n    pay(place, 0, np.inf)\n", "after=after",
        r"not a finite number, in after\(\), agent 0, cell \(\d, \d\), turn 0",
    ),
    "paid in after": (
        "def after(place):\n    place.paid[1] = np.nan\n", "after=after",
        r"not a finite number, in after\(\), agent 1, cell \(\d, \d\), turn 0",
    ),
    "moved in change": (
        "def change(place):\n    place.row[1] = -1\n", "change=change",
        r"the agent is off the map, in change\(\), agent 1, cell \(-1, \d\), turn 0",
    ),
    "moved by another": (
        "def act(place, agent, action):\n    place.row[0] = -1\n", "",
        r"the agent is off the map, in act\(\), agent 0, cell \(-1, \d\), turn 0",
    ),
    "allowed": (
        "def allowed(place, agent, action):\n    return place.turn < 1 or agent == 0\n", "allowed=allowed",
        r"the agent decides, but no action is allowed, in allowed\(\), agent 1, cell \(\d, \d\), turn 1",
    ),
    "sense": (
        "def sense(place, agent, which):\n    return 255 + agent * place.turn\n",
        'sense=sense, senses=(Sense("much"),)',
        r"what the agent feels is not in 0..255, in sense\(\), agent 1, cell \(\d, \d\), turn 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_fault_of_another_function_is_named(tmp_path: Path, name: str) -> None:
    code, more, said = OTHERS[name]
    with pytest.raises(WorldError, match=rf"^small: .*{said}, world 0$"):
        played(write_world(tmp_path, code, more), debug=True)


FILES = {  # changes of the file, and what is said
    "dtype": ("array(np.int32,", "array(np.complex128,", "'seen' must be an array of numbers, found complex128"),
    "object": ("array(np.int32,", "array(np.object_,", "'seen' must be an array of numbers, found object"),
    "size": ('"agents", 2)', '"agents", 0)', r"'seen' must be an array of numbers, found int32 \[2, 0\]"),
    "twice": ("count: int", "turn: int", "'turn' is declared twice, or is a name of the engine's own"),
    "agent": ('agent="agent"', 'agent="nobody"', "agent must be one of the kinds after the first, not 'nobody'"),
    "layer": ("lay_out=lay_out", 'lay_out=lay_out, stand_in="sky"', "there is no layer 'sky' among things"),
    "kinds": ('Kind("wall"', 'Kind("nothing"', "kinds must be 1 to 255 different names"),
    "syntax": ("def lay_out(place):", "def lay_out(place:", "cannot be read: SyntaxError"),
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_describes_no_world_is_refused(tmp_path: Path, name: str) -> None:
    before, after, said = FILES[name]
    path = write_world(tmp_path)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(WorldError, match=said):
        GridworldEnvironment(str(path), debug=True)


def test_file_without_a_world_or_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    path.write_text("WORLD = 3\n")
    with pytest.raises(ConfigError, match=r"none.py must say WORLD = World"):
        load_world(str(path))
    with pytest.raises(ConfigError, match=r"there is no world 'nowhere.py': expected treasure_hunt, "):
        load_world("nowhere.py")


def test_what_cannot_be_compiled_is_said_in_one_line_with_its_place(tmp_path: Path) -> None:
    code = "def act(place, agent, action):\n    place.count = place.cells + 'text'\n"
    path = write_world(tmp_path, code, name="typed")
    with pytest.raises(WorldError, match=r"^typed cannot be compiled: .* in .*typed.py, line \d+$") as caught:
        GridworldEnvironment(str(path))
    assert "\n" not in str(caught.value)
