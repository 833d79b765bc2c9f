"""Learning curves: that there is a picture for every run, and that it says what the numbers say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread
from typer.testing import CliRunner

from keisei.cli import app
from keisei.errors import RunError
from keisei.history import Record
from keisei.plot import draw, plot
from some_run import STEPS, numbers, record, write

runner = CliRunner()


def panels(records: list[Record]) -> dict[str, Axes]:
    """The panels of a picture by the first word of their titles."""
    figure = draw(records, "run")
    figure.canvas.draw()
    return {axes.get_title(loc="left").split()[0]: axes for axes in figure.axes}


def texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [text.get_text() for text in (*axes.texts, *(legend.get_texts() if legend else ()))]


@pytest.mark.parametrize("iterations", [1, 2, 5, 300])
def test_run_of_any_length_is_drawn(tmp_path: Path, iterations: int) -> None:
    write(tmp_path, iterations, total=300)
    plot(tmp_path, tmp_path / "curves.png")
    image = imread(tmp_path / "curves.png")
    assert image.shape[1] > 1000
    assert (image[:, :, 0] < 0.9).mean() > 0.1
    assert sorted(path.name for path in tmp_path.glob("*curves*")) == ["curves.png"]


def test_scores_are_drawn_with_their_intervals() -> None:
    axes = panels([record(iteration, evaluated=iteration % 2 == 0) for iteration in range(1, 7)])["score"]
    assert texts(axes) == ["random", "greedy"]
    curves = {str(line.get_label()): line for line in axes.lines}
    greedy = curves["greedy"]
    assert list(np.asarray(greedy.get_xdata())) == [2 * STEPS, 4 * STEPS, 6 * STEPS]
    assert list(np.asarray(greedy.get_ydata())) == [0.25, 0.25, 0.25]
    bands = [path.get_extents() for found in axes.collections for path in found.get_paths()]
    low, high = 1 / (1 + 10 ** (260.2 / 400)), 1 / (1 + 10 ** (130 / 400))
    assert any(band.y0 == pytest.approx(low) and band.y1 == pytest.approx(high) for band in bands)
    assert any(band.y1 == pytest.approx(1.0) for band in bands), "an interval without an end reaches 100 %"


def test_shares_of_endings_fill_the_panel() -> None:
    axes = panels([record(iteration) for iteration in range(1, 6)])["how"]
    assert texts(axes) == ["mate", "cut off", "perpetual check"]
    tops = [patch.get_path().get_extents().y1 for patch in axes.patches]
    assert tops == pytest.approx([0.6, 0.9, 1.0])


def test_endings_of_many_kinds_are_told_apart_or_put_together() -> None:
    many = {f"collect/reason/kind_{number}": 10 - number for number in range(9)}
    axes = panels([Record(1, {**numbers(1), **many})])["how"]
    names = texts(axes)
    assert names[-1] == "other"
    assert axes.patches[-1].get_path().get_extents().y1 == pytest.approx(1.0)


def test_curves_follow_the_numbers() -> None:
    found = panels([record(iteration) for iteration in range(1, 6)])
    (line,) = found["entropy"].lines
    assert list(np.asarray(line.get_ydata())) == pytest.approx([3.4, 3.3, 3.2, 3.1, 3.0])
    _, whole = found["speed,"].lines
    assert list(np.asarray(whole.get_ydata())) == [500.0] * 5


def test_what_is_not_there_is_said() -> None:
    bare = Record(1, {"steps": 0, "total_steps": 0, "games": 0, "seconds": 0.0})
    found = panels([bare])
    assert texts(found["score"]) == ["no evaluation yet"]
    assert texts(found["how"]) == ["no game has ended yet"]
    assert texts(found["mean"]) == ["not recorded"]
    assert texts(found["speed,"]) == ["not recorded"]


def test_numbers_that_are_not_finite_are_gaps() -> None:
    records = [record(iteration) for iteration in range(1, 6)]
    strange = {"learn/entropy": math.nan, "learn/kl": math.inf, "collect/mean_length": math.nan}
    records[2] = Record(3, {**numbers(3), **strange})
    (line,) = panels(records)["entropy"].lines
    assert list(np.asarray(line.get_xdata())) == [STEPS, 2 * STEPS, 4 * STEPS, 5 * STEPS]


def test_evaluation_alone_at_the_end_changes_no_other_panel() -> None:
    counts = {name: numbers(3)[name] for name in ("steps", "total_steps", "games", "seconds")}
    last = Record(3, {**counts, "evaluate/random/score": 0.5})
    found = panels([record(1), record(2), record(3), last])
    assert {"policy", "value", "entropy", "KL"} <= set(found)
    assert len(np.asarray(found["entropy"].lines[0].get_xdata())) == 3
    assert texts(found["score"]) == ["random"]


def test_name_that_looks_like_a_formula_is_a_name(tmp_path: Path) -> None:
    run = tmp_path / "$run_{$"
    write(run, 2)
    plot(run, tmp_path / "curves.png")


def test_run_without_metrics_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot read the metrics"):
        plot(tmp_path, tmp_path / "curves.png")


def test_run_without_an_iteration_is_one_clear_line(tmp_path: Path) -> None:
    write(tmp_path, 0)
    with pytest.raises(RunError, match="no iteration is finished"):
        plot(tmp_path, tmp_path / "curves.png")


@pytest.mark.parametrize(("name", "line"), [("curves.abc", "cannot draw"), ("absent/curves.png", "cannot write")])
def test_picture_that_cannot_be_written_is_one_clear_line(tmp_path: Path, name: str, line: str) -> None:
    write(tmp_path, 2)
    with pytest.raises(RunError, match=line) as error:
        plot(tmp_path, tmp_path / name)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*curves*"))


def test_command_draws_into_the_run_or_where_it_is_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write(run, 2)
    done = runner.invoke(app, ["plot", str(run)])
    assert done.exit_code == 0, done.output
    assert (run / "curves.png").is_file()
    assert runner.invoke(app, ["plot", str(run), "--out", str(tmp_path / "mine.svg")]).exit_code == 0
    assert (tmp_path / "mine.svg").read_text(encoding="utf-8").startswith("<?xml")
