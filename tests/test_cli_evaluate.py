"""`keisei evaluate` as its user meets it: matches of checkpoints, and one clear line where there can be none."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from commands import keisei
from keisei.checkpoint import folder_of
from keisei.cli import app
from keisei.errors import CheckpointError, ConfigError, KeiseiError, RunError
from tiny_runs import SHOGI, STEPS, final_sha256

NUMBERS = ("games", "wins", "draws", "losses", "score", "elo", "elo_low", "elo_high")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of tic-tac-toe with checkpoints 0, 4 and 8. Nobody changes it."""
    folder = tmp_path_factory.mktemp("evaluated") / "run"
    overrides = "environment.options={}", "run.checkpoint_interval=4", "evaluation.opening_plies=2"
    final_sha256(folder, f"run.total_steps={8 * STEPS}", *overrides)
    return folder


def evaluate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def match(*arguments: object) -> dict[str, object]:
    done = evaluate(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def refusal(*arguments: object) -> KeiseiError:
    done = evaluate(*arguments)
    assert isinstance(done.exception, KeiseiError), done.output
    assert done.stdout == ""
    assert "\n" not in str(done.exception)
    return done.exception


def test_match_is_said_in_one_line_of_json(run: Path) -> None:
    found = match(run, "--games", 30)
    assert found["games"] == 30
    counts = [found[name] for name in ("wins", "draws", "losses")]
    assert all(isinstance(count, int) for count in counts)
    assert sum(counts) == 30  # type: ignore[arg-type]
    wins, draws, _ = counts
    assert found["score"] == pytest.approx((wins + draws / 2) / 30)  # type: ignore[operator]
    low, elo, high = (float(str(found[name])) for name in ("elo_low", "elo", "elo_high"))
    assert low <= elo <= high
    assert all(math.isfinite(float(str(found[name]))) for name in NUMBERS)


def test_match_is_said_in_words(run: Path) -> None:
    text = evaluate(run, "--games", 10).stdout
    assert f"{folder_of(run, 8)} against random\n10 games: " in text
    assert "games ended by three" in text


def test_same_seed_plays_the_same_match_and_another_seed_another_one(run: Path) -> None:
    first = match(run, "--games", 40, "--seed", 1)
    assert match(run, "--games", 40, "--seed", 1) == first
    assert match(run, "--games", 40, "--seed", 2) != first


def test_run_stands_for_its_newest_checkpoint(run: Path) -> None:
    newest = match(folder_of(run, 8), "--games", 20)
    assert match(run, "--games", 20) == newest
    assert newest["challenger"] == str(folder_of(run, 8))
    assert match(folder_of(run, 4), "--games", 20)["challenger"] == str(folder_of(run, 4))


def test_checkpoint_plays_against_another_one(run: Path) -> None:
    older = folder_of(run, 0)
    assert match(run, "--against", older, "--games", 20)["against"] == str(older)
    assert match(run, "--against", run, "--games", 20)["against"] == str(folder_of(run, 8))


def test_greedy_play_is_another_match(run: Path) -> None:
    sampled, greedy = (match(run, "--games", 40, "--play", play) for play in ("sample", "greedy"))
    assert sampled != greedy


def test_sequential_test_stops_early(run: Path) -> None:
    found = match(run, "--games", 5000, "--sprt", -400, -300)
    assert isinstance(found["games"], int)
    assert found["games"] < 5000
    assert found["sprt"]["decision"] == "H1"  # type: ignore[index]


def test_shogi_is_played_against_greed(tmp_path: Path) -> None:
    final_sha256(tmp_path / "run", f"run.total_steps={STEPS}", base=SHOGI)
    assert match(tmp_path / "run", "--against", "greedy", "--games", 2)["games"] == 2


def test_damaged_newest_checkpoint_is_said_and_the_older_one_plays(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    (folder_of(copy, 8) / "weights.safetensors").write_bytes(b"")
    done = evaluate(copy, "--games", 2, "--json")
    assert json.loads(done.stdout)["challenger"] == str(folder_of(copy, 4))
    assert "a damaged checkpoint is refused" in done.stderr
    assert "weights.safetensors has 0 bytes" in done.stderr


# --- refusals --------------------------------------------------------------------------------------------------------


def test_error_is_one_line_and_a_status(tmp_path: Path) -> None:
    assert keisei(tmp_path, "evaluate", "absent").refusal == "there is neither a run nor a checkpoint in absent"


def test_who_is_absent_does_not_play(run: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path,), (tmp_path / "absent",), (run, "--against", "past"), (run, "--against", tmp_path)):
        assert isinstance(refusal(*arguments), RunError)
    expected = "--against must be random, greedy, or the folder of a run or checkpoint, not 'past'"
    assert str(refusal(run, "--against", "past")) == expected


def test_damaged_checkpoint_does_not_play(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder_of(run, 8), tmp_path / "copy"))
    data = bytearray((copy / "optimizer.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "optimizer.safetensors").write_bytes(data)
    assert isinstance(refusal(copy), CheckpointError)
    assert isinstance(refusal(run, "--against", copy), CheckpointError)


def test_checkpoints_of_different_games_do_not_play(run: Path, tmp_path: Path) -> None:
    final_sha256(tmp_path / "shogi", f"run.total_steps={STEPS}", base=SHOGI)
    assert "plays another game than" in str(refusal(run, "--against", tmp_path / "shogi"))


def test_game_of_one_seat_has_no_matches(tmp_path: Path) -> None:
    environment = "environment={name: gymnasium, id: CartPole-v1, copies: 4}"
    final_sha256(tmp_path / "run", f"run.total_steps={STEPS}", environment)
    assert "a match needs a game whose two seats take turns" in str(refusal(tmp_path / "run"))


def test_game_that_knows_no_greed_says_so(run: Path) -> None:
    assert "there is no greedy opponent" in str(refusal(run, "--against", "greedy"))


def test_unknown_way_to_play_is_refused(run: Path) -> None:
    assert isinstance(refusal(run, "--play", "badly"), ConfigError)
