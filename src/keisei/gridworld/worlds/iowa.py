"""Iowa gambling: four kinds of cards; those that pay more at once cost more in the long run."""

from __future__ import annotations

from keisei.gridworld.chance import below, gap, happens, keep_rate
from keisei.gridworld.moves import pay, walk, wall_around
from keisei.gridworld.place import Place, number, probability
from keisei.gridworld.view import View
from keisei.gridworld.world import Kind, World

NOTHING, WALL, AGENT, DECK_A, DECK_B, DECK_C, DECK_D = range(7)


class Iowa(Place):
    """The numbers of this world, each a key of its configuration."""

    height: int = number(20, "rows", least=3, most=1000)
    width: int = number(20, "columns", least=3, most=1000)
    agents: int = number(2, "agents in each world", least=1, most=128)
    growth: float = probability(0.01, "of a card appearing in an empty inner cell, each turn")
    entering: float = number(0.1, "what entering any card pays")
    a_gain: float = number(1.0, "what deck A pays")
    a_loss: float = number(-2.5, "what deck A pays besides, sometimes")
    a_risk: float = probability(0.5, "of that")
    b_gain: float = number(1.0, "what deck B pays")
    b_loss: float = number(-12.5, "what deck B pays besides, sometimes")
    b_risk: float = probability(0.1, "of that")
    c_gain: float = number(0.5, "what deck C pays")
    c_loss: float = number(-0.5, "what deck C pays besides, sometimes")
    c_risk: float = probability(0.5, "of that")
    d_gain: float = number(0.5, "what deck D pays")
    d_loss: float = number(-2.5, "what deck D pays besides, sometimes")
    d_risk: float = probability(0.1, "of that")


def lay_out(place: Iowa) -> None:
    """An outer wall."""
    wall_around(place, WALL)


def change(place: Iowa) -> None:
    """Cards appear: from cell to cell that changes, in reading order; what is not empty stays as it is."""
    columns = place.width - 2
    inner = (place.height - 2) * columns
    rate = keep_rate(place.growth)
    cell = gap(place, rate)
    while cell < inner:
        row, column = 1 + cell // columns, 1 + cell % columns
        if place.cells[0, row, column] == NOTHING:
            place.cells[0, row, column] = DECK_A + below(place, 4)
        cell += 1 + gap(place, rate)


def act(place: Iowa, agent: int, action: int) -> None:
    """The four actions are the four directions; a card that is entered is played."""
    card = walk(place, agent, action)
    if card == DECK_A:
        play(place, agent, place.a_gain, place.a_loss, place.a_risk)
    elif card == DECK_B:
        play(place, agent, place.b_gain, place.b_loss, place.b_risk)
    elif card == DECK_C:
        play(place, agent, place.c_gain, place.c_loss, place.c_risk)
    elif card == DECK_D:
        play(place, agent, place.d_gain, place.d_loss, place.d_risk)


def play(place: Iowa, agent: int, gain: float, loss: float, risk: float) -> None:
    """Pay for a card, and sometimes take it back."""
    pay(place, agent, place.entering)
    pay(place, agent, gain)
    if happens(place, risk):
        pay(place, agent, loss)


WORLD = World(
    place=Iowa,
    kinds=(
        Kind("nothing", (236, 232, 220)),
        Kind("wall", (92, 86, 80), blocks=True, shape="brick"),
        Kind("agent", (38, 112, 190), blocks=True, shape="agent"),
        Kind("deck A", (196, 62, 74), item=True, shape="card"),
        Kind("deck B", (232, 150, 60), item=True, shape="card"),
        Kind("deck C", (92, 150, 84), item=True, shape="card"),
        Kind("deck D", (108, 96, 170), item=True, shape="card"),
    ),
    agent="agent",
    lay_out=lay_out,
    change=change,
    act=act,
    view=View(radius=2),
)
