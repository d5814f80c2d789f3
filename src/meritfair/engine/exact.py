r"""Draws in which every arm is pulled with a given probability, and always the same number of arms.

`given` holds exposures, which sum to the budget. Arms of exposure 1 are pulled and those of 0 are not; the others,
whose exposures :math:`p_1, p_2, \dots` sum to a whole number as well, stand in an order that is shuffled anew for each
256 steps. There are two drawers, both without a branch that depends on chance:

**Rounding.** A carrier walks along the order with what has been pooled so far, a number :math:`a < 1`, and meets
arm j. If :math:`a + p_j < 1`, one of the two takes all of it, arm j with chance :math:`p_j / (a + p_j)`, and the other
is out. Else one of them is pulled, arm j with chance :math:`(1 - a) / (2 - a - p_j)`, and the other continues with
:math:`a + p_j - 1`. What is pooled never depends on chance, so each arm needs one coin, 64 steps at a time; going back
along the order then tells which arms were carriers that are pulled in the end.

**Systematic.** The exposures are laid end to end on a circle of circumference 1, and a point is thrown: the arms over
it are pulled. The point is below just one of the two ends of such an arm, or, if the arm passes zero, below both or
none. Lengths are words, so they add up without rounding; all arms compare the same 64 points, bit by bit.

References
----------
J.-C. Deville and Y. Tillé, "Unequal probability sampling without replacement through a splitting method", Biometrika 85
(1998). R. Gandhi, S. Khuller, S. Parthasarathy and A. Srinivasan, "Dependent rounding and its applications to
approximation algorithms", J. ACM 53 (2006). W. G. Madow, "On the theory of systematic sampling, II", Ann. Math.
Statist. 20 (1949).
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, trailing_zeros
from meritfair.engine.compiling import call, kernel, part, stage
from meritfair.engine.lotteries import COINS, DRAWN, LIMITS, ORDER, PULLS, ZERO, Drawing
from meritfair.engine.random import LEVELS, mask, next_word, random_words, sign, threshold, toss_words

_FLIPS, _RANDOM = 3, 4  # rows of `words`: whether an arm completes a pull; random bits, and what is not decided yet
_WORDS_IN_ORDER = 4  # of 64 steps
_STEP = np.int64(1)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@stage
def draw_by_rounding(
    drawing: Drawing, source: WordArray, given: FloatArray, _budget: int, words: int, _bits: int, new: bool
) -> int:
    """Draw the pulls of that many words of steps by dependent rounding of the exposures."""
    n_arms, order = len(given), drawing.ints[ORDER]
    pulls, coins = drawing.words[PULLS], drawing.words[COINS]
    limits, flips = drawing.words[LIMITS], drawing.words[_FLIPS]
    if new:
        drawing.facts[DRAWN] = _part_certain(order, given)
    drawn, pooled = drawing.facts[DRAWN], 0.0
    for word in range(words):
        first = word * n_arms
        _pull_certain(pulls, order, given, first, drawn)
        if word % _WORDS_IN_ORDER == 0:
            shuffle(order, drawn, source)
            pooled = _set_coins(limits, flips, order, given, drawn)
        toss_words(source, limits, coins, ZERO, drawn)
        carrier = ALL if pooled > 0.5 else NONE  # whether the carrier is pulled in the end: now it is certain
        for k in range(drawn - 1, -1, -1):
            flip = flips[k]
            coin, inside = coins[k] ^ flip, carrier ^ flip
            pulls[first + order[k]] = (coin & inside) ^ flip
            carrier = (~coin & inside) ^ flip
    return 0


@part
def _set_coins(limits: WordArray, flips: WordArray, order: IntArray, given: FloatArray, drawn: int) -> float:
    """Set the coin of each arm in the order, and whether it completes a pull; return what is pooled at the end."""
    pooled = 0.0
    for k in range(drawn):
        exposure = given[order[k]]
        both = pooled + exposure
        full = both >= 1.0
        limits[k] = threshold((1.0 - pooled if full else exposure) / (2.0 - both if full else both))
        flips[k] = mask(full)
        pooled = both - 1.0 if full else both
    return pooled


@stage
def draw_systematically(
    drawing: Drawing, source: WordArray, given: FloatArray, _budget: int, words: int, _bits: int, new: bool
) -> int:
    """Draw the pulls of that many words of steps by systematic sampling of the exposures."""
    n_arms, order, lengths = len(given), drawing.ints[ORDER], drawing.words[_FLIPS]
    pulls, below, ends = drawing.words[PULLS], drawing.words[COINS], drawing.words[LIMITS]
    random, undecided = drawing.words[_RANDOM], drawing.words[_RANDOM + 1]
    if new:
        drawing.facts[DRAWN] = _part_certain(order, given)
        _measure(lengths, order, given, drawing.facts[DRAWN])
    drawn = drawing.facts[DRAWN]
    for word in range(words):
        first = word * n_arms
        _pull_certain(pulls, order, given, first, drawn)
        if word % _WORDS_IN_ORDER == 0:
            shuffle(order, drawn, source)
            end = NONE
            for k in range(drawn):
                end += lengths[order[k]]  # modulo 1
                ends[k] = end
        _compare(source, random, ends, below, undecided, drawn)
        before, end = NONE, NONE
        for k in range(drawn):
            passes_zero = ALL if ends[k] < end else NONE
            pulls[first + order[k]] = below[k] ^ before ^ passes_zero
            before, end = below[k], ends[k]
    return 0


@part
def _part_certain(order: IntArray, given: FloatArray) -> int:
    """Put the arms that are drawn by chance first in the order; return how many they are.

    They are none if together they come to nothing, or to all of them, but for rounding.
    """
    n_arms, drawn, total = len(given), 0, 0.0
    for arm in range(n_arms):
        order[drawn] = arm
        if 0.0 < given[arm] < 1.0:
            drawn += 1
            total += given[arm]
    certain = drawn
    for arm in range(n_arms):
        if not 0.0 < given[arm] < 1.0:
            order[certain] = arm
            certain += 1
    return drawn if 0.5 < total < drawn - 0.5 else 0


@part
def _pull_certain(pulls: WordArray, order: IntArray, given: FloatArray, first: int, drawn: int) -> None:
    """Set the pulls of the arms that are not drawn by chance, in the word whose first lane this is."""
    for k in range(drawn, len(given)):
        pulls[first + order[k]] = ALL if given[order[k]] > 0.5 else NONE


@part
def shuffle(order: IntArray, n: int, source: WordArray) -> None:
    """Put the first n in a random order; two places from each random word, uniform up to n in 2^32."""
    left = n
    while left > 1:
        word = next_word(source)
        for half in (word & _LOW_HALF, word >> _HALF):
            if left > 1:
                place = np.int64((half * np.uint64(left)) >> _HALF)
                left -= 1
                order[left], order[place] = order[place], order[left]


@part
def _measure(lengths: WordArray, order: IntArray, given: FloatArray, drawn: int) -> None:
    """Set the length of each arm on a circle of 2^64, such that together they are whole turns.

    What rounding has added is taken from the longest, what it has taken is given to the shortest.
    """
    total, longest, shortest = NONE, order[0], order[0]
    for k in range(drawn):
        arm = order[k]
        lengths[arm] = threshold(given[arm])
        total += lengths[arm]
        longest = arm if given[arm] > given[longest] else longest
        shortest = arm if given[arm] < given[shortest] else shortest
    if drawn > 0:
        lengths[longest if np.int64(total) > 0 else shortest] -= total


@part
def _compare(
    source: WordArray, random: WordArray, ends: WordArray, below: WordArray, undecided: WordArray, n: int
) -> None:
    """Throw 64 points, the same for all, and set in which steps the point is below each end."""
    random_words(source, random)
    for k in range(n):
        end, still, word = ends[k], ALL, NONE
        for level in range(LEVELS):
            wanted = sign(end)
            differs = random[level] ^ wanted
            word |= still & differs & wanted
            still &= ~differs
            end += end
        below[k], undecided[k] = word, still
    random_words(source, random)  # the other bits of each of the 64 points
    for k in range(n):
        still = undecided[k]
        while still != NONE:
            bit = still & (NONE - still)
            if random[trailing_zeros(still)] < ends[k] << np.uint64(LEVELS):
                below[k] |= bit
            still ^= bit


@kernel
def draw_once_each(
    drawer: int, drawing: Drawing, source: WordArray, exposure: FloatArray, budget: int, chosen: BoolArray
) -> None:
    """Make one draw after another, each in an order of its own: `chosen` has shape (draws, N)."""
    for number in range(len(chosen)):
        call(drawer, drawing, source, exposure, budget, _STEP, _STEP, number == 0)
        for arm in range(len(exposure)):
            chosen[number, arm] = drawing.words[PULLS, arm] & ONE
