"""Many games at once: what is seen and how games end, against the slow reference and in every form alike."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

import reference_encoding as encoding
import reference_shogi as reference
from keisei import make
from keisei.environment import Array, Environment, Legal, new_observation
from keisei.errors import ConfigError, KeiseiError, NotationError
from keisei.shogi import Board, ShogiEnvironment
from keisei.shogi.actions import expand, usi_to_action
from shogi_table import ACTIONS, Table

OBSERVATIONS = ["uint8", "float32", "packed"]
LEGALS = ["list", "mask", "bits"]
FORMS = list(itertools.product(OBSERVATIONS, LEGALS))
MOST_MOVES = "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1"
MATSURI = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"
ROOK = "2k6/9/KR7/9/9/9/9/9/9 b - 1"
FULL_HANDS = "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1"
MATE_IN_ONE = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
DECLARABLE = "2GK1+L3/2+P+S+R1G+N1/3+B1GG2/9/9/9/9/k8/9 w RB 1"
OPENINGS = ("startpos", MATSURI, ROOK, FULL_HANDS, "two_piece")
BACK_AND_FORTH = ["2h3h", "8b7b", "3h2h", "7b8b"]


# --- what it is


def test_it_keeps_the_contract_of_an_environment() -> None:
    environment = make("shogi", copies=5, seed=3)
    assert isinstance(environment, Environment)
    assert isinstance(environment, ShogiEnvironment)
    assert (environment.copies, environment.lanes, environment.seats) == (5, 5, ("black", "white"))
    assert environment.reasons == (
        "", "checkmate", "stalemate", "sennichite", "perpetual_check", "declaration", "move_limit",
    )  # fmt: skip
    environment.close()
    environment.close()


@pytest.mark.parametrize(("observation", "legal"), FORMS)
def test_group_tells_the_form_of_its_arrays(observation: str, legal: str) -> None:
    (group,) = make("shogi", copies=3, observation=observation, legal=legal).groups
    shape, dtype = ((99,), "uint8") if observation == "packed" else ((46, 9, 9), observation)
    assert (group.shape, group.dtype, group.legal) == (shape, np.dtype(dtype), legal)
    assert (group.actions, group.most_legal) == (ACTIONS, 593)
    assert group.lanes.tolist() == [0, 1, 2]


def test_a_game_is_saved_in_eight_kilobytes() -> None:
    assert 0 < make("shogi", copies=1).state_bytes <= 8192


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"copies": 0}, "copies"), ({"copies": -1}, "copies"), ({"threads": 0}, "threads"),
        ({"observation": "float64"}, "observation"), ({"legal": "set"}, "legal"),
        ({"declaration": "28"}, "declaration"),
        ({"move_limit": 0}, "move_limit"), ({"random_plies": -1}, "random_plies"), ({"first_lane": -1}, "first_lane"),
        ({"openings": ()}, "openings"), ({"openings": ("nonsense",)}, "nonsense"), ({"opening": ()}, "opening"),
    ],
)  # fmt: skip
def test_impossible_option_is_refused_by_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named) as caught:
        make("shogi", **{"copies": 2, **options})
    assert isinstance(caught.value, KeiseiError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"copies": "2"}, "copies: expected a whole number from 1 to 16777216, found '2'"),
        ({"threads": 1.0}, "threads: expected a whole number from 1 to 1024, found 1.0"),
        ({"seed": None}, "seed: expected a whole number from 0 to 18446744073709551615, found None"),
        ({"observation": "planes"}, "observation: expected one of packed, uint8, float32, found 'planes'"),
        ({"legal": "set"}, "legal: expected one of list, mask, bits, found 'set'"),
        ({"random_plies": 9, "move_limit": 9}, "random_plies: expected a whole number from 0 to 8, found 9"),
    ],
)
def test_impossible_argument_is_refused_without_a_configuration(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        ShogiEnvironment(**options)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("text", ["4x4/9/9/9/9/9/9/9/4K4 b - 1", "twelve_piece", 7])
def test_opening_that_is_no_position_is_refused_with_its_number(text: str) -> None:
    with pytest.raises(NotationError, match=rf"^openings: number 1: .*{str(text)[:3]}"):
        ShogiEnvironment(openings=("startpos", text))


def test_opening_in_which_the_game_is_over_is_refused() -> None:
    # Not said in the design; a lane that starts without a legal action could not go on.
    for over in ("4k4/4G4/4P4/9/9/9/9/9/4K4 w - 1", DECLARABLE.replace(" w ", " b ")):
        with pytest.raises(ConfigError):
            make("shogi", copies=1, openings=("startpos", over))


# --- observations and legal actions


@pytest.mark.parametrize(("observation", "legal"), [("uint8", "list"), ("float32", "mask"), ("packed", "bits")])
def test_games_are_seen_and_end_as_the_slow_reference_says(observation: str, legal: str) -> None:
    table = Table(5, seed=11, observation=observation, legal=legal, openings=OPENINGS, move_limit=30)
    games = [started(table, lane) for lane in range(5)]
    for _ in range(45):
        for lane, game in enumerate(games):
            assert table.values[lane].tobytes() == encoded(game, observation).tobytes()
            assert table.legal(lane) == encoding.legal_actions(game.position)
            assert table.turn(lane) == game.position.turn
            assert table.environment.sfen(lane) == game.sfen()
        actions = table.play_at_random()
        for lane, game in enumerate(games):
            mover = game.position.turn
            game.push(reference.to_usi(encoding.action_move(actions[lane], mover)))
            check_outcome(table, lane, game, mover)
            if table.outcome.ended[lane]:
                assert table.outcome.final[0][lane].tobytes() == encoded(game, observation).tobytes()
                games[lane] = started(table, lane)


def encoded(game: reference.Game, form: str) -> Array:
    if form == "packed":
        return encoding.packed(game)
    return encoding.float_planes(game) if form == "float32" else encoding.planes(game)


def started(table: Table, lane: int) -> reference.Game:
    return reference.Game(
        table.environment.sfen(lane), move_limit=30, handicap="/9/ppp" in table.environment.sfen(lane)
    )


def check_outcome(table: Table, lane: int, game: reference.Game, mover: reference.Side) -> None:
    """The arrays of one lane against the outcome that the reference gives, said from the mover's side."""
    winner, reason = game.outcome() or (None, "")
    step = table.outcome
    assert table.environment.reasons[step.reason[lane]] == reason
    assert step.reward[lane] == (0 if winner is None else 1 if winner == mover else -1)
    assert step.discount[lane] == (-1 if reason in ("", "move_limit") else 0)
    assert step.ended[lane] == (reason != "")
    assert step.cut_off[lane] == (reason == "move_limit")
    assert step.length[lane] == (game.plies if reason else 0)


