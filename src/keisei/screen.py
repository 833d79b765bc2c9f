"""What the live screen shows of a run, drawn anew each time for the width and height there are. `view.py` shows it."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from keisei.crew_rows import WORKERS, crew_facts, crew_table
from keisei.history import Evaluation, Event, Record
from keisei.small_picture import GAP, Picture, picture_text
from keisei.society_rows import AGENTS, society_facts, society_table
from keisei.words import amount, duration, elo, memory, number, portions, sparkline

HINT = "Ctrl-C: finish the step, save and stop"
WINDOW = 100  # how many iterations speeds, shares and curves look back
FIRST_NUMBERS = ("policy_loss", "value_loss", "entropy", "kl", "explained_variance", "clip_fraction")
MOST_NUMBERS = 8
NAMES = {"kl": "KL"}
PAINT = (("█", "green"), ("▓", "yellow"), ("▒", "cyan"), ("░", "magenta"), ("▚", "blue"), ("▞", "red"))
ASCII_PAINT = "#=+-:."
FACT = 11  # how wide the names of facts are
WIDE = 72  # from here on, numbers stand in two columns


class Pace:
    """How fast a run gets on, over its last iterations, and how long it will take."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self._left = 0

    def add(self, record: Record) -> None:
        """One more iteration."""
        self._seen.append((record.seconds, record.steps))
        self._left = max(0, record.total_steps - record.steps)

    def rate(self) -> float:
        """Steps per second, everything included; 0 where nothing is known yet."""
        if not self._seen:
            return 0.0
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        if last > first:
            return max(0.0, (now - before) / (last - first))
        return now / last if last > 0 else 0.0

    def left(self) -> float | None:
        """Seconds until the budget is used, counted from the last iteration; None where nothing is known yet."""
        rate = self.rate()
        return self._left / rate if rate > 0 else None


def share_done(record: Record) -> float:
    """How much of its budget a run has used, from 0 to 1."""
    return min(1.0, record.steps / record.total_steps) if record.total_steps > 0 else 1.0


def shown_numbers(record: Record) -> list[str]:
    """The names of the learner's numbers that are worth a place, the best known first."""
    known = [name for name in record.group("learn") if not name.startswith(f"{AGENTS}/")]
    first = [name for name in FIRST_NUMBERS if name in known]
    return (first + [name for name in known if name not in first])[:MOST_NUMBERS]


def label(name: str) -> str:
    """The name of a number as words."""
    return NAMES.get(name, name.replace("_", " "))


Look = Callable[[], Picture | None]
"""What gives the picture of a game that is shown beside the numbers, where there is one."""


def nothing_to_see() -> None:
    """There is no picture."""


