r"""How arms move when their pulls depend on their states: four coins for each arm and step.

The uniform numbers are the same as those of :mod:`meritfair.engine.chains`, taken in the same order: for each lane (an
arm and 64 steps) LEVELS random words, and a key for each block of lanes. They are compared with the chances of a good
next state from all four pairs of state and action. That gives four words of *coins*, of which each step uses one bit.
So whatever is pulled, an arm in the same state under the same action goes where it would have gone under another plan.

Coins are made by lane and then turned: a word for each step, with a bit for each of 64 arms. One step moves 64 arms
by a few instructions. States and pulls by step are turned back, a word at a time, and counted as in the other loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from meritfair.core.arrays import IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word, transpose
from meritfair.engine.chains import BAD, BAD_PULL, GOOD, GOOD_PULL, LIMITS, Chains
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.counting import AFTER, HEAD, PULLED, Tally, count, find_waits, place
from meritfair.engine.random import LANES, LEVELS, ROW, ROW_2, ROW_3, advance, below, mask, next_word, rest_of, sign

# Rows of `room`: first the coins of a block, by state and action, then the same coins that are not decided yet.
_CELLS = np.uint64(4)
_OPEN = np.uint64(4 * LANES)
_TO_DO = np.uint64(8 * LANES)  # lanes with such coins, one more than there may be
_ROOM = 9 * LANES + 1
_AFTER = np.uint64(2 * LANES)  # when arms have moved, their states; what is turned is in the first two rows
_HALF = np.uint64(32)
_TWO, _THREE = np.uint64(2), np.uint64(3)


class Coins(NamedTuple):
    """Where arms would go at each step, and where they went."""

    by_lane: WordArray  # four rows of lanes, by state and action: all coins of a chunk of words
    by_step: WordArray  # (64, 4, blocks): those of one word, each bit an arm
    states: WordArray  # (65, blocks): who is good before each step of the word, and after the last
    pulls: WordArray  # (64, blocks): who is pulled
    room: WordArray


def new_coins(n_arms: int, words: int) -> Coins:
    """Return room for that many arms and words at a time."""
    blocks = -(-n_arms // LANES)
    sizes = 4 * n_arms * words, 64 * 4 * blocks, 65 * blocks, 64 * blocks, _ROOM
    return Coins(*(np.zeros(size, np.uint64) for size in sizes))


# ---- making coins


@part
def _compare(bit: Word, limit: Word, still: Word, heads: Word) -> tuple[Word, Word, Word]:
    """Compare the next bit of 64 numbers with that of a threshold; return what is left of it, what is open, heads."""
    wanted = sign(limit)
    differs = bit ^ wanted
    return limit + limit, still & ~differs, heads | (still & differs & wanted)


@part
def _toss_block(source: WordArray, limits: WordArray, limit: Any, room: WordArray, n: Any) -> None:
    """Compare the first LEVELS bits of 64 numbers with all four thresholds of each of n lanes, n a multiple of 4."""
    for i in range(n):
        s0, s1, s2, s3 = source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i]
        l00, l10 = limits[limit + BAD + i], limits[limit + GOOD + i]
        l01, l11 = l00 ^ limits[limit + BAD_PULL + i], l10 ^ limits[limit + GOOD_PULL + i]
        o00, o01, o10, o11 = ALL, ALL, ALL, ALL
        h00, h01, h10, h11 = NONE, NONE, NONE, NONE
        for _ in range(LEVELS):
            bit, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            l00, o00, h00 = _compare(bit, l00, o00, h00)
            l01, o01, h01 = _compare(bit, l01, o01, h01)
            l10, o10, h10 = _compare(bit, l10, o10, h10)
            l11, o11, h11 = _compare(bit, l11, o11, h11)
        source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i] = s0, s1, s2, s3
        room[i], room[ROW + i], room[ROW_2 + i], room[ROW_3 + i] = h00, h01, h10, h11
        room[_OPEN + i], room[_OPEN + ROW + i] = o00, o01
        room[_OPEN + ROW_2 + i], room[_OPEN + ROW_3 + i] = o10, o11


@part
def _finish_lane(limits: WordArray, limit: Any, room: WordArray, key: Word, lane: Any) -> None:
    """Decide the coins of a lane that are still open."""
    l00, l10 = limits[limit + BAD], limits[limit + GOOD]
    l01, l11 = l00 ^ limits[limit + BAD_PULL], l10 ^ limits[limit + GOOD_PULL]
    o00, o01 = room[_OPEN + lane], room[_OPEN + ROW + lane]
    o10, o11 = room[_OPEN + ROW_2 + lane], room[_OPEN + ROW_3 + lane]
    h00, h01, h10, h11 = NONE, NONE, NONE, NONE
    still = o00 | o01 | o10 | o11
    while still != NONE:
        bit = still & (NONE - still)
        still ^= bit
        rest = rest_of(key, lane, bit)
        h00 |= bit & mask(below(rest, l00))
        h01 |= bit & mask(below(rest, l01))
        h10 |= bit & mask(below(rest, l10))
        h11 |= bit & mask(below(rest, l11))
    room[lane] |= h00 & o00
    room[ROW + lane] |= h01 & o01
    room[ROW_2 + lane] |= h10 & o10
    room[ROW_3 + lane] |= h11 & o11


@inlined
def _toss(chains: Chains, coins: Coins, source: WordArray, words: int) -> None:
    """Make the coins of all arms for that many words, by lane; the source moves on as in `chains.walk`."""
    limits, room, by_lane = chains.limits, coins.room, coins.by_lane
    total = np.uint64(words) * np.uint64(len(chains.state))
    for start in range(np.uint64(0), total, ROW):
        n, limit = min(ROW, total - start), place(start, LIMITS)
        _toss_block(source, limits, limit, room, (n + _THREE) & ~_THREE)
        key, to_do = next_word(source), NONE
        for i in range(n):
            room[_TO_DO + to_do] = i
            still = room[_OPEN + i] | room[_OPEN + ROW + i] | room[_OPEN + ROW_2 + i] | room[_OPEN + ROW_3 + i]
            to_do += np.uint64(still != NONE)
        for k in range(to_do):
            i = room[_TO_DO + k]
            _finish_lane(limits, limit + i, room, key, i)
        for cell in range(_CELLS):
            for i in range(n):
                by_lane[cell * total + start + i] = room[cell * ROW + i]


@part
def _together(n_arms: Any) -> Any:
    """Return how many of the four coins of all arms are turned at once: the fewer arms, the more."""
    return np.uint64(4 if n_arms <= 16 else 2 if n_arms <= 32 else 1)


@inlined
def _turn(coins: Coins, n_arms: int, words: int, word: int) -> None:
    """Turn the coins of one of the words that were made, so that there is a word of arms for each step."""
    arms, blocks, room = np.uint64(n_arms), np.uint64(len(coins.pulls) >> 6), coins.room
    total, first, together = np.uint64(words) * arms, np.uint64(word) * arms, _together(n_arms)
    width = ROW // together
    low = ALL >> (ROW - width)
    for block in range(blocks):
        n = min(ROW, arms - block * ROW)
        for cell in range(NONE, _CELLS, together):
            for i in range(ROW):
                room[i] = NONE
            for k in range(together):
                at = (cell + k) * total + first + block * ROW
                for i in range(n):
                    room[k * width + i] = coins.by_lane[at + i]
            transpose(room)
            for k in range(together):
                at, shift = (cell + k) * blocks + block, k * width
                for step in range(ROW):
                    coins.by_step[at] = (room[step] >> shift) & low
                    at += _CELLS * blocks


@stage
def make_coins(chains: Chains, coins: Coins, source: WordArray, words: int, word: int) -> int:
    """Make the coins of a word ready, and before the first of that many words those of all."""
    if word == 0:
        _toss(chains, coins, source, words)
    _turn(coins, len(chains.state), words, word)
    return 0


# ---- moving by them


@part
def pack(values: IntArray, words: WordArray, first: Any) -> None:
    """Set words from this one on to numbers 0 and 1, a bit for each."""
    n = np.uint64(len(values))
    for start in range(np.uint64(0), n, ROW):
        word = NONE
        for i in range(min(ROW, n - start)):
            word |= np.uint64(values[start + i]) << i
        words[first + (start >> np.uint64(6))] = word


@part
def unpack(words: WordArray, first: Any, values: IntArray) -> None:
    """Set numbers to the bits of words, from this one on."""
    n = np.uint64(len(values))
    for start in range(np.uint64(0), n, ROW):
        word = words[first + (start >> np.uint64(6))]
        for i in range(min(ROW, n - start)):
            values[start + i] = np.int64((word >> i) & ONE)


@inlined
def move(coins: Coins, step: Word) -> None:
    """Move all arms by one step of the word; `pulls` says who is pulled."""
    blocks, by_step, states = np.uint64(len(coins.pulls) >> 6), coins.by_step, coins.states
    now, at = step * blocks, step * blocks * _CELLS
    for block in range(blocks):
        pulled, good = coins.pulls[now + block], states[now + block]
        h00, h01 = by_step[at + block], by_step[at + blocks + block]
        h10, h11 = by_step[at + _TWO * blocks + block], by_step[at + _THREE * blocks + block]
        from_bad = h00 ^ (pulled & (h00 ^ h01))
        from_good = h10 ^ (pulled & (h10 ^ h11))
        states[now + blocks + block] = from_bad ^ (good & (from_bad ^ from_good))


# ---- counting


@part
def _load(words: WordArray, first: Any, blocks: Any, steps: Any, room: WordArray) -> None:
    """Put a block's words of that many steps into the room."""
    for step in range(steps):
        room[step] = words[first + step * blocks]
    for step in range(steps, ROW):
        room[step] = NONE


