"""Whole runs of environments of others, as a user starts them: `keisei train` with real worker processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from commands import keisei, start, train
from keisei.config import load_run
from tiny_runs import TIC_TAC_TOE, Sections, events, records, summary

EXAMPLES = Path(__file__).parent.parent / "examples"
WORKERS = ("parallel.enabled=true", "parallel.num_workers=2")
CARTPOLE: Sections = {
    **TIC_TAC_TOE,
    "run": {"seed": 3, "total_steps": 96, "checkpoint_interval": 100},
    "environment": {"name": "gymnasium", "id": "CartPole-v1", "copies": 4},
    "parallel": {"enabled": False, "block_size": 2, "rollout_length": 12},
}
ROCK_PAPER_SCISSORS: Sections = {
    **CARTPOLE,
    "environment": {"name": "pettingzoo", "id": "my_games:duel", "copies": 4, "options": {"rounds": 3}},
}
MY_GAMES = '''
import numpy as np
from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv


class Duel(ParallelEnv):
    """Rock, paper, scissors, between two who decide at once."""

    def __init__(self, rounds):
        self.possible_agents = ["one", "other"]
        self.rounds = rounds

    def observation_space(self, agent):
        return Discrete(4)

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.played = list(self.possible_agents), 0
        return dict.fromkeys(self.agents, 3), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.played += 1
        reward = (actions["one"] - actions["other"] + 1) % 3 - 1
        seen = {"one": actions["other"], "other": actions["one"]}
        over = dict.fromkeys(self.agents, self.played == self.rounds)
        infos = {agent: {} for agent in self.agents}
        if self.played == self.rounds:
            self.agents = []
        return seen, {"one": reward, "other": -reward}, over, dict.fromkeys(over, False), infos


def duel(rounds):
    return Duel(rounds)
'''


@pytest.mark.parametrize(("base", "lanes"), [(CARTPOLE, 4), (ROCK_PAPER_SCISSORS, 8)], ids=["cart", "duel"])
def test_run_with_workers_ends_with_the_weights_of_one_process(tmp_path: Path, base: Sections, lanes: int) -> None:
    found = []
    for name, overrides in (("alone", ()), ("workers", WORKERS)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "my_games.py").write_text(MY_GAMES, encoding="utf-8")
        found.append(train(folder, *overrides, base=base).json)
        run = folder / "run"
        assert summary(run)["steps"] == 96
        assert len(records(run)) == 96 // (lanes * 12)
        said = [text for kind in ("mode", "alarm") for text in events(run, kind)]
        assert any("a resumed run begins new games" in text for text in said)
        assert sum("each block stays with its worker" in text for text in said) == (name == "workers")
    assert found[0]["weights_sha256"] == found[1]["weights_sha256"]
    assert found[0]["games"] == found[1]["games"]


def test_game_of_pettingzoos_own_is_learnt_and_evaluated(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    base: Sections = {
        **CARTPOLE,
        "environment": {"name": "pettingzoo", "id": "classic/tictactoe_v3", "copies": 4},
        "evaluation": {"interval": 0, "final_games": 6, "opening_plies": 2},
    }
    assert train(tmp_path, *WORKERS, base=base).json["steps"] == 96
    last = records(tmp_path / "run")[-1]
    assert 0 <= float(str(last["evaluate/random/score"])) <= 1
    assert {"collect/wins/player_1", "collect/wins/player_2"} <= last.keys() | records(tmp_path / "run")[0].keys()
    match = keisei(tmp_path, "evaluate", "run", "--games", 4, "--json").json
    assert match["games"] == 4


def test_page_about_them_says_what_is() -> None:
    text = (EXAMPLES.parent / "docs" / "foreign-environments.md").read_text(encoding="utf-8")
    (command,), configurations, (code,) = (
        re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for kind in ("sh", "yaml", "python")
    )
    assert EXAMPLES.parent.joinpath(command.split()[2]).is_file()
    for configuration in configurations:
        (key,) = yaml.safe_load(configuration).items()
        assert load_run(None, [f"{key[0]}={json.dumps(key[1])}", "parallel.block_size=16"]).environment.copies == 16
    exec(code, {})


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    of = yaml.safe_load(path.read_text(encoding="utf-8"))
    steps = 2 * of["environment"]["copies"] * of["parallel"]["rollout_length"]
    overrides = (f"run.total_steps={steps}", "parallel.enabled=false", "evaluation.final_games=0")
    words = ("train", path, *overrides, "--run-dir", tmp_path / "run", "--json")
    output, errors = tmp_path / "out.txt", tmp_path / "err.txt"  # not in the project's own folder
    assert start(EXAMPLES.parent, *words, output=output, errors=errors).wait().json["iterations"] == 2


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"id": "CartPole-v99"}, "'environment.id' must name an environment of Gymnasium, not 'CartPole-v99': "),
        ({"id": "Blackjack-v1", "options": {"cards": 2}}, "'environment.options' do not fit 'Blackjack-v1': "),
        ({"id": "Pendulum-v1"}, "action_space: expected Discrete, found Box(-2.0, 2.0, (1,), float32)"),
        (
            {"name": "pettingzoo", "id": "classic/go_v1"},
            "'environment.id' must name an environment of PettingZoo, not ",
        ),
        (
            {"name": "pettingzoo", "id": "sisl/multiwalker_v9"},
            "'environment.id' must name an environment of PettingZoo, not 'sisl/multiwalker_v9': Failed to import",
        ),
        (
            {"name": "pettingzoo", "id": "my_games:duel", "options": {}},
            "'environment.options' do not fit 'my_games:duel'",
        ),
        ({"name": "pettingzoo", "id": "my_games:duel", "api": "turns"}, "'environment.api' in config.yaml must be one"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_input_is_one_line(tmp_path: Path, change: dict[str, object], line: str) -> None:
    (tmp_path / "my_games.py").write_text(MY_GAMES, encoding="utf-8")
    sections = {**CARTPOLE, "environment": {**CARTPOLE["environment"], **change}}
    (tmp_path / "config.yaml").write_text(json.dumps(sections), encoding="utf-8")
    done = keisei(tmp_path, "train", "config.yaml", "--run-dir", "run")
    assert done.refusal.startswith(line)