class Screen:
    """The screen of one run. It is told things by one thread and drawn by another."""

    def __init__(
        self,
        name: str,
        about: str = "",
        clock: Callable[[], float] = time.monotonic,
        picture: Look = nothing_to_see,
    ) -> None:
        self._heading = name, about
        self._picture = picture
        self.draws_per_second = 1 if picture is nothing_to_see else 4
        self._clock = clock
        self._lock = threading.Lock()
        self._told_at = clock()
        self._closed = False
        self._records: deque[Record] = deque(maxlen=WINDOW)
        self._known: dict[str, float] = {}  # the last that was heard of each number
        self._pace = Pace()
        self._evaluations: dict[str, tuple[int, Evaluation]] = {}
        self._events: deque[Event] = deque(maxlen=5)
        self._alarms: deque[Event] = deque(maxlen=3)

    def record(self, record: Record) -> None:
        """Show an iteration."""
        with self._lock:
            self._records.append(record)
            self._known |= record.numbers
            self._pace.add(record)
            self._told_at = self._clock()
            self._evaluations |= {found.opponent: (record.iteration, found) for found in record.evaluations()}

    def event(self, event: Event) -> None:
        """Show an event."""
        with self._lock:
            (self._alarms if event.kind == "alarm" else self._events).append(event)

    def close(self) -> None:
        """Show the end: the clock stands, and there is nothing to stop any more."""
        with self._lock:
            self._told_at = self._clock() if not self._records else self._told_at
            self._closed = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name, _ = self._heading
        width, height = options.max_width - 4, console.height - 3
        picture = (
            None if console.color_system is None else picture_text(self._picture(), width, height, options.ascii_only)
        )
        beside = 0 if picture is None else picture.width + GAP
        with self._lock:
            rows = self._rows(width - beside, height, options.ascii_only)
            hint = None if self._closed else Text(f" {HINT} ", "dim")
        yield Panel(
            Group(*rows) if picture is None else picture.beside(rows, width),
            title=Text(f" {name} ", "bold"),
            title_align="left",
            subtitle=hint,
            subtitle_align="left",
            border_style="blue",
        )

    def _rows(self, width: int, height: int, ascii_only: bool) -> list[RenderableType]:
        """All rows, each one line high: what must be seen, then numbers and events as far as there is room."""
        _, about = self._heading
        since = 0.0 if self._closed else self._clock() - self._told_at
        head = [_line(about, "dim")] if about else []
        if not self._records:
            return [*head, _line(f"starting … {duration(since)}"), *map(_line_of, self._told(height))]
        last = Record(self._records[-1].iteration, self._known)
        facts = _facts(self._facts(last, width - FACT, ascii_only))
        top: list[RenderableType] = [*head, _bar(share_done(last), width, ascii_only), self._progress(last, since)]
        room = height - len(top) - facts.row_count
        numbers = self._numbers(last, width, ascii_only, max(1, room - 2))
        told = self._told(max(1, room - numbers.row_count))
        left = room - numbers.row_count - len(told)
        crew = crew_table(last, left - 4)
        society = society_table(last, left - crew.row_count - 4)
        tables = [table for table in (crew, society) if table.row_count]
        gap = [""] if left - sum(table.row_count for table in tables) >= 3 else []
        return [*top, *gap, facts, *tables, *gap, numbers, *gap, *map(_line_of, told)]

    def _told(self, room: int) -> list[Event]:
        """The last alarms and events, as many as there is room for."""
        return [*self._alarms, *self._events][-room:] if room > 0 else []

    def _progress(self, last: Record, since: float) -> Text:
        left = self._pace.left()
        parts = [f"{amount(last.steps)} of {amount(last.total_steps)} steps", duration(last.seconds + since)]
        if left is not None and not self._closed:
            parts.append(f"{duration(left - since)} left")
        return _line(" · ".join(parts))

    def _facts(self, last: Record, width: int, ascii_only: bool) -> Iterator[tuple[str, Text]]:
        collect = last.group("collect")
        collecting = collect.get("plies_per_second", math.nan)
        speed = f"{amount(collecting)} plies/s playing, " if math.isfinite(collecting) else ""
        yield "speed", Text(f"{speed}{amount(self._pace.rate())} steps/s in all")
        length = collect.get("mean_length", math.nan)
        yield "games", Text(f"{last.games:,}" + (f" · {length:.0f} plies long" if math.isfinite(length) else ""))
        yield from society_facts(last)
        reasons = self._sums("collect/reason")
        yield from _ends(reasons, width, ascii_only)
        if reasons and (wins := self._sums("collect/wins")):
            shares = [f"{label(seat)} {count / sum(reasons.values()):.0%}" for seat, count in wins.items()]
            yield "won by", Text(", ".join(shares))
        longest = max(map(len, self._evaluations), default=0)
        for opponent, (iteration, found) in self._evaluations.items():
            result = Text(f"{opponent:{longest}}").append(f"  {found.score:6.1%}", "bold")
            difference = elo(found)
            result.append(f"  {difference}" if difference else "").append(f"  at {iteration}", "dim")
            yield "against", result
        yield from _compiled(last)
        yield from crew_facts(last)
        if held := {who: size for who, size in last.group("memory").items() if not who.startswith(WORKERS)}:
            yield "memory", Text(" · ".join(f"{memory(size)} {label(who)}" for who, size in held.items()))

    def _sums(self, group: str) -> dict[str, int]:
        """The sum of each count of a group over the last iterations; the greatest first, none that is 0."""
        counted: Counter[str] = Counter()
        for record in self._records:
            counted.update({name: int(count) for name, count in record.group(group).items() if math.isfinite(count)})
        return {name: count for name, count in counted.most_common() if count > 0}

    def _numbers(self, last: Record, width: int, ascii_only: bool, rows: int) -> Table:
        columns = 2 if width >= WIDE else 1
        curve = max(0, min(24, width // columns - 31)) if not ascii_only else 0
        table = Table.grid(padding=(0, 1), collapse_padding=True)
        for _ in range(columns):
            table.add_column(style="dim", width=18, no_wrap=True)
            table.add_column(width=8, justify="right", no_wrap=True)
            table.add_column(width=curve + 1, no_wrap=True)
        cells: list[Text] = []
        for name in shown_numbers(last)[: rows * columns]:
            key = f"learn/{name}"
            values = [record.numbers[key] for record in self._records if key in record.numbers]
            cells += [Text(label(name)), Text(number(self._known[key])), Text(sparkline(values, curve), "cyan")]
        for start in range(0, len(cells), 3 * columns):
            table.add_row(*cells[start : start + 3 * columns])
        return table


# --- pieces ----------------------------------------------------------------------------------------------------------


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _bar(share: float, width: int, ascii_only: bool) -> Text:
    full, rest = ("#", ".") if ascii_only else ("━", "━")
    length = max(4, width - 8)
    done = int(share * length)
    bar = _line(full * done, "green").append(rest * (length - done), "bright_black")
    return bar.append(f" {share:6.1%}", "bold")


def _facts(facts: Iterator[tuple[str, Text]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", min_width=FACT - 2, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, text in facts:
        table.add_row(name, text)
    return table


def _compiled(last: Record) -> Iterator[tuple[str, Text]]:
    """How long steps were compiled, which is part of the run's time and of no step's."""
    acting = last.group("device").get("compile_acting_seconds", 0.0)
    learning = last.group("learn").get("compile_seconds", 0.0)
    if acting + learning >= 1:
        yield "compiling", Text(f"{duration(acting)} for acting, {duration(learning)} for learning")


def _ends(reasons: dict[str, int], width: int, ascii_only: bool) -> Iterator[tuple[str, Text]]:
    """A bar of how games end, and under it what its colours mean."""
    if not reasons:
        yield "endings", Text("no game has ended lately", "dim")
        return
    marks = [(ASCII_PAINT[i] if ascii_only else mark, colour) for i, (mark, colour) in enumerate(PAINT)]
    common = dict(list(reasons.items())[: len(PAINT)])
    bar, legend, total = Text(), Text(), sum(reasons.values())
    for (name, count), length, (mark, colour) in zip(
        common.items(), portions(list(common.values()), max(4, width)), marks, strict=False
    ):
        bar.append(mark * length, colour)
        legend.append(f"{mark} ", colour).append(f"{label(name)} {count / total:.0%}  ")
    yield "endings", bar
    yield "", legend


def _line_of(event: Event) -> Text:
    at = time.strftime("%H:%M", time.localtime(event.time))
    style = "bold red" if event.kind == "alarm" else "dim"
    return _line(f"{at}  {event.kind}: {' '.join(event.text.splitlines())}", style)