@part
def _turn_back(pulls: WordArray, states: WordArray, block: Any, blocks: Any, steps: Any, room: WordArray) -> None:
    """Turn the pulls of a block of arms, and the states after each step, into words by arm, in rows of the room."""
    _load(states, blocks + block, blocks, steps, room)
    transpose(room)
    for i in range(ROW):
        room[_AFTER + i] = room[i]
    _load(pulls, block, blocks, steps, room)
    transpose(room)


@part
def _turn_few_back(pulls: WordArray, states: WordArray, steps: Any, room: WordArray) -> None:
    """Do as `_turn_back` for one block of at most 32 arms, of which a word holds both."""
    _load(pulls, NONE, ONE, steps, room)
    for step in range(steps):
        room[step] |= states[step + ONE] << _HALF
    transpose(room)
    for i in range(_HALF):
        room[_AFTER + i] = room[_HALF + i]


@stage
def count_word(chains: Chains, tally: Tally, coins: Coins, pulls: WordArray, bits: int) -> int:
    """Count what happened in a word of that many steps, and make its last states the first; return the reward.

    The words of `pulls` of all arms are set.
    """
    n_arms, reward, steps = len(chains.state), 0, np.uint64(bits)
    blocks, work, room = np.uint64(len(coins.pulls) >> 6), chains.work, coins.room
    for block in range(blocks):
        first = np.int64(block) * LANES
        end = min(first + LANES, n_arms)
        if n_arms <= 32:
            _turn_few_back(coins.pulls, coins.states, steps, room)
        else:
            _turn_back(coins.pulls, coins.states, block, blocks, steps, room)
        for i in range(ROW):
            work[PULLED + i], work[AFTER + i], work[HEAD + i] = room[i], room[_AFTER + i], NONE
        for arm in range(first, end):
            pulls[arm] = room[arm - first]
        find_waits(work, NONE, ROW)
        for arm in range(first, end):
            reward += count(chains.state, work, tally, pulls, arm, first, n_arms, 1, bits)
        coins.states[block] = coins.states[steps * blocks + block]
    return reward
