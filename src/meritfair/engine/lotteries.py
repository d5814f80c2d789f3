r"""Which arms are pulled: K of N at each step, 64 steps at a time.

A *drawer* fills the pulls of some words of steps. It is a stage, called by its address, and there are three: `rotate`
here, and two that draw a lottery exactly: :mod:`meritfair.engine.passes` for few arms and
:mod:`meritfair.engine.arrivals` for many. Only the one in use is compiled.

The law of a lottery is that of a race: arm i arrives after an exponential time of rate :math:`w_i`, and the first K to
arrive are pulled, so they are drawn one after another in proportion to the weights of those who are left. A weight of
infinity is always pulled, one of 0 never.

References
----------
B. Rosén, "Asymptotic theory for successive sampling with varying probabilities without replacement", Ann. Math.
Statist. 43 (1972).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import ByteArray, FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word
from meritfair.engine.compiling import part, stage
from meritfair.engine.random import LANES, uniform

ZERO = np.int64(0)  # a plain 0 has a type of its own, and functions would be compiled twice

# Rows of `words`; the names with an underscore are those of one drawer.
PULLS, COINS, LIMITS = range(3)  # pulls and coins by lane, thresholds of the coins
_N_WORDS = 6
# Rows of `floats`.
WEIGHTS = 0  # they add up to 1 over those that are positive and finite
_N_FLOATS = 2
# Rows of `ints`.
ORDER, ARMS, _LINE = range(3)  # arms by weight, arms by number, arms as they wait in line
_N_INTS = 9
# What `facts` holds.
FIXED, DRAWN, _POSITION = range(3)  # arms that are certain, draws by chance, who is next in line
_N_FACTS = 7


class Drawing(NamedTuple):
    """Weights made ready for drawing, and room to work in; few arrays with many rows, as each costs compile time."""

    words: WordArray
    floats: FloatArray
    ints: IntArray
    cell_arms: IntArray  # the two arms of each cell
    requests: ByteArray  # steps that miss an arrival, as often as they miss one
    facts: IntArray
    numbers: FloatArray


def new_drawing(n_arms: int, budget: int, words: int, line: IntArray) -> Drawing:
    """Return the room for that many words at a time, with the arms in this line."""
    cells = max(LANES, 1 << (n_arms - 1).bit_length())
    drawing = Drawing(
        words=np.zeros((_N_WORDS, max(cells, n_arms * words + 3)), np.uint64),  # coins are tossed by four words
        floats=np.zeros((_N_FLOATS, cells)),
        ints=np.zeros((_N_INTS, cells), np.int64),
        cell_arms=np.zeros(2 * cells, np.int64),
        requests=np.zeros(LANES * (budget + 1), np.uint8),
        facts=np.zeros(_N_FACTS, np.int64),
        numbers=np.zeros(3),
    )
    drawing.ints[ORDER, :n_arms] = drawing.ints[ARMS, :n_arms] = np.arange(n_arms)
    drawing.ints[_LINE, :n_arms] = line
    return drawing


@part
def take_weights(weights: FloatArray, facts: IntArray, given: FloatArray, budget: int) -> float:
    """Take over weights of any scale; return about how many draws would hit an arm twice."""
    certain, total, positive = 0, 0.0, 0
    for weight in given:
        certain += weight == np.inf
        positive += 0.0 < weight < np.inf
        total += weight if weight < np.inf else 0.0
    drawn = min(budget - certain, positive)
    everyone = drawn == positive  # then nothing is left to chance
    repeats = 0.0
    for arm in range(len(given)):
        share = given[arm] / total if given[arm] < np.inf else np.inf
        if not share > 0.0:
            share = 0.0
        elif everyone:
            share = np.inf
        weights[arm] = share
        repeats += share * share if share < np.inf else 0.0
    facts[FIXED] = certain + (positive if everyone else 0)
    facts[DRAWN] = 0 if everyone else drawn
    return repeats * drawn * (drawn - 1) / 2.0


@part
def pull_the_certain(pulls: WordArray, weights: FloatArray, first: int, n_arms: int) -> None:
    """Pull the arms of infinite weight, and no other, in the word whose first lane this is."""
    for arm in range(n_arms):
        pulls[first + arm] = ALL if weights[arm] == np.inf else NONE


@part
def draw_one(
    pulls: WordArray, weights: FloatArray, order: IntArray, source: WordArray, first: int, n_arms: int, step: Word
) -> None:
    """Draw one more arm at one step, by adding up the weights of all that are left: slow, and never in vain.

    The pulls are by place in the order.
    """
    total = 0.0
    for place in range(n_arms):
        if pulls[first + place] & step == NONE:
            total += weights[order[place]]
    left = uniform(source) * total
    last = 0
    for place in range(n_arms):
        weight = weights[order[place]]
        if pulls[first + place] & step == NONE and weight > 0.0:
            last = place
            left -= weight
            if left < 0.0:
                break
    pulls[first + last] |= step


@stage
def rotate(
    drawing: Drawing, _source: WordArray, given: FloatArray, budget: int, words: int, bits_in_last: int, _new: bool
) -> int:
    """Pull those who are next in line; only the number of weights is looked at."""
    n_arms, pulls, line, facts = len(given), drawing.words[PULLS], drawing.ints[_LINE], drawing.facts
    position = facts[_POSITION]
    for word in range(words):
        first = word * n_arms
        for lane in range(first, first + n_arms):
            pulls[lane] = NONE
        for step in range(LANES if word < words - 1 else bits_in_last):
            for _ in range(budget):
                pulls[first + line[position]] |= ONE << np.uint64(step)
                position = position + 1 if position + 1 < n_arms else 0
    facts[_POSITION] = position
    return 0
