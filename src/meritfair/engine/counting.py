"""What is counted of arms that have moved: visits and outcomes by state and action, and waits, 64 steps at a time.

It is the same whether pulls depend on states or not. Both ways of moving arms leave behind, for each lane (one arm, 64
steps), a word of pulls and a word of states after each step; all counts are numbers of ones in such words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word, count_ones, leading_zeros, trailing_zeros
from meritfair.engine.compiling import inlined, part
from meritfair.engine.random import LANES, ROW

# Lanes come in blocks of 64, and a block in rows. Rows that are counted:
PULLED = np.uint64(0)
AFTER = np.uint64(3 * LANES)  # the states after each step, if the first is bad
HEAD = np.uint64(4 * LANES)  # the steps up to which the first state is passed on, so that they differ if it is good
IDLE = np.uint64(5 * LANES)  # this row and the next two: where a wait of 8, 16 or 32 steps ends
_IDLE_16 = np.uint64(6 * LANES)
_IDLE_32 = np.uint64(7 * LANES)
ROWS = 9
BLOCK = np.uint64(ROWS * LANES)


class Tally(NamedTuple):
    """What was counted of the arms of one run."""

    visits: FloatArray  # (2, 2, N) by state and action; whole numbers, as floats for the arithmetic
    good: FloatArray  # (2, 2, N), those visits after which the state was good
    seen: IntArray  # (N,), which (s, a) the episode has visited, as bits
    waited: IntArray  # (N,), steps since the last pull
    longest_wait: IntArray  # (N,)


def new_tally(n_arms: int) -> Tally:
    """Return a tally of nothing."""
    cells, arms = np.zeros((2, 2, 2, n_arms)), np.zeros((3, n_arms), np.int64)
    return Tally(*cells, *arms)


@part
def place(lane: Any, size: Any) -> Any:
    """Return where a lane is in the first row of its block, for blocks of this size."""
    return (lane >> np.uint64(6)) * size + (lane & np.uint64(63))


@part
def find_waits(work: WordArray, base: Any, n: Any) -> None:
    """Find where long waits end in n lanes of a block."""
    for i in range(n):
        idle = ~work[base + PULLED + i]
        idle &= idle >> np.uint64(1)
        idle &= idle >> np.uint64(2)
        idle &= idle >> np.uint64(4)
        work[base + IDLE + i] = idle
        idle &= idle >> np.uint64(8)
        work[base + _IDLE_16 + i] = idle
        idle &= idle >> np.uint64(16)
        work[base + _IDLE_32 + i] = idle


@part
def _wait(pulls: Word, bits: int, waited: int, longest: int, long_enough: Word) -> tuple[int, int]:
    """Return the wait at the end of a word, and the longest so far.

    Only if `long_enough` is not empty can there be a longer one between two pulls of the word.
    """
    if pulls == NONE:
        waited += bits
        return waited, max(longest, waited)
    before = waited + np.int64(trailing_zeros(pulls))
    waited = bits - 64 + np.int64(leading_zeros(pulls))
    longest = max(longest, before, waited)
    if long_enough != NONE and longest < 62:
        longest = max(longest, _longest_between(pulls))
    return waited, longest


@part
def _idle_row(longest: int) -> Any:
    """Return the row of blocks that shows waits of 8, 16 or 32 steps, whichever is just at most longest + 1."""
    power = np.uint64(63) - leading_zeros(np.uint64(longest + 1) | np.uint64(8))
    return IDLE + ROW * (min(power, np.uint64(5)) - np.uint64(3))


@part
def _longest_between(pulls: Word) -> int:
    """Return the longest wait between two pulls of a word."""
    longest, last = 0, np.int64(trailing_zeros(pulls))
    rest = pulls & (pulls - ONE)
    while rest != NONE:
        here = np.int64(trailing_zeros(rest))
        longest = max(longest, here - last - 1)
        last = here
        rest &= rest - ONE
    return longest


@inlined
def count(
    states: WordArray,
    work: WordArray,
    tally: Tally,
    pulls: WordArray,
    arm: int,
    first: int,
    n_arms: int,
    words: int,
    bits_in_last: int,
) -> int:
    """Join the words of an arm and count what happened in them; return how often it was good.

    The first lane of `work` is that of the arm `first`. Bits of `pulls` beyond the last step are cleared.
    """
    state = states[arm]
    waited, longest = tally.waited[arm], tally.longest_wait[arm]
    idle_row, short = _idle_row(longest), ALL if longest < 7 else NONE
    steps = pulled = was_good = was_good_pulled = 0
    now_good = kept = pulled_good = kept_pulled = 0
    for word in range(words):
        bits = 64 if word < words - 1 else bits_in_last
        valid = ALL >> np.uint64(64 - bits)
        lane = word * n_arms + arm
        at = place(np.uint64(lane - first), BLOCK)
        action = pulls[lane] & valid
        pulls[lane] = action
        after = (work[AFTER + at] ^ (work[HEAD + at] & (NONE - state))) & valid
        before = ((after << ONE) | state) & valid
        state = (after >> np.uint64(bits - 1)) & ONE
        steps += bits
        pulled += np.int64(count_ones(action))
        was_good += np.int64(count_ones(before))
        was_good_pulled += np.int64(count_ones(before & action))
        now_good += np.int64(count_ones(after))
        kept += np.int64(count_ones(after & before))
        pulled_good += np.int64(count_ones(after & action))
        kept_pulled += np.int64(count_ones(after & before & action))
        waited, longest = _wait(action, bits, waited, longest, work[idle_row + at] | short)
    states[arm] = state
    tally.waited[arm], tally.longest_wait[arm] = waited, longest
    bad_passive = steps - pulled - was_good + was_good_pulled
    tally.visits[0, 0, arm] += bad_passive
    tally.visits[0, 1, arm] += pulled - was_good_pulled
    tally.visits[1, 0, arm] += was_good - was_good_pulled
    tally.visits[1, 1, arm] += was_good_pulled
    tally.good[0, 0, arm] += now_good - kept - pulled_good + kept_pulled
    tally.good[0, 1, arm] += pulled_good - kept_pulled
    tally.good[1, 0, arm] += kept - kept_pulled
    tally.good[1, 1, arm] += kept_pulled
    tally.seen[arm] |= (
        (bad_passive > 0)
        | (pulled > was_good_pulled) << 1
        | (was_good > was_good_pulled) << 2
        | (was_good_pulled > 0) << 3
    )
    return now_good
