"""What the live screen shows of agents who learn for themselves: some lines about their world, and one for each."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from keisei.history import Record
from keisei.words import number

AGENTS, WORLD = "agents", "world"
"""The groups of numbers `agents/SEAT/NAME` and `world/NAME`."""

_FIRST = ("return", "return_spread")
_MOST_FIGURES = 5


def by_agent(record: Record) -> dict[int, dict[str, float]]:
    """The numbers of each agent, by its seat."""
    found: dict[int, dict[str, float]] = {}
    for key, value in record.group(AGENTS).items():
        seat, _, name = key.partition("/")
        found.setdefault(int(seat), {})[name] = value
    return found


def society_facts(record: Record) -> Iterator[tuple[str, Text]]:
    """How the agents fare as a whole; nothing where there are none."""
    world = record.group(WORLD)
    if "return" not in world:
        return
    text = Text(f"{number(world['return'])} for each agent", "bold")
    if "return_spread" in world:
        text.append(f", ±{number(world['return_spread'])} between worlds", "not bold")
    yield "return", text
    others = [f"{_label(name)} {number(value)}" for name, value in world.items() if name not in _FIRST]
    if others:
        yield "world", Text(" · ".join(others))
    evaluated = record.group("evaluate")
    if f"{WORLD}/return" in evaluated:
        found = Text(number(evaluated[f"{WORLD}/return"]), "bold")
        if f"random/{WORLD}/return" in evaluated:
            found.append(f", at random {number(evaluated[f'random/{WORLD}/return'])}", "not bold")
        yield "evaluated", found


def society_table(record: Record, most: int) -> Table:
    """A line for each agent; of more than `most`, the last line says how many are not shown."""
    agents = by_agent(record)
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(_MOST_FIGURES + 2):
        table.add_column(no_wrap=True, overflow="ellipsis")
    shown = list(agents) if len(agents) <= most else list(agents)[: max(0, most - 1)]
    for seat in shown:
        one = agents[seat]
        spread = f" ±{number(one['return_spread'])}" if "return_spread" in one else ""
        figures = [f"{_label(name)} {number(value)}" for name, value in one.items() if name not in _FIRST]
        cells = (f"agent {seat}", f"return {number(one.get('return', 0.0))}{spread}", *figures[:_MOST_FIGURES])
        table.add_row(*(Text(cell, "dim" if i else "") for i, cell in enumerate(cells)))
    if 0 < len(shown) < len(agents):
        table.add_row(Text(f"… {len(agents) - len(shown)} more", "dim"))
    return table


def _label(name: str) -> str:
    return "Gini" if name == "gini" else name.replace("_", " ")