def test_all_forms_agree_exactly() -> None:
    tables = {
        form: Table(8, seed=4, observation=form[0], legal=form[1], openings=OPENINGS, move_limit=70) for form in FORMS
    }
    for _ in range(150):
        planes = tables["uint8", "list"].values
        mask = tables["uint8", "mask"].observation[0].legal.actions
        for (observation, legal), table in tables.items():
            check_same_planes(table.values, planes, observation, 70)
            check_same_legal(table.observation[0].legal, mask, legal)
        finals = tables["uint8", "list"].outcome.final[0]
        ended = tables["uint8", "list"].outcome.ended
        for (observation, _), table in tables.items():
            assert np.array_equal(table.outcome.ended, ended)
            check_same_planes(table.outcome.final[0][ended], finals[ended], observation, 70)
        for table in tables.values():
            table.play_at_random()


def check_same_planes(values: Array, planes: Array, form: str, limit: int) -> None:
    if form == "uint8":
        assert np.array_equal(values, planes)
    elif form == "float32":
        assert np.array_equal(values, planes.astype(np.float32) * encoding.scale()[:, None, None])
    else:
        packed = values.astype(np.uint8)
        assert np.array_equal(expand(packed, limit, np.uint8), planes)
        expected = planes.astype(np.float32) * encoding.scale()[:, None, None]
        assert np.array_equal(expand(packed, limit, np.float32), expected)


def check_same_legal(legal: Legal, mask: Array, form: str) -> None:
    if form == "mask":
        assert np.array_equal(legal.actions, mask)
    elif form == "bits":
        assert np.array_equal(legal.actions, np.packbits(mask.astype(np.uint8), axis=1, bitorder="little"))
    else:
        assert legal.offsets[0] == 0
        rows = np.repeat(np.arange(len(mask)), np.diff(legal.offsets))
        from_lists = np.zeros(mask.shape, np.uint8)
        named = legal.actions[: legal.offsets[-1]].astype(np.int64)
        np.add.at(from_lists, (rows, named), 1)  # an action named twice would be a 2
        assert np.array_equal(from_lists, mask)


@pytest.mark.parametrize("legal", LEGALS)
def test_all_593_moves_are_told(legal: str) -> None:
    table = Table(4, legal=legal, openings=(MOST_MOVES,))
    expected = encoding.legal_actions(reference.parse_sfen(MOST_MOVES)[0])
    assert len(expected) == 593
    for lane in range(4):
        assert table.legal(lane) == expected
    if legal == "mask":
        assert np.array_equal(
            table.observation[0].legal.actions[2], encoding.legal_mask(reference.parse_sfen(MOST_MOVES)[0])
        )
    if legal == "bits":
        assert np.array_equal(
            table.observation[0].legal.actions[2], encoding.legal_bits(reference.parse_sfen(MOST_MOVES)[0])
        )


def test_environment_and_board_see_the_same() -> None:
    table = Table(4, seed=9, observation="packed")
    boards = [Board() for _ in range(4)]
    for _ in range(120):
        for lane, action in enumerate(table.play_at_random()):
            moves = {usi_to_action(usi, boards[lane].turn): usi for usi in boards[lane].legal_moves()}
            boards[lane].push(moves[action])
            assert boards[lane].outcome() is None or table.outcome.ended[lane]
            if table.outcome.ended[lane]:
                assert table.outcome.final[0][lane].tobytes() == boards[lane].observation("packed").tobytes()
                boards[lane] = Board()
            assert table.values[lane].tobytes() == boards[lane].observation("packed").tobytes()
            assert table.legal(lane) == sorted(boards[lane].legal_actions().tolist())


