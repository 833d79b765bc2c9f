"""What the live screen shows of the processes that collect: a line for all of them, and one for each."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from keisei.history import Record
from keisei.words import amount, duration, memory, number

WORKERS = "worker"
"""The group of numbers `worker/PLACE/NAME`."""


def by_worker(record: Record) -> dict[int, dict[str, float]]:
    """The numbers of each worker, by its place."""
    found: dict[int, dict[str, float]] = {}
    for key, value in record.group(WORKERS).items():
        place, _, name = key.partition("/")
        found.setdefault(int(place), {})[name] = value
    return found


def crew_facts(record: Record) -> Iterator[tuple[str, Text]]:
    """How those who collect do as a whole; nothing where this process does it at once with learning."""
    numbers, workers = record.group("parallel"), by_worker(record)
    if not numbers:
        return
    parts = []
    if workers:
        busy = sum(one.get("busy", 0.0) for one in workers.values()) / len(workers)
        parts += [f"{len(workers)}, {busy:.0%} busy"]
    if numbers.get("degraded"):
        parts.append("none left: this process plays on")
    if restarts := numbers.get("restarts"):
        parts.append(f"{restarts:.0f} restarted")
    if waiting := numbers.get("queue_depth"):
        parts.append(f"{waiting:.0f} blocks waiting")
    if parts:
        yield "workers", Text(" · ".join(parts))
    sent = [f"{numbers['version_lag']:.0f} versions behind"] if "version_lag" in numbers else []
    if syncs := numbers.get("syncs"):
        each = numbers.get("sync_bytes", 0.0) / syncs
        sent.append(f"sent {syncs:.0f} times, {memory(each)} in {number(numbers.get('sync_ms', 0.0))} ms")
    if sent:
        yield "weights", Text(" · ".join(sent))


def crew_table(record: Record, most: int) -> Table:
    """A line for each worker; of more than `most`, the last line says how many are not shown."""
    workers = by_worker(record)
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(7):
        table.add_column(no_wrap=True, overflow="ellipsis")
    shown = list(workers) if len(workers) <= most else list(workers)[: max(0, most - 1)]
    for place in shown:
        one = workers[place]
        cells = (
            f"worker {place}",
            f"{one.get('busy', 0.0):.0%} busy",
            f"{amount(one.get('steps', 0.0))} steps",
            f"{amount(one.get('games', 0.0))} games",
            f"reward {number(one.get('reward', 0.0))}",
            f"{one.get('restarts', 0.0):.0f} restarts",
            f"seen {duration(one['silent_seconds'])} ago" if "silent_seconds" in one else "gone",
        )
        table.add_row(*(Text(cell, "dim" if i else "") for i, cell in enumerate(cells)))
    if 0 < len(shown) < len(workers):
        table.add_row(Text(f"… {len(workers) - len(shown)} more", "dim"))
    return table
