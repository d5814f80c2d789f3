r"""Random numbers in kernels: xoshiro256++, one at a time or 64 generators side by side.

A *source* is one array of words: 64 generators in rows (row k holds word k of every state, so that a loop over
the generators becomes vector instructions), rows to work in, and one more generator for single numbers.
It is filled from a ``SeedSequence``, so each run has its own. Rows are at fixed places of one array and are indexed
by unsigned integers, because only then can the compiler see that they do not overlap.

**Coins, 64 at a time.** A chance p is a threshold of 64 bits, p · 2^64, and a coin shows heads when a uniform
number of 64 bits is below it. The 64 uniform numbers of a word are compared bit by bit from the top: one random
word gives the next bit of all of them, and a coin is decided at the first bit where number and threshold differ.
After ``LEVELS`` bits, in one straight line, one coin in 2^LEVELS is still open; those few get the rest of their
number in one piece. So every coin is exact to the last bit of its chance, and most cost two random bits.

**The same coins for all.** Where the chances are not known beforehand, as a pull decides which one counts, the rest of
a number is a hash of its place (`rest_of`), with a key that is drawn once for each block of 64 words. Then the numbers,
and all that are drawn after them, do not depend on the chances that they are compared with.

References
----------
D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators", ACM Trans. Math. Softw. 47 (2021).
G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA (2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word, trailing_zeros
from meritfair.engine.compiling import part

LANES = 64
LEVELS = 9
_TWO_64 = 18446744073709551616.0

ROW = np.uint64(LANES)
ROW_2 = np.uint64(2 * LANES)
ROW_3 = np.uint64(3 * LANES)
_OPEN = np.uint64(4 * LANES)  # rows 0 to 3 are the states of the 64 generators; here, coins not decided yet
_TO_DO = np.uint64(5 * LANES)  # words that have such coins
_THREE = np.uint64(3)
_SINGLE = 6 * LANES + 1  # the state of the generator for single numbers


def new_source(sequence: np.random.SeedSequence) -> WordArray:
    """Return a source seeded from a sequence."""
    source = np.zeros(_SINGLE + 4, dtype=np.uint64)
    state = sequence.generate_state(4 * LANES + 4, np.uint64)
    source[: 4 * LANES] = state[:-4]
    source[_SINGLE:] = state[-4:]
    return source


@part
def advance(s0: Word, s1: Word, s2: Word, s3: Word) -> tuple[Word, Word, Word, Word, Word]:
    """Return the next output of xoshiro256++ and its new state."""
    x = s0 + s3
    output = ((x << np.uint64(23)) | (x >> np.uint64(41))) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return output, s0, s1, s2, s3


@part
def next_word(source: WordArray) -> Word:
    """Return one random word."""
    output, s0, s1, s2, s3 = advance(source[_SINGLE], source[_SINGLE + 1], source[_SINGLE + 2], source[_SINGLE + 3])
    source[_SINGLE], source[_SINGLE + 1], source[_SINGLE + 2], source[_SINGLE + 3] = s0, s1, s2, s3
    return output


@part
def uniform(source: WordArray) -> float:
    """Return a uniform number in [0, 1) of 53 bits."""
    return np.float64(next_word(source) >> np.uint64(11)) * 1.1102230246251565e-16


@part
def open_uniform(source: WordArray) -> float:
    """Return a uniform number in (0, 1], whose logarithm exists."""
    return np.float64((next_word(source) >> np.uint64(11)) + np.uint64(1)) * 1.1102230246251565e-16


def thresholds(chances: FloatArray) -> WordArray:
    """Return chances as thresholds of 64 bits, as `threshold` does one at a time."""
    certain = chances >= 1.0
    return np.where(certain, ALL, (np.where(certain, 0.0, chances) * _TWO_64).astype(np.uint64))


@part
def threshold(chance: float) -> Word:
    """Return a chance as a threshold of 64 bits; ALL stands for certain."""
    if chance >= 1.0:
        return ALL
    return np.uint64(chance * _TWO_64)


@part
def random_words(source: WordArray, words: WordArray) -> None:
    """Fill 64 words, one from each generator."""
    for i in range(ROW):
        output, s0, s1, s2, s3 = advance(source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i])
        source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i] = s0, s1, s2, s3
        words[i] = output


@part
def mask(condition: bool) -> Word:
    """Return a word of all ones or all zeros."""
    return NONE - np.uint64(condition)


@part
def sign(word: Word) -> Word:
    """Return the top bit of a word in all places."""
    return np.uint64(np.int64(word) >> np.int64(63))


@part
def _toss_block(source: WordArray, limits: WordArray, start: Any, heads: WordArray, first: Any, n: Any) -> None:
    """Compare the first LEVELS bits of 64 numbers with the threshold of each of n words."""
    for i in range(n):
        s0, s1, s2, s3 = source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i]
        limit = limits[start + i]
        undecided, word = ALL, NONE
        for _ in range(LEVELS):
            bit, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            wanted = sign(limit)
            differs = bit ^ wanted
            word |= undecided & differs & wanted
            undecided &= ~differs
            limit += limit
        source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i] = s0, s1, s2, s3
        source[_OPEN + i] = undecided
        heads[first + i] = word


@part
def toss_words(source: WordArray, limits: WordArray, heads: WordArray, heads_from: int, total: int) -> None:
    """Toss 64 coins for each of `total` thresholds: bit h of a word of heads is set with the chance of its limit.

    Whatever follows in either array, up to three words, may be read and overwritten.
    """
    start, first, left = NONE, np.uint64(heads_from), np.uint64(total)
    while left > NONE:
        n = min(ROW, left)
        _toss_block(source, limits, start, heads, first, (n + _THREE) & ~_THREE)
        to_do = NONE
        for i in range(n):
            source[_TO_DO + to_do] = i
            to_do += np.uint64(source[_OPEN + i] != NONE)
        for k in range(to_do):
            i = source[_TO_DO + k]
            limit, still, word = limits[start + i], source[_OPEN + i], heads[first + i]
            while still != NONE:
                word |= still & (NONE - still) & mask(below(next_word(source), limit))
                still &= still - ONE
            heads[first + i] = word
        start, first, left = start + n, first + n, left - n


@part
def rest_of(key: Word, lane: Any, bit: Word) -> Word:
    """Return the rest of a number: a hash (that of SplitMix64) of its lane in a block, its bit, and the block's key."""
    place = (lane << np.uint64(6)) + trailing_zeros(bit) + ONE
    z = key + place * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@part
def below(rest: Word, limit: Word) -> bool:
    """Whether a number that equals a threshold in its first LEVELS bits is below it, given the rest of its bits."""
    return rest < limit << np.uint64(LEVELS) or limit == ALL
