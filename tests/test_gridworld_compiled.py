"""What is compiled is kept: under a key of file, engine and Numba, and by one process at a time. Real processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

from keisei.gridworld.compiled import CACHE_VARIABLE, cache_folder, engine_digest
from small_worlds import write_world

PLAYER = """
import sys
from small_worlds import Player
from keisei.gridworld import GridworldEnvironment
for agents in map(int, sys.argv[2:]):
    player = Player(GridworldEnvironment(sys.argv[1], copies=2, numbers={"agents": agents}))
    print(player.play_all(0).reward.tolist(), flush=True)
"""
PAYS = "def act(place, agent, action):\n    pay(place, agent, {})\n"
COMPILING, COMPILED = "compiling pays: once", "compiled pays in"


def player(path: Path, cache: Path, *agents: int) -> subprocess.Popen[str]:
    """A process that plays one turn of a world and says what it paid; for each of these numbers of agents."""
    environment = {**os.environ, CACHE_VARIABLE: str(cache), "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", PLAYER, str(path), *map(str, agents or [2])]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    return out.strip(), said


def test_one_process_compiles_and_the_others_wait_also_after_an_edit(tmp_path: Path) -> None:
    cache, path = tmp_path / "cache", write_world(tmp_path, PAYS.format(3), name="pays")
    together = [finished(one) for one in [player(path, cache) for _ in range(3)]]
    assert [out for out, _ in together] == ["[3.0, 3.0, 3.0, 3.0]"] * 3
    assert sum(said.count(COMPILING) for _, said in together) == 1
    assert sum(said.count(COMPILED) for _, said in together) == 1
    assert finished(player(path, cache)) == ("[3.0, 3.0, 3.0, 3.0]", "")
    write_world(tmp_path, PAYS.format(4), name="pays")
    edited = [finished(one) for one in [player(path, cache) for _ in range(2)]]
    assert [out for out, _ in edited] == ["[4.0, 4.0, 4.0, 4.0]"] * 2
    assert sum(said.count(COMPILING) for _, said in edited) == 1
    write_world(tmp_path, PAYS.format(3), name="pays")  # what was compiled before is still there
    assert finished(player(path, cache)) == ("[3.0, 3.0, 3.0, 3.0]", "")


def test_layouts_compiled_by_different_processes_do_not_meet_in_a_third(tmp_path: Path) -> None:
    cache, path = tmp_path / "cache", write_world(tmp_path, PAYS.format("1 + agent"), name="pays")
    paid = {agents: [1.0 + agent for _ in range(2) for agent in range(agents)] for agents in (2, 7)}
    for agents in (2, 7):
        assert finished(player(path, cache, agents))[0] == str(paid[agents])
    for order in ((2, 7, 2), (7, 2, 7)):
        out, said = finished(player(path, cache, *order))
        assert out.splitlines() == [str(paid[agents]) for agents in order]
        assert said == ""


@pytest.mark.slow
def test_who_is_killed_while_compiling_leaves_nothing_that_others_wait_for(tmp_path: Path) -> None:
    cache, path = tmp_path / "cache", write_world(tmp_path, PAYS.format(3), name="pays")
    first = player(path, cache)
    assert first.stderr is not None
    assert COMPILING in first.stderr.readline()
    time.sleep(2)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    out, said = finished(player(path, cache))
    assert out == "[3.0, 3.0, 3.0, 3.0]"
    assert said.count(COMPILING) == said.count(COMPILED) == 1


def test_who_waits_does_not_compile(tmp_path: Path) -> None:
    """While somebody holds the lock, another process says nothing and does not end; it goes on when it is free."""
    cache, path = (
        tmp_path / "cache",
        write_world(tmp_path, "def act(place, agent, action):\n    no(place)\n", name="no"),
    )
    assert "no cannot be compiled" in player(path, cache).communicate(timeout=240)[1]
    (lock,) = (cache / "worlds").glob("no-*.lock")
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = player(path, cache)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.communicate(timeout=4)
    _, said = waiting.communicate(timeout=240)
    assert said.count("compiling no: once") == 1
    assert "no cannot be compiled" in said


RUN = """
run: {{seed: 1, total_steps: 120, checkpoint_interval: 1000}}
environment: {{name: gridworld, world: {world}, copies: 4}}
network: {{kind: mlp, depth: 1, width: 8, policy: dense}}
learner: {{kind: dqn, layer: 8, batch_size: 8}}
parallel: {{block_size: 2, num_workers: 2, parallel_actions: stacked, parallel_training: looped}}
evaluation: {{interval: 0, final_games: 0}}
"""


def test_a_run_compiles_before_its_workers_start(tmp_path: Path) -> None:
    path, config = write_world(tmp_path, PAYS.format(3), name="pays"), tmp_path / "run.yaml"
    config.write_text(RUN.format(world=path))
    environment = {**os.environ, CACHE_VARIABLE: str(tmp_path / "cache")}
    command = [sys.executable, "-m", "keisei", "train", str(config), "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count(COMPILING) == 1


def test_key_changes_with_engine_and_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = engine_digest()
    engine_digest.cache_clear()
    assert engine_digest() == before
    monkeypatch.setattr(numba, "__version__", "0.0")
    engine_digest.cache_clear()
    assert engine_digest() != before
    monkeypatch.undo()
    engine_digest.cache_clear()


def test_cache_lies_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here" / "worlds"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    assert cache_folder() == tmp_path / "there" / "keisei" / "worlds"
