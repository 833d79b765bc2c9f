"""Chance in a world: every world draws from a stream of its own, word by word, and its place counts the words.

Word `i` of world `n` is word `i % 4` of Philox 4x32-10 at counter (i // 4, n) under the seed as key, both in two halves
of 32 bits, the low one first. World files call these functions; they are compiled with them.
"""

from __future__ import annotations

import math

from keisei.gridworld.place import Place

NEVER = 1 << 30
"""A gap that no map is long enough for."""

_WORD = 0xFFFFFFFF


def philox(index: int, world: int, seed: int) -> tuple[int, int, int, int]:
    """The four words at one counter; signed 64-bit arithmetic that wraps gives the same as Python's."""
    c0, c1, c2, c3 = index & _WORD, index >> 32 & _WORD, world & _WORD, world >> 32 & _WORD
    k0, k1 = seed & _WORD, seed >> 32 & _WORD
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32 & _WORD) ^ c1 ^ k0, b & _WORD, (a >> 32 & _WORD) ^ c3 ^ k1, a & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def word(place: Place) -> int:
    """The next 32 random bits of this world."""
    index = int(place.drawn)
    if index % 4 == 0:
        a, b, c, d = philox(index // 4, int(place.world), int(place.seed))
        place.words[0], place.words[1], place.words[2], place.words[3] = a, b, c, d
    place.drawn = index + 1
    return int(place.words[index % 4])


def below(place: Place, count: int) -> int:
    """One of 0..count-1, equally likely."""
    return word(place) * count >> 32


def happens(place: Place, probability: float) -> bool:
    """Whether something of this probability happens."""
    return word(place) < probability * 4294967296.0


def keep_rate(probability: float) -> float:
    """What `gap` needs to know of a probability: the logarithm of that of staying as it is."""
    if probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return -math.inf
    return math.log1p(-probability)


def gap(place: Place, rate: float) -> int:
    """How many cells stay as they are before the next one changes, each with the same probability."""
    if rate == 0.0:
        return NEVER
    if rate == -math.inf:
        return 0
    skipped = math.log((word(place) + 1.0) / 4294967296.0) / rate
    return int(min(skipped, float(NEVER)))
