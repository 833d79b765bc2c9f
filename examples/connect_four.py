"""Connect four in NumPy, many games at once: all it takes to bring a game of your own."""

import zlib

import numpy as np

from keisei.environment import PASS, Group
from keisei.errors import ActionError, StateError

# The cells of a board are 64 bits: column `c` is byte `c`, its lowest cell the lowest bit. PASS finds the last entry.
LOWEST = np.array([1 << 8 * column for column in range(7)] + [0], np.uint64)
NEXT = np.array([[1], [8], [7], [9]], np.uint64)  # up, sideways and both diagonals: how far the next bit is
NEXT_BUT_ONE, HALF, COIN, FULL_COLUMN, FULL_BOARD = 2 * NEXT, np.uint64(32), np.uint64(1 << 31), 0b111111, 42
GAME = np.dtype([("own", np.uint64), ("filled", np.uint64), ("chance", np.uint64), ("plies", np.int64)])


class ConnectFour:
    """Each game is a lane. Two seats take turns in it; with `opponent="random"` there is one, and chance replies."""

    reasons = ("going on", "four in a row", "full board")
    state_bytes = GAME.itemsize + 4

    def __init__(self, copies=1, seed=0, first_lane=0, opponent=None):
        self.copies = self.lanes = copies
        self.opponent, self.seats = opponent, ("agent",) if opponent else ("first", "second")
        self.groups = (Group(np.arange(copies, dtype=np.int32), (2, 6, 7), np.dtype(np.uint8), 7, "mask", 7),)
        self.begin = np.zeros(copies, GAME)
        self.begin["chance"] = np.random.Philox(key=seed, counter=first_lane).random_raw(4 * copies)[::4]
        self.games = self.begin.copy()
        self.own, self.filled, self.chance, self.plies = (self.games[name] for name in GAME.names)
        self.columns = self.filled[:, None].view(np.uint8)[:, :7]  # the same memory [copies, 7]

    def close(self): ...
    def reset(self, observation):
        self.games[:] = self.begin
        self.observe(observation)

    def observe(self, observation):
        (seen,) = observation
        seen.values[:] = self._views()
        seen.legal.actions[:] = self.columns < FULL_COLUMN
        seen.seat[:] = 0 if self.opponent else self.plies & 1

    def step(self, actions, step, observation):
        if len(actions) != 1 or actions[0].shape != self.own.shape or actions[0].dtype.kind not in "iu":
            raise ActionError(f"expected one array of {self.copies} integers")
        columns, plays = actions[0], actions[0] != PASS
        wrong = (columns < PASS) | (columns > 6) | (self.filled & LOWEST[columns & 7] << 5).astype(bool)
        if wrong.any():
            raise ActionError(f"illegal action {columns[wrong.argmax()]} in lane {wrong.argmax()}")
        step.reward[:], step.ended[:], step.cut_off[:], step.reason[:], step.length[:] = 0, False, False, 0, 0
        step.discount[:] = 1 if self.opponent else np.where(plays, -1, 1)
        won = self._drop(columns, plays, self.own)
        self.own ^= self.filled * (plays & (self.opponent is None))  # now the other decides
        self._finish(won, 1, step)
        if self.opponent:  # chance replies, and by a coin begins the next game where one has ended
            self._finish(self._reply(plays & (~step.ended | (self.chance & COIN).astype(bool))), -1, step)
        self.observe(observation)

    def _drop(self, columns, where, stones):
        """Drop a stone beside these stones, and tell where that makes four in a row."""
        stones |= self.filled + LOWEST[columns] * where & ~self.filled
        self.filled |= stones
        self.plies += where
        pairs = stones & stones >> NEXT
        return (pairs & pairs >> NEXT_BUT_ONE).any(0) & where

    def _reply(self, where):
        self.chance[where] = self.chance[where] * 6364136223846793005 + 1442695040888963407  # Knuth's generator
        free = (self.columns < FULL_COLUMN).cumsum(1, dtype=np.uint64)
        chosen = (self.chance >> HALF) * free[:, -1] >> HALF
        return self._drop((free > chosen[:, None]).argmax(1), where, self.own ^ self.filled)

    def _finish(self, four, reward, step):
        ended = (four | (self.plies == FULL_BOARD)).nonzero()[0]
        if len(ended):
            step.reward[four], step.discount[ended], step.ended[ended] = reward, 0, True
            step.reason[ended], step.length[ended] = 2 - four[ended], self.plies[ended]
            step.final[0][ended] = self._views()[ended]
            self.own[ended], self.filled[ended], self.plies[ended] = 0, 0, 0

    def _views(self):  # [copies, 2, 6, 7]: the stones of who decides, then the other's, top row first
        stones = np.array([self.own, self.own ^ self.filled]).view(np.uint8)
        bits = np.unpackbits(stones, axis=1, bitorder="little").reshape(2, self.copies, 8, 8)
        return bits[:, :, :7, 5::-1].transpose(1, 0, 3, 2)

    def save_state(self, out):
        out[:] = sealed(self.games)

    def load_state(self, saved):
        games = np.frombuffer(saved[:, : GAME.itemsize].tobytes(), GAME)
        if len(games) != self.copies or not np.array_equal(sealed(games), saved):
            raise StateError(f"expected the states of {self.copies} games, each with its checksum")
        self.games[:] = games


def sealed(games):
    rows = games.view(np.uint8).reshape(len(games), -1)
    return np.hstack([rows, np.array([[zlib.crc32(row)] for row in rows], "<u4").view(np.uint8)])
