r"""States that were not observed: expected counts, information and draws for arms with gaps.

Within a gap let :math:`g_t` be the probability of the good state after t rounds, given the state before the gap:

.. math:: g_{t+1} = p_0 + g_t\, (p_1 - p_0), \qquad p_s = P(s, a_{t+1}) .

The likelihood L of the state after the gap is the last g, or 1 less it. `add_expected` adds the expected number of
visits and good outcomes, by the forward–backward algorithm; `climb` repeats it until the estimate stays (EM). `curve`
adds the second derivatives of log L: derivatives of g follow from the same recursion,

.. math::
    \nabla g' = d\, \nabla g + (1 - g)\, e_0 + g\, e_1, \qquad
    \nabla^2 g' = d\, \nabla^2 g + (e_1 - e_0) \nabla g^\top + \nabla g\, (e_1 - e_0)^\top, \qquad d = p_1 - p_0 ,

with :math:`e_s` the unit vector of (s, a). `draw_filled` draws arms from their posterior by data augmentation: the
states of all gaps given the probabilities, then the class and the probabilities given all states.

The four cells of an arm, (s, a), are numbered 2 s + a.

References
----------
A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
J. R. Statist. Soc. B 39 (1977).
M. A. Tanner and W. H. Wong, "The calculation of posterior distributions by data augmentation", JASA 82 (1987).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.compiling import kernel, part
from meritfair.engine.options import draw_gamma
from meritfair.engine.random import open_uniform, uniform

GOOD, BAD = 0, 1  # outcomes
_EDGE = 1e-12  # draws are kept this far from 0 and 1
_TINY = 1e-300


class GapArrays(NamedTuple):
    """The gaps of all arms, in order of the arms."""

    bounds: IntArray  # (N + 1,), where the gaps of each arm begin
    start: IntArray  # (G,), the state before each gap
    end: IntArray  # (G,), the state after it
    first: IntArray  # (G + 1,), where its actions begin
    actions: IntArray
    weight: FloatArray  # (G,), how much each counts


@part
def _forward(gaps: GapArrays, gap: int, point: FloatArray, ahead: FloatArray) -> float:
    """Set the probability of the good state before each round of a gap; return that after the last."""
    good = float(gaps.start[gap])
    first = gaps.first[gap]
    for t in range(gaps.first[gap + 1] - first):
        ahead[t] = good
        action = gaps.actions[first + t]
        good = point[action] + good * (point[2 + action] - point[action])
    return good


@part
def _add_gap(gaps: GapArrays, gap: int, point: FloatArray, ahead: FloatArray, counts: FloatArray) -> float:
    """Add the expected outcomes of a gap, (2, 4); return the log-likelihood of the state after it."""
    last = _forward(gaps, gap, point, ahead)
    if_bad, if_good = 1.0 - gaps.end[gap], float(gaps.end[gap])  # probability of the end, given the state
    likelihood = last if gaps.end[gap] == 1 else 1.0 - last
    scale, first = gaps.weight[gap] / likelihood, gaps.first[gap]
    for t in range(gaps.first[gap + 1] - first - 1, -1, -1):
        action, good = gaps.actions[first + t], ahead[t]
        p, q = point[action], point[2 + action]
        counts[GOOD, action] += scale * (1.0 - good) * p * if_good
        counts[BAD, action] += scale * (1.0 - good) * (1.0 - p) * if_bad
        counts[GOOD, 2 + action] += scale * good * q * if_good
        counts[BAD, 2 + action] += scale * good * (1.0 - q) * if_bad
        if_bad, if_good = p * if_good + (1.0 - p) * if_bad, q * if_good + (1.0 - q) * if_bad
    return gaps.weight[gap] * math.log(likelihood)


@kernel
def add_expected(
    gaps: GapArrays, points: FloatArray, ahead: FloatArray, counts: FloatArray, heights: FloatArray
) -> None:
    """Add the expected outcomes of all gaps, given the points (N, 4), to counts (N, 2, 4); set log-likelihoods (N,).

    `ahead` is room for the rounds of the longest gap.
    """
    for arm in range(len(points)):
        heights[arm] = 0.0
        for gap in range(gaps.bounds[arm], gaps.bounds[arm + 1]):
            heights[arm] += _add_gap(gaps, gap, points[arm], ahead, counts[arm])


@kernel
def climb(
    gaps: GapArrays,
    seen: FloatArray,
    prior: FloatArray,
    points: FloatArray,
    ahead: FloatArray,
    expected: FloatArray,
    steps: int,
    enough: float,
) -> int:
    """Improve the points (N, 4) of all arms by EM; set the expected outcomes (N, 2, 4); return the most steps taken.

    `seen` are complete outcomes and `prior` further ones, (N, 2, 4). An arm is done when no probability has moved by
    more than `enough` in a step; the expected outcomes are then those that the last step has used.
    """
    most = 0
    for arm in range(len(points)):
        counts = expected[arm]
        for step in range(steps):
            for cell in range(4):
                counts[GOOD, cell], counts[BAD, cell] = seen[arm, GOOD, cell], seen[arm, BAD, cell]
            for gap in range(gaps.bounds[arm], gaps.bounds[arm + 1]):
                _add_gap(gaps, gap, points[arm], ahead, counts)
            moved = 0.0
            for cell in range(4):
                good = counts[GOOD, cell] + prior[arm, GOOD, cell]
                new = good / (good + counts[BAD, cell] + prior[arm, BAD, cell])
                moved = max(moved, abs(new - points[arm, cell]))
                points[arm, cell] = new
            most = max(most, step + 1)
            if moved <= enough:
                break
    return most


@kernel
def curve(gaps: GapArrays, points: FloatArray, slope: FloatArray, bend: FloatArray, information: FloatArray) -> None:
    """Add to (N, 4, 4) the second derivatives of the log-likelihood of all gaps, with the sign turned.

    `slope` (4,) and `bend` (4, 4) are room for derivatives of g.
    """
    for arm in range(len(points)):
        point = points[arm]
        for gap in range(gaps.bounds[arm], gaps.bounds[arm + 1]):
            good = _derivatives(gaps, gap, point, slope, bend)
            sign = 1.0 if gaps.end[gap] == 1 else -1.0
            likelihood = good if gaps.end[gap] == 1 else 1.0 - good
            for i in range(4):
                for j in range(4):
                    second = sign * bend[i, j] / likelihood - slope[i] * slope[j] / (likelihood * likelihood)
                    information[arm, i, j] -= gaps.weight[gap] * second


@part
def _derivatives(gaps: GapArrays, gap: int, point: FloatArray, slope: FloatArray, bend: FloatArray) -> float:
    """Set both derivatives of the probability of the good state after a gap; return the probability."""
    good = float(gaps.start[gap])
    for i in range(4):
        slope[i] = 0.0
        for j in range(4):
            bend[i, j] = 0.0
    for t in range(gaps.first[gap], gaps.first[gap + 1]):
        zero, one = gaps.actions[t], 2 + gaps.actions[t]
        d = point[one] - point[zero]
        for i in range(4):
            for j in range(4):
                bend[i, j] *= d
        for i in range(4):
            bend[one, i] += slope[i]
            bend[i, one] += slope[i]
            bend[zero, i] -= slope[i]
            bend[i, zero] -= slope[i]
        for i in range(4):
            slope[i] *= d
        slope[zero] += 1.0 - good
        slope[one] += good
        good = point[zero] + good * d
    return good


# ---- draws


@kernel
def draw_filled(
    gaps: GapArrays,
    seen: FloatArray,
    weights: FloatArray,
    prior: FloatArray,
    points: FloatArray,
    ahead: FloatArray,
    counts: FloatArray,
    odds: FloatArray,
    rng: WordArray,
    arms: IntArray,
    burn_in: int,
    drawn: FloatArray,
) -> None:
    """Draw the probabilities of these arms from their posterior; set drawn (size, N, 4).

    `seen` (N, 2, 4) are complete outcomes; `weights` (N, C) and `prior` (C, 2, 4) are classes of Beta distributions.
    Each arm starts at its point (N, 4), and the first `burn_in` turns are not kept. `counts` (2, 4) and `odds` (C,) are
    room.
    """
    for arm in arms:
        point, before = points[arm], burn_in
        if gaps.bounds[arm] == gaps.bounds[arm + 1]:  # draws do not depend on each other
            before = 0
        for turn in range(before + len(drawn)):
            for cell in range(4):
                counts[GOOD, cell], counts[BAD, cell] = seen[arm, GOOD, cell], seen[arm, BAD, cell]
            for gap in range(gaps.bounds[arm], gaps.bounds[arm + 1]):
                draw_gap(gaps, gap, point, ahead, counts, rng)
            c = _draw_class(counts, weights[arm], prior, odds, rng) if len(prior) > 1 else 0
            for cell in range(4):
                good = draw_gamma(counts[GOOD, cell] + prior[c, GOOD, cell], rng)
                bad = draw_gamma(counts[BAD, cell] + prior[c, BAD, cell], rng)
                point[cell] = min(max(good / max(good + bad, _TINY), _EDGE), 1.0 - _EDGE)
            if turn >= before:
                for cell in range(4):
                    drawn[turn - before, arm, cell] = point[cell]


@part
def draw_gap(
    gaps: GapArrays, gap: int, point: FloatArray, ahead: FloatArray, counts: FloatArray, rng: WordArray
) -> None:
    """Draw the states of a gap, from the last back to the first, and count them."""
    _forward(gaps, gap, point, ahead)
    first, after = gaps.first[gap], gaps.end[gap]
    for t in range(gaps.first[gap + 1] - first - 1, -1, -1):
        action, good = gaps.actions[first + t], ahead[t]
        p, q = point[action], point[2 + action]
        from_bad, from_good = (1.0 - good) * (p if after == 1 else 1.0 - p), good * (q if after == 1 else 1.0 - q)
        state = 1 if uniform(rng) * (from_bad + from_good) < from_good else 0
        counts[GOOD if after == 1 else BAD, 2 * state + action] += gaps.weight[gap]
        after = state


@part
def _draw_class(counts: FloatArray, weights: FloatArray, prior: FloatArray, odds: FloatArray, rng: WordArray) -> int:
    """Draw the class of an arm, given its outcomes: the largest of the log-odds with Gumbel noise."""
    best = 0
    for c in range(len(prior)):
        odds[c] = math.log(weights[c]) - math.log(-math.log(open_uniform(rng)))
        for cell in range(4):
            a, b = prior[c, GOOD, cell], prior[c, BAD, cell]
            good, bad = counts[GOOD, cell], counts[BAD, cell]
            odds[c] += math.lgamma(a + good) - math.lgamma(a) + math.lgamma(b + bad) - math.lgamma(b)
            odds[c] -= math.lgamma(a + b + good + bad) - math.lgamma(a + b)
        best = c if odds[c] > odds[best] else best
    return best
