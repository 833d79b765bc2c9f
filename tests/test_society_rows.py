"""What the live screen shows of agents who learn for themselves."""

from __future__ import annotations

import io

from rich.console import Console

from keisei.history import COUNTS, Record
from keisei.screen import Screen, shown_numbers

NUMBERS = {
    "world/return": 12.5, "world/return_spread": 3.25, "world/gem": 2.0, "world/gini": 0.125,
    "evaluate/world/return": 42.0, "evaluate/random/world/return": 7.0, "learn/loss": 1.5, "learn/agents/0/loss": 2.5,
}  # fmt: skip


def record(agents: int) -> Record:
    """An epoch of so many agents."""
    own = {f"agents/{seat}/{name}": seat + 0.5 for seat in range(agents) for name in ("return", "gem")}
    return Record(1, {**dict.fromkeys(COUNTS, 100.0), **own, **NUMBERS})


def drawn(agents: int, height: int = 40) -> str:
    screen = Screen("treasure", "treasure_hunt")
    screen.record(record(agents))
    console = Console(record=True, width=90, height=height, file=io.StringIO())
    console.print(screen)
    return console.export_text()


def test_screen_shows_the_world_and_each_agent() -> None:
    text = drawn(2)
    for shown in (
        "12.5 for each agent, ±3.25 between worlds",
        "gem 2 · Gini 0.125",
        "42, at random 7",
        "agent 0  return 0.5  gem 0.5",
        "agent 1  return 1.5  gem 1.5",
    ):
        assert shown in " ".join(text.split()) or shown in text, text


def test_agents_for_whom_there_is_no_room_are_counted() -> None:
    text = drawn(60)
    assert "agent 0" in text
    assert "agent 59" not in text
    assert "more" in text
    assert len(text.splitlines()) <= 40


def test_losses_of_single_agents_take_no_place_from_other_numbers() -> None:
    assert shown_numbers(record(2)) == ["loss"]
