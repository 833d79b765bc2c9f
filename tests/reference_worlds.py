"""The worlds once more: slow, obvious, cell by cell, and sharing nothing with the engine but what its chance is.

A world is a dictionary of layers, from (row, column) to a letter; its stream of chance is Philox, a word at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Cell = tuple[int, int]
STEPS = {0: (-1, 0), 1: (0, 1), 2: (1, 0), 3: (0, -1)}  # up, right, down, left
WORD = 2**32


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32-10 as Salmon et al. (2011) have it."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (second // WORD) ^ b ^ k, second % WORD, (first // WORD) ^ d ^ m, first % WORD
        k, m = (k + 0x9E3779B9) % WORD, (m + 0xBB67AE85) % WORD
    return [a, b, c, d]


@dataclass
class Chance:
    """The random numbers of one world."""

    seed: int
    world: int
    drawn: int = 0

    def word(self) -> int:
        index, place = divmod(self.drawn, 4)
        self.drawn += 1
        counter = [index % WORD, index // WORD, self.world % WORD, self.world // WORD]
        return philox(counter, [self.seed % WORD, self.seed // WORD])[place]

    def below(self, count: int) -> int:
        return self.word() * count // WORD

    def happens(self, probability: float) -> bool:
        return self.word() / WORD < probability


@dataclass
class Agent:
    cell: Cell
    heading: int = 0
    earned: list[tuple[int, float]] = field(default_factory=list)  # turns, and what each of its steps paid

    @property
    def returns(self) -> float:
        total = 0.0
        for _, paid in self.earned:
            total += paid
        return total


@dataclass
class Reference:
    """What all worlds have in common; things other than agents are letters in `things`."""

    height: int
    width: int
    number_of_agents: int
    max_turns: int
    chance: Chance
    things: dict[Cell, str] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    turn: int = 0
    paid: list[float] = field(default_factory=list)
    taken: list[list[str]] = field(default_factory=list)  # by each agent in this episode

    def __post_init__(self) -> None:
        self.begin()

    # --- what each world says

    def furnish(self) -> None:
        """What is placed after the agents."""

    def change(self) -> None:
        """What happens by itself."""

    def act(self, number: int, action: int) -> None:
        self.walk(number, action)

    def enter(self, number: int, thing: str) -> None:
        """An agent enters the cell of a thing, which is gone."""

    def bump(self, number: int, thing: str) -> None:
        """An agent bumps into something."""

    def after(self) -> None:
        """What follows when all have acted."""

    def blocks(self, thing: str) -> bool:
        return thing == "wall"

    def deeds(self, number: int) -> dict[str, float]:
        """What an agent has done, by name; `world/…` is what all have."""
        return {}

    # --- what holds for all

    def cells(self) -> list[Cell]:
        """All cells in reading order."""
        return [(row, column) for row in range(self.height) for column in range(self.width)]

    def inner(self) -> list[Cell]:
        return [(r, c) for r, c in self.cells() if 0 < r < self.height - 1 and 0 < c < self.width - 1]

    def agent_at(self, cell: Cell) -> int | None:
        return next((number for number, agent in enumerate(self.agents) if agent.cell == cell), None)

    def empty(self, cell: Cell) -> bool:
        return cell not in self.things and self.agent_at(cell) is None

    def skip(self, probability: float) -> int:
        """How many cells in a row stay as they are."""
        uniform = (self.chance.word() + 1) / WORD
        return math.floor(math.log(uniform) / math.log1p(-probability))

    def begin(self) -> None:
        self.turn = 0
        self.things = {cell: "wall" for cell in self.cells() if cell not in self.inner()}
        self.agents = []
        self.taken = [[] for _ in range(self.number_of_agents)]
        self.lay_out()
        for _ in range(self.number_of_agents):
            free = [cell for cell in self.cells() if self.empty(cell)]
            self.agents.append(Agent(free[self.chance.below(len(free))]))
        self.furnish()
        self.paid = [0.0] * self.number_of_agents
        self.change()

    def lay_out(self) -> None:
        """The map before the agents."""

    def walk(self, number: int, direction: int) -> None:
        agent = self.agents[number]
        agent.heading = direction
        row, column = STEPS[direction]
        target = (agent.cell[0] + row, agent.cell[1] + column)
        if self.agent_at(target) is not None:
            return
        thing = self.things.get(target)
        if thing is not None and self.blocks(thing):
            self.bump(number, thing)
            return
        agent.cell = target
        if thing is not None:
            del self.things[target]
            self.taken[number].append(thing)
            self.enter(number, thing)

    def neighbours(self, cell: Cell) -> list[Cell]:
        return [(cell[0] + row, cell[1] + column) for row, column in STEPS.values()]

    def play(self, actions: list[int]) -> tuple[list[float], bool]:
        """One turn of all agents, and what begins the next; gives what each was paid, and whether it was the last."""
        self.paid = [0.0] * self.number_of_agents
        for number, action in enumerate(actions):
            self.act(number, action)
        self.finish_turn()
        self.earn(self.turn)
        return self.paid, self.turn == self.max_turns

    def play_seat(self, number: int, action: int) -> tuple[list[float], bool]:
        """One agent's part of a turn in which each sees what the earlier ones did; the last one's ends the turn."""
        self.paid, turn = [0.0] * self.number_of_agents, self.turn + 1
        self.act(number, action)
        if number == self.number_of_agents - 1:
            self.finish_turn()
        self.earn(turn)
        return self.paid, self.turn == self.max_turns

    def finish_turn(self) -> None:
        self.after()
        self.turn += 1
        self.change()

    def earn(self, turn: int) -> None:
        for agent, paid in zip(self.agents, self.paid, strict=True):
            agent.earned.append((turn, paid))

    # --- what ended episodes tell

    def figures(self, number: int) -> dict[str, float]:
        """What is told of an agent; NaN where it makes no sense."""
        found = {"return": self.agents[number].returns, "world/sustainability": self.sustainability()}
        if self.number_of_agents > 1:
            found["world/gini"] = self.gini()
        return found | self.deeds(number)

    def gini(self) -> float:
        returns = [agent.returns for agent in self.agents]
        if min(returns) < 0 or max(returns) == 0:
            return math.nan
        apart = [abs(one - other) for one in returns for other in returns]
        return sum(apart) / len(apart) / (2 * sum(returns) / len(returns))

    def sustainability(self) -> float:
        gained = [[turn for turn, paid in agent.earned if paid > 0] for agent in self.agents]
        means = [sum(turns) / len(turns) for turns in gained if turns]
        return sum(means) / len(means) if means else math.nan

    def items(self, number: int, kinds: Iterable[str]) -> dict[str, float]:
        return {kind.replace(" ", "_"): self.taken[number].count(kind) for kind in kinds}

    # --- what agents see

    def planes_at(self, cell: Cell) -> set[str]:
        """The names of the planes that are 1 in a cell."""
        if not (0 <= cell[0] < self.height and 0 <= cell[1] < self.width):
            return {"wall"}
        seen = {self.things[cell]} if cell in self.things else set()
        number = self.agent_at(cell)
        return seen if number is None else seen | {self.look(number)}

    def look(self, number: int) -> str:
        return "agent"

    def window(self, number: int, radius: int, planes: list[str]) -> list[list[list[int]]]:
        """`[plane][row][column]` around an agent."""
        row, column = self.agents[number].cell
        around = range(-radius, radius + 1)
        seen = [[self.planes_at((row + i, column + j)) for j in around] for i in around]
        return [[[int(plane in cell) for cell in line] for line in seen] for plane in planes]


class Empty(Reference):
    """Nothing happens."""


class TreasureHunt(Reference):
    growth = 0.005
    pays = {"gem": 10.0, "food": 5.0, "bone": -10.0}  # noqa: RUF012

    def change(self) -> None:
        cells = self.inner()
        at = self.skip(self.growth)
        while at < len(cells):
            if self.empty(cells[at]):
                self.things[cells[at]] = ["gem", "food", "bone"][self.chance.below(3)]
            at += 1 + self.skip(self.growth)

    def enter(self, number: int, thing: str) -> None:
        self.paid[number] += self.pays[thing]

    def bump(self, number: int, thing: str) -> None:
        self.paid[number] -= 1.0

    def deeds(self, number: int) -> dict[str, float]:
        return self.items(number, self.pays)


class Iowa(Reference):
    cards = {  # noqa: RUF012
        "deck A": (1.0, 2.5, 0.5),
        "deck B": (1.0, 12.5, 0.1),
        "deck C": (0.5, 0.5, 0.5),
        "deck D": (0.5, 2.5, 0.1),
    }

    def change(self) -> None:
        cells = self.inner()
        at = self.skip(0.01)
        while at < len(cells):
            if self.empty(cells[at]):
                self.things[cells[at]] = list(self.cards)[self.chance.below(4)]
            at += 1 + self.skip(0.01)

    def enter(self, number: int, thing: str) -> None:
        gain, loss, risk = self.cards[thing]
        self.paid[number] += 0.1
        self.paid[number] += gain
        if self.chance.happens(risk):
            self.paid[number] -= loss

    def deeds(self, number: int) -> dict[str, float]:
        return self.items(number, self.cards)


class Tag(Reference):
    it = 0
    was_it: int | None = None
    its: list[int]  # who was It at the end of each turn

    def furnish(self) -> None:
        self.it, self.was_it, self.its = self.chance.below(self.number_of_agents), None, []

    def after(self) -> None:
        beside = [self.agent_at(cell) for cell in self.neighbours(self.agents[self.it].cell)]
        caught = sorted(number for number in beside if number is not None and number != self.was_it)
        self.was_it = self.it
        if caught:
            self.it = caught[0]
        self.its.append(self.it)
        for number in range(self.number_of_agents):
            if number != self.it:
                self.paid[number] += 10.0

    def look(self, number: int) -> str:
        return "it" if number == self.it else "agent"

    def deeds(self, number: int) -> dict[str, float]:
        return {"turns_it": self.its.count(number)}


class StagHunt(Reference):
    growth, stag_hunters, hare_hunters = 0.002, 2, 1
    hunting: set[int]
    done: list[tuple[str, int]]  # what, and who did it

    def begin(self) -> None:
        self.hunting, self.done = set(), []
        super().begin()

    def change(self) -> None:
        cells = self.inner()
        at = self.skip(self.growth)
        while at < len(cells):
            if self.empty(cells[at]):
                self.things[cells[at]] = "stag" if self.chance.happens(0.5) else "hare"
            at += 1 + self.skip(self.growth)

    def blocks(self, thing: str) -> bool:
        return thing in ("wall", "stag", "hare")

    def act(self, number: int, action: int) -> None:
        if action == 4:
            self.hunting.add(number)
            self.done.append(("hunts", number))
        else:
            self.walk(number, action)

    def hunters(self, cell: Cell) -> list[int]:
        beside = [self.agent_at(each) for each in self.neighbours(cell)]
        return sorted(number for number in beside if number is not None and number in self.hunting)

    def after(self) -> None:
        for cell in [cell for cell in self.cells() if self.things.get(cell) == "stag"]:
            hunters = self.hunters(cell)
            if len(hunters) >= self.stag_hunters:
                del self.things[cell]
                for number in hunters:
                    self.paid[number] += 5.0
                    self.hunting.remove(number)
                    self.done.append(("stags", number))
        for cell in [cell for cell in self.cells() if self.things.get(cell) == "hare"]:
            hunters = self.hunters(cell)
            if len(hunters) >= self.hare_hunters:
                del self.things[cell]
                for number in hunters[: self.hare_hunters]:
                    self.paid[number] += 1.0
                    self.hunting.remove(number)
                    self.done.append(("hares", number))
        self.hunting = set()

    def deeds(self, number: int) -> dict[str, float]:
        return {what: self.done.count((what, number)) for what in ("hunts", "stags", "hares")}


class Cleanup(Reference):
    growth = 0.002
    channel: Sequence[int] = (15, 16)  # its columns
    ground: dict[Cell, str]
    beams: dict[Cell, tuple[str, int]]  # its kind, and whose it is
    done: list[tuple[str, int]]  # what, and who did it or had it done
    polluted: list[float]  # the share of the river after each turn

    def lay_out(self) -> None:
        self.beams, self.ground = {}, dict.fromkeys(self.inner(), "sand")
        self.done, self.polluted = [], []
        for row, column in self.inner():
            if row <= 6 or (row <= 12 and column in self.channel):
                self.ground[row, column] = "river"
            if row >= self.height - 7:
                self.ground[row, column] = "tree"

    def of_ground(self, *kinds: str) -> list[Cell]:
        return [cell for cell in self.cells() if self.ground.get(cell) in kinds]

    def furnish(self) -> None:
        for _ in range(20):
            free = [cell for cell in self.of_ground("tree") if self.empty(cell)]
            self.things[free[self.chance.below(len(free))]] = "apple"

    def change(self) -> None:
        river = self.of_ground("river", "polluted")
        at = self.skip(0.009)
        while at < len(river):
            self.ground[river[at]] = "polluted"
            at += 1 + self.skip(0.009)
        if len(self.of_ground("polluted")) / len(river) > 0.5:
            return
        trees = self.of_ground("tree")
        at = self.skip(self.growth)
        while at < len(trees):
            if self.empty(trees[at]):
                self.things[trees[at]] = "apple"
            at += 1 + self.skip(self.growth)

    def enter(self, number: int, thing: str) -> None:
        self.paid[number] += 1.0

    def covered(self, number: int) -> list[Cell]:
        """The cells under an agent's beam."""
        (row, column), (down, right) = self.agents[number].cell, STEPS[self.agents[number].heading]
        cells = []
        for side_row, side_column in ((-right, -down), (0, 0), (right, down)):
            for far in (1, 2, 3):
                cell = (row + side_row + far * down, column + side_column + far * right)
                if self.things.get(cell) == "wall":
                    break
                cells.append(cell)
        return cells

    def act(self, number: int, action: int) -> None:
        self.beams = {cell: beam for cell, beam in self.beams.items() if beam[1] != number}
        if action < 4:
            self.walk(number, action)
            return
        if action == 5:
            self.done.append(("zaps", number))
        for cell in self.covered(number):
            self.beams[cell] = ("cleaning beam" if action == 4 else "zapping beam", number)
            if action == 4 and self.ground.get(cell) == "polluted":
                self.ground[cell] = "river"
                self.done.append(("cleaned", number))
            other = self.agent_at(cell)
            if action == 5 and other is not None:
                self.paid[other] -= 1.0
                self.done.append(("zapped", other))

    def after(self) -> None:
        self.polluted.append(len(self.of_ground("polluted")) / len(self.of_ground("river", "polluted")))

    def deeds(self, number: int) -> dict[str, float]:
        done = {what: self.done.count((what, number)) for what in ("cleaned", "zaps", "zapped")}
        pollution = sum(self.polluted) / len(self.polluted)
        return {**self.items(number, ["apple"]), "world/pollution": pollution, **done}

    def planes_at(self, cell: Cell) -> set[str]:
        seen = super().planes_at(cell)
        if cell in self.ground:
            seen = seen | {self.ground[cell]}
        return seen | {self.beams[cell][0]} if cell in self.beams else seen
