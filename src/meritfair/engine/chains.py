r"""How arms move when their pulls are known beforehand: 64 steps of a chain at a time.

For each step the same uniform number is compared with the chance of a good next state from the bad state and from
the good one. That gives two words, ``from_bad`` and ``from_good``, of where the arm would go. Where they agree the step
forgets the past; where only ``from_good`` is set it keeps the state; where only ``from_bad`` is set it flips it.

Seen through the number of flips so far (the running parity p), a flip also just keeps what was there. Then every step
either sets a value or passes one on, which is what the carry does in an addition: with *g* the steps that set a 1
and *q* those that pass on, the carries of g + (g | q) are the states. One addition moves 64 steps.

Lanes are laid out word by word: lane ``w * N + i`` holds steps 64 w to 64 w + 63 of arm i. The uniform numbers of
a lane do not depend on the pulls, and :mod:`meritfair.engine.coins`, for pulls that depend on states, makes the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.counting import AFTER, BLOCK, HEAD, IDLE, PULLED, ROWS, Tally, count, find_waits, place
from meritfair.engine.random import (
    LANES,
    LEVELS,
    ROW,
    ROW_2,
    ROW_3,
    advance,
    below,
    mask,
    next_word,
    rest_of,
    sign,
    thresholds,
)

# Lanes come in blocks of 64, and a block in rows. Rows of `limits`:
BAD = np.uint64(0)  # threshold of a good next state from bad, not pulled
BAD_PULL = np.uint64(LANES)  # its xor with the threshold when pulled
GOOD = np.uint64(2 * LANES)  # the same from good
GOOD_PULL = np.uint64(3 * LANES)
LIMITS = np.uint64(4 * LANES)  # how long a block is
# Rows of `work`, beside those that are counted:
_FROM_BAD = np.uint64(LANES)
_FROM_GOOD = np.uint64(2 * LANES)
_OPEN_BAD, _OPEN_GOOD = AFTER, HEAD  # at first, coins that are not decided yet
_TO_DO = IDLE  # at first, lanes with such coins, one more than there may be
_THREE = np.uint64(3)


class Chains(NamedTuple):
    """What moves the arms; arrays are flat, as views cost time in kernels."""

    limits: WordArray  # the chances of each lane's arm, as thresholds
    work: WordArray  # lanes in use: all of them, or one block if there is one word at a time
    state: WordArray  # (N,), 0 or 1


def new_chains(transitions: FloatArray, words: int) -> Chains:
    """Return chains of arms with these probabilities of a good next state, (N, 2, 2), for that many words at a time."""
    n_arms = len(transitions)
    blocks = -(-n_arms * words // LANES)
    in_use = blocks if words > 1 else 1
    lanes = thresholds(transitions)[np.arange(blocks * LANES) % n_arms]  # (lanes, 2, 2) by state and action
    rows = [lanes[:, 0, 0], lanes[:, 0, 0] ^ lanes[:, 0, 1], lanes[:, 1, 0], lanes[:, 1, 0] ^ lanes[:, 1, 1]]
    return Chains(
        np.stack([row.reshape(blocks, LANES) for row in rows], axis=1).ravel(),
        np.zeros(in_use * ROWS * LANES, np.uint64),
        np.zeros(n_arms, np.uint64),
    )


@part
def start_states(states: WordArray, source: WordArray) -> None:
    """Make each arm bad or good with probability 1/2."""
    bits = NONE
    for arm in range(len(states)):
        if arm % 64 == 0:
            bits = next_word(source)
        states[arm] = bits & ONE
        bits >>= ONE


@part
def _move_block(
    source: WordArray, limits: WordArray, limit: Any, work: WordArray, base: Any, pulls: WordArray, lane: Any, n: Any
) -> None:
    """Compare the first LEVELS bits of 64 numbers with both thresholds of each of n lanes, n a multiple of 4."""
    for i in range(n):
        s0, s1, s2, s3 = source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i]
        bad, bad_pull = limits[limit + BAD + i], limits[limit + BAD_PULL + i]
        good, good_pull = limits[limit + GOOD + i], limits[limit + GOOD_PULL + i]
        pulled = pulls[lane + i]
        open_bad, open_good, from_bad, from_good = ALL, ALL, NONE, NONE
        for _ in range(LEVELS):
            bit, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            wanted = sign(bad) ^ (pulled & sign(bad_pull))
            differs = bit ^ wanted
            from_bad |= open_bad & differs & wanted
            open_bad &= ~differs
            wanted = sign(good) ^ (pulled & sign(good_pull))
            differs = bit ^ wanted
            from_good |= open_good & differs & wanted
            open_good &= ~differs
            bad += bad
            bad_pull += bad_pull
            good += good
            good_pull += good_pull
        source[i], source[ROW + i], source[ROW_2 + i], source[ROW_3 + i] = s0, s1, s2, s3
        work[base + PULLED + i] = pulled
        work[base + _FROM_BAD + i], work[base + _FROM_GOOD + i] = from_bad, from_good
        work[base + _OPEN_BAD + i], work[base + _OPEN_GOOD + i] = open_bad, open_good


@part
def _finish_lane(limits: WordArray, limit: Any, work: WordArray, at: Any, key: Word, lane: Any) -> None:
    """Decide the coins of a lane that are still open, without branches: they could not be foreseen."""
    open_bad, open_good = work[_OPEN_BAD + at], work[_OPEN_GOOD + at]
    from_bad, from_good = work[_FROM_BAD + at], work[_FROM_GOOD + at]
    still = open_bad | open_good
    while still != NONE:
        bit = still & (NONE - still)
        still ^= bit
        pulled = mask(work[PULLED + at] & bit != NONE)
        rest = rest_of(key, lane, bit)
        from_bad |= bit & open_bad & mask(below(rest, limits[BAD + limit] ^ (limits[BAD_PULL + limit] & pulled)))
        from_good |= bit & open_good & mask(below(rest, limits[GOOD + limit] ^ (limits[GOOD_PULL + limit] & pulled)))
    work[_FROM_BAD + at], work[_FROM_GOOD + at] = from_bad, from_good


@part
def _join_block(work: WordArray, base: Any, n: Any) -> None:
    """Find the states after each step for a bad start, and the steps up to which the start is passed on."""
    for i in range(n):
        from_bad, from_good = work[base + _FROM_BAD + i], work[base + _FROM_GOOD + i]
        passes = from_bad ^ from_good
        parity = from_bad & ~from_good  # flips, then their running parity
        parity ^= parity << np.uint64(1)
        parity ^= parity << np.uint64(2)
        parity ^= parity << np.uint64(4)
        parity ^= parity << np.uint64(8)
        parity ^= parity << np.uint64(16)
        parity ^= parity << np.uint64(32)
        sets = ~passes & (from_bad ^ parity)
        carries = (sets + (sets | passes)) ^ passes  # as sets ^ (sets | passes) is passes
        work[base + AFTER + i] = (sets | (passes & carries)) ^ parity
        first_set = ~passes & (passes + ONE)
        work[base + HEAD + i] = first_set - ONE


@inlined
def _move(
    chains: Chains, source: WordArray, pulls: WordArray, first: int, lanes: int, whole_lanes: int, bits_in_last: int
) -> None:
    """Find where the steps of lanes from the first on go, but for the state at the start of each.

    Lanes that come after the whole ones are those of a word with fewer steps.
    """
    limits, work = chains.limits, chains.work
    begin, total, whole = np.uint64(first), np.uint64(lanes), np.uint64(whole_lanes)
    used = ALL >> np.uint64(64 - bits_in_last)
    for start in range(np.uint64(0), total, ROW):
        n, lane = min(ROW, total - start), begin + start
        base, limit = place(start, BLOCK), place(lane, LIMITS)
        padded = (n + _THREE) & ~_THREE
        _move_block(source, limits, limit, work, base, pulls, lane, padded)
        key, to_do = next_word(source), NONE
        for i in range(n):
            work[base + _TO_DO + to_do] = i
            still = work[base + _OPEN_BAD + i] | work[base + _OPEN_GOOD + i]
            to_do += np.uint64(still & (used | mask(start + i < whole)) != NONE)
        for k in range(to_do):
            i = work[base + _TO_DO + k]
            _finish_lane(limits, limit + i, work, base + i, key, i)
        _join_block(work, base, padded)
        find_waits(work, base, padded)


@stage
def walk(chains: Chains, tally: Tally, source: WordArray, pulls: WordArray, words: int, bits_in_last: int) -> int:
    """Move all arms through that many words of pulls, and count; return the reward.

    Changes the states, the tally, and the source. Bits of `pulls` beyond the last step are cleared.
    """
    n_arms, reward = len(chains.state), 0
    at_once = n_arms if words > 1 else LANES  # arms; one block after the other stays in the cache
    for first in range(0, n_arms, at_once):
        end = min(first + at_once, n_arms)
        lanes = (end - first) * words
        whole = lanes if bits_in_last == 64 else (end - first) * (words - 1)
        _move(chains, source, pulls, first, lanes, whole, bits_in_last)
        for arm in range(first, end):
            reward += count(chains.state, chains.work, tally, pulls, arm, first, n_arms, words, bits_in_last)
    return reward
