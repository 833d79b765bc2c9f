"""The picture of a society: whose return is which curve, and what is drawn where there are many agents, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from typer.testing import CliRunner

from keisei.cli import app
from keisei.history import Record
from keisei.plot import draw
from keisei.plot_societies import agents_of
from some_run import STEPS, numbers
from test_plot import texts


def society(iteration: int, agents: int = 2, more: Mapping[str, float] | None = None) -> Record:
    given = numbers(iteration)
    for agent in range(agents):
        given |= {f"agents/{agent}/return": 10.0 * agent + iteration, f"agents/{agent}/return_spread": 2.0 + agent}
    given |= {"world/return": 5.0 + iteration, "world/return_spread": 1.0, "world/gini": 0.25}
    given |= {"world/sustainability": 40.0, "world/gem": 3.0, "world/pollution": 0.5, **(more or {})}
    return Record(iteration, given)


def panels(records: list[Record]) -> dict[str, Axes]:
    figure = draw(records, "run")
    figure.canvas.draw()
    return {axes.get_title(loc="left").split()[0]: axes for axes in figure.axes}


def test_each_agent_has_a_curve_with_the_spread_over_worlds() -> None:
    axes = panels([society(iteration) for iteration in range(1, 5)])["return"]
    curves = {str(line.get_label()): line for line in axes.lines}
    assert list(np.asarray(curves["agent 1"].get_xdata())) == [STEPS, 2 * STEPS, 3 * STEPS, 4 * STEPS]
    assert list(np.asarray(curves["agent 1"].get_ydata())) == [11.0, 12.0, 13.0, 14.0]
    bands = [path.get_extents() for found in axes.collections for path in found.get_paths()]
    assert sorted((band.y0, band.y1) for band in bands) == [(-1.0, 6.0), (8.0, 17.0)]
    assert texts(axes) == ["agent 0", "agent 1"]


def test_evaluation_stands_beside_what_chance_earns() -> None:
    evaluated = {"evaluate/world/return": 21.0, "evaluate/random/world/return": 3.0}
    axes = panels([society(1), society(2, more=evaluated)])["return"]
    curves = {str(line.get_label()): line for line in axes.lines}
    assert list(np.asarray(curves["evaluation, mean"].get_ydata())) == [21.0]
    assert set(np.asarray(curves["at random"].get_ydata())) == {3.0}


def test_many_agents_are_drawn_as_their_mean_and_range() -> None:
    records = [society(iteration, agents=20) for iteration in range(1, 60)]
    axes = panels(records)["return"]
    assert texts(axes) == ["mean of 20 agents, and their range"]
    assert len(axes.lines) == 21
    assert agents_of(records) == 20


def test_what_is_shared_and_what_was_done_have_panels() -> None:
    found = panels([society(iteration) for iteration in range(1, 4)])
    assert {"return", "what", "inequality", "sustainability", "speed,"} <= set(found)
    assert texts(found["what"]) == ["gem", "pollution"]
    assert np.asarray(found["inequality"].lines[0].get_ydata()).tolist() == [0.25] * 3
    assert np.asarray(found["sustainability"].lines[0].get_ydata()).tolist() == [40.0] * 3


def test_what_makes_no_sense_is_said() -> None:
    records = [society(iteration) for iteration in range(1, 4)]
    bare = [
        Record(
            each.iteration, {k: v for k, v in each.numbers.items() if k not in ("world/gini", "world/sustainability")}
        )
        for each in records
    ]
    found = panels(bare)
    assert texts(found["inequality"]) == ["makes no sense here: somebody lost in all"]
    assert texts(found["sustainability"]) == ["nobody has gained anything"]


@pytest.mark.parametrize("agents", [1, 8, 9, 128])
def test_society_of_any_size_is_drawn(agents: int) -> None:
    draw([society(iteration, agents=agents) for iteration in range(1, 50)], "run").canvas.draw()


def test_runs_of_other_games_look_as_before() -> None:
    assert agents_of([Record(1, numbers(1))]) == 0
    assert "score" in panels([Record(1, numbers(1))])


def test_run_that_was_really_trained_is_drawn_watched_and_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands in a row, as a person types them."""
    from small_society import written

    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    runner = CliRunner()

    def said(*words: str) -> str:
        done = runner.invoke(app, list(words))
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.output

    assert "watch run" in said("train", "society.yaml", "--run-dir", "run")
    assert "wrote run/curves.png" in said("plot", "run")
    assert "8 pictures" in said("watch", "run", "--gif", "a.gif")
    assert "8 pictures" in said(
        "watch", "run/checkpoints/00000002", "--world", "2", "--play", "sample", "--gif", "b.gif"
    )
    assert (tmp_path / "a.gif").read_bytes() != (tmp_path / "b.gif").read_bytes()
    assert "turn 7 of 7" in said("watch", "run")
    for name in ("a.npz", "b.npz"):
        said("export", "run", "--episodes", "3", "--out", name, "--play", "greedy")
    with np.load("a.npz") as first, np.load("b.npz") as second:
        assert len(first["world"]) == 3 * 7 * 3
        assert all(np.array_equal(first[name], second[name]) for name in first)
    failed = runner.invoke(app, ["watch", "run", "agents=4"])
    assert "a run's worlds are as its configuration says: 'agents=4' cannot be told to run" in str(failed.exception)
