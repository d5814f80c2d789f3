r"""How arms move when their pulls are known beforehand: 64 steps of a chain at a time.

For each step the same uniform number is compared with the chance of a good next state from the bad state and from
the good one. That gives two words, ``from_bad`` and ``from_good``, of where the arm would go. Where they agree the step
forgets the past; where only ``from_good`` is set it keeps the state; where only ``from_bad`` is set it flips it.

Seen through the number of flips so far (the running parity p), a flip also just keeps what was there. Then every step
either sets a value or passes one on, which is what the carry does in an addition: with *g* the steps that set a 1
and *q* those that pass on, the carries of g + (g | q) are the states. One addition moves 64 steps.

Lanes are laid out word by word: lane ``w * N + i`` holds steps 64 w to 64 w + 63 of arm i.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word, count_ones, leading_zeros, trailing_zeros
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.random import LANES, LEVELS, ROW, ROW_2, ROW_3, advance, below, mask, next_word, sign, thresholds

# Lanes come in blocks of 64, and a block in rows. Rows of `limits`:
_BAD = np.uint64(0)  # threshold of a good next state from bad, not pulled
_BAD_PULL = np.uint64(LANES)  # its xor with the threshold when pulled
_GOOD = np.uint64(2 * LANES)  # the same from good
_GOOD_PULL = np.uint64(3 * LANES)
_LIMITS_SIZE = np.uint64(4 * LANES)
# Rows of `work`:
_PULLED = np.uint64(0)
_FROM_BAD = np.uint64(LANES)
_FROM_GOOD = np.uint64(2 * LANES)
_OPEN_BAD = np.uint64(3 * LANES)  # coins that are not decided yet; then the states after each step, from bad
_OPEN_GOOD = np.uint64(4 * LANES)  # then the steps up to which the first state is passed on
_AFTER, _HEAD = _OPEN_BAD, _OPEN_GOOD
_IDLE = np.uint64(5 * LANES)  # this row and the next two: where a wait of 8, 16 or 32 steps ends
_IDLE_16 = np.uint64(6 * LANES)
_IDLE_32 = np.uint64(7 * LANES)
_TO_DO = _IDLE  # lanes with coins that are not decided, one more than there may be
_WORK = 9
_WORK_SIZE = np.uint64(_WORK * LANES)
_THREE = np.uint64(3)


class Chains(NamedTuple):
    """What moves the arms; arrays are flat, as views cost time in kernels."""

    limits: WordArray  # the chances of each lane's arm, as thresholds
    work: WordArray  # lanes in use: all of them, or one block if there is one word at a time
    state: WordArray  # (N,), 0 or 1


class Tally(NamedTuple):
    """What was counted of the arms of one run."""

    visits: FloatArray  # (2, 2, N) by state and action; whole numbers, as floats for the arithmetic
    good: FloatArray  # (2, 2, N), those visits after which the state was good
    seen: IntArray  # (N,), which (s, a) the episode has visited, as bits
    waited: IntArray  # (N,), steps since the last pull
    longest_wait: IntArray  # (N,)


def new_chains(transitions: FloatArray, words: int) -> Chains:
    """Return chains of arms with these probabilities of a good next state, (N, 2, 2), for that many words at a time."""
    n_arms = len(transitions)
    blocks = -(-n_arms * words // LANES)
    in_use = blocks if words > 1 else 1
    lanes = thresholds(transitions)[np.arange(blocks * LANES) % n_arms]  # (lanes, 2, 2) by state and action
    rows = [lanes[:, 0, 0], lanes[:, 0, 0] ^ lanes[:, 0, 1], lanes[:, 1, 0], lanes[:, 1, 0] ^ lanes[:, 1, 1]]
    return Chains(
        np.stack([row.reshape(blocks, LANES) for row in rows], axis=1).ravel(),
        np.zeros(in_use * _WORK * LANES, np.uint64),
        np.zeros(n_arms, np.uint64),
    )


def new_tally(n_arms: int) -> Tally:
    """Return a tally of nothing."""
    cells, arms = np.zeros((2, 2, 2, n_arms)), np.zeros((3, n_arms), np.int64)
    return Tally(*cells, *arms)


@part
def _place(lane: Any, size: Any) -> Any:
    """Return where a lane is in the first row of its block, for blocks of this size."""
    return (lane >> np.uint64(6)) * size + (lane & np.uint64(63))


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
        bad, bad_pull = limits[limit + _BAD + i], limits[limit + _BAD_PULL + i]
        good, good_pull = limits[limit + _GOOD + i], limits[limit + _GOOD_PULL + i]
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
        work[base + _PULLED + i] = pulled
        work[base + _FROM_BAD + i], work[base + _FROM_GOOD + i] = from_bad, from_good
        work[base + _OPEN_BAD + i], work[base + _OPEN_GOOD + i] = open_bad, open_good


@part
def _finish_lane(source: WordArray, limits: WordArray, limit: Any, work: WordArray, at: Any) -> None:
    """Decide the coins of a lane that are still open, without branches: they could not be foreseen."""
    open_bad, open_good = work[_OPEN_BAD + at], work[_OPEN_GOOD + at]
    from_bad, from_good = work[_FROM_BAD + at], work[_FROM_GOOD + at]
    still = open_bad | open_good
    while still != NONE:
        bit = still & (NONE - still)
        still ^= bit
        pulled = mask(work[_PULLED + at] & bit != NONE)
        rest = next_word(source)
        from_bad |= bit & open_bad & mask(below(rest, limits[_BAD + limit] ^ (limits[_BAD_PULL + limit] & pulled)))
        from_good |= bit & open_good & mask(below(rest, limits[_GOOD + limit] ^ (limits[_GOOD_PULL + limit] & pulled)))
    work[_FROM_BAD + at], work[_FROM_GOOD + at] = from_bad, from_good


@part
def _join_block(work: WordArray, base: Any, n: Any) -> None:
    """Find the states after each step for a bad start, the steps up to which the start is passed on, and long waits."""
    for i in range(n):
        from_bad, from_good = work[base + _FROM_BAD + i], work[base + _FROM_GOOD + i]
        idle = ~work[base + _PULLED + i]
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
        work[base + _AFTER + i] = (sets | (passes & carries)) ^ parity
        first_set = ~passes & (passes + ONE)
        work[base + _HEAD + i] = first_set - ONE
        idle &= idle >> np.uint64(1)
        idle &= idle >> np.uint64(2)
        idle &= idle >> np.uint64(4)
        work[base + _IDLE + i] = idle
        idle &= idle >> np.uint64(8)
        work[base + _IDLE_16 + i] = idle
        idle &= idle >> np.uint64(16)
        work[base + _IDLE_32 + i] = idle


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
        base, limit = _place(start, _WORK_SIZE), _place(lane, _LIMITS_SIZE)
        padded = (n + _THREE) & ~_THREE
        _move_block(source, limits, limit, work, base, pulls, lane, padded)
        to_do = NONE
        for i in range(n):
            work[base + _TO_DO + to_do] = i
            still = work[base + _OPEN_BAD + i] | work[base + _OPEN_GOOD + i]
            to_do += np.uint64(still & (used | mask(start + i < whole)) != NONE)
        for k in range(to_do):
            i = work[base + _TO_DO + k]
            _finish_lane(source, limits, limit + i, work, base + i)
        _join_block(work, base, padded)


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
    return _IDLE + ROW * (min(power, np.uint64(5)) - np.uint64(3))


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
            reward += _count(chains, tally, pulls, arm, first, n_arms, words, bits_in_last)
    return reward


@inlined
def _count(
    chains: Chains, tally: Tally, pulls: WordArray, arm: int, first: int, n_arms: int, words: int, bits_in_last: int
) -> int:
    """Join the words of an arm and count what happened in them; return how often it was good."""
    state, work = chains.state[arm], chains.work
    waited, longest = tally.waited[arm], tally.longest_wait[arm]
    idle_row, short = _idle_row(longest), ALL if longest < 7 else NONE
    steps = pulled = was_good = was_good_pulled = 0
    now_good = kept = pulled_good = kept_pulled = 0
    for word in range(words):
        bits = 64 if word < words - 1 else bits_in_last
        valid = ALL >> np.uint64(64 - bits)
        lane = word * n_arms + arm
        at = _place(np.uint64(lane - first), _WORK_SIZE)
        action = pulls[lane] & valid
        pulls[lane] = action
        after = (work[_AFTER + at] ^ (work[_HEAD + at] & (NONE - state))) & valid
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
    chains.state[arm] = state
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
