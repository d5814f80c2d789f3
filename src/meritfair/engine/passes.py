r"""Lotteries among few arms: one pass over the arms draws one arm for each of 64 steps.

The arms stand in order of weight, the heaviest first; a coin for each decides whether it is this one, with chance
weight / weight of it and all behind it. Who is drawn already is drawn in vain, and the step goes into another pass; but
if all arms up to some place are drawn already, the coins up to there are skipped, which changes nothing for those
behind. So an arm with nearly all the weight costs nothing.
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word, count_ones
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.lotteries import (
    COINS,
    DRAWN,
    LIMITS,
    ORDER,
    PULLS,
    WEIGHTS,
    ZERO,
    Drawing,
    draw_one,
    pull_the_certain,
    take_weights,
)
from meritfair.engine.random import threshold, toss_words

_MISSING = 3  # row of `words`: steps that miss draws


@stage
def draw_in_passes(
    drawing: Drawing, source: WordArray, given: FloatArray, budget: int, words: int, bits_in_last: int, new: bool
) -> int:
    """Draw the pulls of that many words of steps by weights, which are `new` or those of the last call."""
    n_arms, weights, facts = len(given), drawing.floats[WEIGHTS], drawing.facts
    if new:
        take_weights(weights, facts, given, budget)
        if facts[DRAWN] > 0:
            _prepare(weights, drawing.ints[ORDER], drawing.words[LIMITS], n_arms)
    if facts[DRAWN] == 0:
        for word in range(words):
            pull_the_certain(drawing.words[PULLS], weights, word * n_arms, n_arms)
    else:
        _draw(drawing, source, n_arms, words, bits_in_last)
    return 0


@part
def _prepare(weights: FloatArray, order: IntArray, limits: WordArray, n_arms: int) -> None:
    """Order the arms and set the coins of a pass, by place in the order."""
    for i in range(1, n_arms):  # by insertion: from one episode to the next the order hardly changes
        arm = order[i]
        j = i - 1
        while j >= 0 and weights[order[j]] < weights[arm]:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = arm
    behind = 0.0
    for place in range(n_arms - 1, -1, -1):
        weight = weights[order[place]]
        if 0.0 < weight < np.inf:
            behind += weight
            limits[place] = threshold(weight / behind)
        else:  # never, or drawn already
            limits[place] = NONE
    for lane in range(n_arms, len(limits)):
        limits[lane] = limits[lane - n_arms]


@inlined
def _draw(drawing: Drawing, source: WordArray, n_arms: int, words: int, bits_in_last: int) -> None:
    """Draw one arm for all steps, then the next, in passes over the arms from the heaviest down."""
    weights, order, drawn = drawing.floats[WEIGHTS], drawing.ints[ORDER], drawing.facts[DRAWN]
    chosen = drawing.words[PULLS]  # by place in the order, until the end
    coins, limits, missing = drawing.words[COINS], drawing.words[LIMITS], drawing.words[_MISSING]
    lanes = words * n_arms
    for first in range(0, lanes, n_arms):
        for place in range(n_arms):
            chosen[first + place] = ALL if weights[order[place]] == np.inf else NONE
    for k in range(drawn * words):
        missing[k] = NONE
    number = open_steps = 0
    while number < drawn or (open_steps >= 8 and number < drawn + 3):
        toss_words(source, limits, coins, ZERO, lanes)
        open_steps = 0
        for word in range(words):
            want = ALL if word < words - 1 else ALL >> np.uint64(64 - bits_in_last)
            if number >= drawn:
                want = _take_missing(missing, word * drawn, drawn)
            in_vain, passed = NONE, ALL  # passed: steps at which every arm so far is drawn already
            for lane in range(word * n_arms, word * n_arms + n_arms):
                already = chosen[lane]
                passed &= already
                hit = coins[lane] & want & ~passed
                want ^= hit
                in_vain |= hit & already
                chosen[lane] = already | hit
            _add_missing(missing, word * drawn, in_vain)
            open_steps += np.int64(count_ones(missing[word * drawn]))
        number += 1
    for word in range(words if open_steps > 0 else 0):
        for k in range(word * drawn, (word + 1) * drawn):
            steps = missing[k]
            while steps != NONE:
                draw_one(chosen, weights, order, source, word * n_arms, n_arms, steps & (NONE - steps))
                steps &= steps - ONE
    for lane in range(lanes):
        coins[lane] = chosen[lane]
    for first in range(0, lanes, n_arms):
        for place in range(n_arms):
            chosen[first + order[place]] = coins[first + place]


@part
def _add_missing(missing: WordArray, start: int, in_vain: Word) -> None:
    """Count one more missing draw at each of these steps; entry k from `start` has the steps that miss more than k."""
    k = start
    while in_vain != NONE:
        before = missing[k]
        missing[k] = before | in_vain
        in_vain &= before
        k += 1


@part
def _take_missing(missing: WordArray, start: int, drawn: int) -> Word:
    """Return the steps that miss a draw, and count one less at each."""
    steps = missing[start]
    for k in range(start, start + drawn - 1):
        missing[k] = missing[k + 1]
    missing[start + drawn - 1] = NONE
    return steps