def test_observing_again_writes_the_same_and_changes_nothing() -> None:
    table = Table(6, seed=2)
    for _ in range(10):
        table.play_at_random()
    before = table.saved()
    again = new_observation(table.environment)
    table.environment.observe(again)
    assert np.array_equal(again[0].values, table.values)
    assert np.array_equal(again[0].legal.offsets, table.observation[0].legal.offsets)
    most = table.observation[0].legal.offsets[-1]
    assert np.array_equal(again[0].legal.actions[:most], table.observation[0].legal.actions[:most])
    assert np.array_equal(again[0].seat, table.observation[0].seat)
    assert np.array_equal(table.saved(), before)


# --- how games end


@dataclass(frozen=True)
class Ending:
    name: str
    sfen: str
    moves: Sequence[str]
    reason: str
    reward: float  # of the seat that made the last move
    options: dict[str, object] = field(default_factory=dict)


CHECKS = ["8c7c", "7a8a", "7c8c", "8a7a"] * 3
ENDINGS = [
    Ending("mate", MATE_IN_ONE, ["G*5b"], "checkmate", 1),
    Ending("mate by White", "4k4/9/9/9/9/9/4p4/9/4K4 w g 1", ["G*5h"], "checkmate", 1),
    Ending("mate on the last ply", MATE_IN_ONE, ["G*5b"], "checkmate", 1, {"move_limit": 1}),
    Ending("stalemate", "8k/9/6N2/7G1/9/9/9/9/K8 b - 1", ["2d2c"], "stalemate", 1),
    Ending("fourth occurrence", "startpos", BACK_AND_FORTH * 3, "sennichite", 0),
    Ending("fourth occurrence on the last ply", "startpos", BACK_AND_FORTH * 3, "sennichite", 0, {"move_limit": 12}),
    Ending("perpetual check, the other side moved last", ROOK, CHECKS, "perpetual_check", 1),
    Ending(
        "perpetual check, the checking side moved last", "2k6/9/K1R6/9/9/9/9/9/9 w - 1",
        ["7a8a", "7c8c", "8a7a", "8c7c"] * 3, "perpetual_check", -1,
    ),
    Ending("declaration of the other side", DECLARABLE, ["9h9i"], "declaration", -1),
    Ending("declaration on the last ply", DECLARABLE, ["9h9i"], "declaration", -1, {"move_limit": 1}),
    Ending("28 points are a draw by 24", DECLARABLE, ["9h9i"], "declaration", 0, {"declaration": "24"}),
    Ending("31 points win by 24", DECLARABLE.replace("RB", "RB3P"), ["9h9i"], "declaration", -1, {"declaration": "24"}),
    Ending("nobody declares", DECLARABLE, ["9h9i"], "move_limit", 0, {"declaration": "none", "move_limit": 1}),
    Ending("move limit", "startpos", ["7g7f", "3c3d", "2g2f"], "move_limit", 0, {"move_limit": 3}),
    Ending("move limit, White moved last", "startpos", ["7g7f", "3c3d"], "move_limit", 0, {"move_limit": 2}),
    Ending("declaration in a handicap", "ten_piece", reference.TEN_PIECE_GAME.split(), "declaration", -1),
]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.name)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_ending_is_told_to_the_seat_that_moved(ending: Ending, observation: str) -> None:
    table = Table(1, openings=(ending.sfen,), observation=observation, **ending.options)
    start = table.environment.sfen(0)
    first_seen = table.values.copy()
    game = reference.Game(start, move_limit=int(str(ending.options.get("move_limit", 512))))
    for usi in ending.moves[:-1]:
        table.play_usi(usi)
        game.push(usi)
        assert told_outcome(table) == ("", 0, -1, False, False, 0)
    table.play_usi(ending.moves[-1])
    game.push(ending.moves[-1])
    cut_off = ending.reason == "move_limit"
    assert told_outcome(table) == (ending.reason, ending.reward, -1 if cut_off else 0, True, cut_off, len(ending.moves))
    assert np.array_equal(table.outcome.final[0][0], encoded(game, observation))
    assert table.environment.sfen(0) == start
    assert np.array_equal(table.values, first_seen)


def told_outcome(table: Table) -> tuple[str, float, float, bool, bool, int]:
    step = table.outcome
    return (
        table.environment.reasons[step.reason[0]], float(step.reward[0]), float(step.discount[0]), bool(step.ended[0]),
        bool(step.cut_off[0]), int(step.length[0]),
    )  # fmt: skip


def test_finished_game_starts_again_without_a_trace_of_the_last() -> None:
    table = Table(1, openings=("startpos",))
    for _ in range(3):
        for number, usi in enumerate(BACK_AND_FORTH * 3):
            assert np.unique(table.values[0, 44]).tolist() == [number // 4]
            table.play_usi(usi)
        assert table.outcome.ended.tolist() == [True]
        assert np.array_equal(table.values[0], encoding.planes(reference.Game()))
