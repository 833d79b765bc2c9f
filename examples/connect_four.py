"""Connect four in NumPy, many games at once: all it takes to bring a game of your own.

    keisei train examples/connect-four.yaml           both seats learn by playing each other
    keisei train examples/connect-four-random.yaml    one seat learns; a random player answers inside the environment

A board is two sets of stones, one per seat, of 64 bits each: column `c` is byte `c`, its lowest cell the lowest bit.
All that a game is lies in one record, so that saving it is a copy.
"""

import zlib

import numpy as np

from keisei.environment import PASS, Group
from keisei.errors import ActionError, StateError

COLUMNS, FULL_COLUMN, CELLS = 7, 0b111111, 42
DIRECTIONS = np.array([[1], [8], [7], [9]], np.uint64)  # up, right, and both diagonals: how far apart the bits are
GAME = np.dtype([("stones", np.uint64, 2), ("chance", np.uint64), ("turn", np.int8), ("plies", np.uint8)])
CHECKSUM_BYTES = 4


class ConnectFour:
    """Each game is a lane. By itself it has two seats that take turns; with `opponent="random"` only one."""

    reasons = ("going on", "four", "full")

    def __init__(self, copies=1, seed=0, first_lane=0, opponent=None):
        self.copies = self.lanes = copies
        self.opponent = opponent
        self.seats = ("agent",) if opponent else ("first", "second")
        lanes = np.arange(copies, dtype=np.int32)
        self.groups = (Group(lanes, (2, 6, 7), np.dtype(np.uint8), COLUMNS, "mask", COLUMNS),)
        self.state_bytes = GAME.itemsize + CHECKSUM_BYTES
        self.first_chance = scramble(scramble(np.full(1, seed, np.uint64)) + np.uint64(first_lane) + lanes.astype(np.uint64))
        self.rows, self.games = lanes, np.zeros(copies, GAME)
        self.stones, self.turn, self.plies = (self.games[name] for name in ("stones", "turn", "plies"))
        self.columns = self.stones[:, :, None].view(np.uint8)  # [copies, seats, 8]: the same memory
        self._begin(np.ones(copies, bool))

    def reset(self, observation):
        self._begin(np.ones(self.copies, bool))
        self.observe(observation)
