r"""What a policy makes of the counts: the ball, the benefit it believes in, and merit.

The formulas are those of :mod:`meritfair.model`, which has them in NumPy with their equations; here they run inside
the loop over episodes. `tests` holds the two against each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meritfair.engine.compiling import inlined, part
from meritfair.engine.random import open_uniform, uniform
from meritfair.engine.rules import (
    AFFINE,
    BERNSTEIN,
    EXPONENTIAL,
    MEAN,
    OPTIMISTIC,
    PAPER,
    PESSIMISTIC,
    POWER,
    THOMPSON,
)
from meritfair.engine.selection import smallest

if TYPE_CHECKING:
    from meritfair.arrays import FloatArray, WordArray
    from meritfair.engine.chains import Tally

__all__ = [
    "EXPOSURE",
    "INSIDE",
    "MERIT",
    "SHARE",
    "Beliefs",
    "believe",
    "exposures",
    "greedy_weights",
    "learning_caps",
    "measure_ball",
    "merits",
    "new_beliefs",
    "regret",
    "shares",
]


class Beliefs(NamedTuple):
    """What is believed of each arm at an episode."""

    points: FloatArray  # (3, 2, 2, N), by state and action: the two corners of the ball, and a point inside
    arms: FloatArray  # (5, N): benefit; merit, of which the largest is 1; share of all merit; exposure, and its cap


_BENEFIT, MERIT, SHARE, EXPOSURE, _CAP = range(5)  # rows of `arms`
INSIDE = MEAN  # row of `points`: the mean, or what stands in its place
_NEWTON_STEPS = 60
_LOG_BETA_HALF = 1.1447298858494002  # of Beta(1/2, 1/2), which is pi


def new_beliefs(n_arms: int) -> Beliefs:
    """Return beliefs about nothing."""
    return Beliefs(np.zeros((3, 2, 2, n_arms)), np.zeros((5, n_arms)))


@inlined
def measure_ball(beliefs: Beliefs, tally: Tally, episode: int, kind: int, delta: float) -> tuple[float, float]:
    """Set the corners of the ball of this episode; return the largest eta and omega."""
    n_arms = beliefs.arms.shape[1]
    log_term = math.log(8.0 * n_arms / delta) + 4.0 * math.log(episode)
    allowed = math.log(4.0 * n_arms / delta)
    for state in range(2):
        for action in range(2):
            for arm in range(n_arms):
                seen = 1.0 / max(1.0, tally.visits[state, action, arm])
                frequency = tally.good[state, action, arm] * seen
                half = math.sqrt(log_term * seen)  # half of d, Eq. (6)
                beliefs.points[OPTIMISTIC, state, action, arm] = min(1.0, frequency + half)
                beliefs.points[PESSIMISTIC, state, action, arm] = max(0.0, frequency - half)
            if kind != PAPER:
                for arm in range(n_arms):
                    low, high = _tight_ends(
                        kind, tally.visits[state, action, arm], tally.good[state, action, arm], allowed
                    )
                    beliefs.points[OPTIMISTIC, state, action, arm] = high
                    beliefs.points[PESSIMISTIC, state, action, arm] = low
    eta = omega = -np.inf
    for action in range(2):
        for arm in range(n_arms):
            eta = max(eta, beliefs.points[OPTIMISTIC, 1, action, arm] - beliefs.points[PESSIMISTIC, 0, action, arm])
            omega = max(omega, beliefs.points[PESSIMISTIC, 1, action, arm] - beliefs.points[OPTIMISTIC, 0, action, arm])
    return eta, omega


@part
def _tight_ends(kind: int, n: float, good: float, allowed: float) -> tuple[float, float]:
    """Return the least and the largest chance in a tighter ball; `allowed` is the logarithm of 1/alpha."""
    if n == 0.0:
        return 0.0, 1.0
    if kind == BERNSTEIN:
        frequency, x = good / n, math.log(3.0 * n * (n + 1.0)) + allowed
        half = math.sqrt(2.0 * frequency * (1.0 - frequency) * x / n) + 3.0 * x / n
        return max(0.0, frequency - half), min(1.0, frequency + half)
    bad = n - good
    level = math.lgamma(good + 0.5) + math.lgamma(bad + 0.5) - math.lgamma(n + 1.0) - _LOG_BETA_HALF - allowed
    low, high = 0.0, 1.0
    if good > 0.0:
        low = _kl_end(good, bad, level, -1.0) if bad > 0.0 else math.exp(level / n)
    if bad > 0.0:
        high = _kl_end(good, bad, level, 1.0) if good > 0.0 else -math.expm1(level / n)
    return low, high


@part
def _kl_end(good: float, bad: float, level: float, side: float) -> float:
    """Return the chance on one side of the frequency at which good · z - n ln(1 + e^z) equals the level, by Newton.

    It starts where a parabola would reach the level. From inside, a step may go too far, but never beyond `outer`.
    """
    n, outer = good + bad, -side * level / (bad if side > 0.0 else good)
    odds, height = math.log(good / bad), good * math.log(good / n) + bad * math.log(bad / n) - level
    z = odds + side * math.sqrt(2.0 * height * n / (good * bad))
    for _ in range(_NEWTON_STEPS):
        if side * (z - outer) > 0.0:
            z = outer
        above = math.exp(-abs(z))
        softplus = max(z, 0.0) + math.log1p(above)
        chance = 1.0 / (1.0 + above) if z > 0.0 else above / (1.0 + above)
        step = (good * z - n * softplus - level) / (good - n * chance)
        z -= step
        if abs(step) <= 1e-12 * (1.0 + abs(z)):
            break
    above = math.exp(-abs(z))
    return 1.0 / (1.0 + above) if z > 0.0 else above / (1.0 + above)


@inlined
def believe(beliefs: Beliefs, tally: Tally, estimate: int, luck: WordArray) -> None:
    """Set the benefit of each arm, Eq. (4), at the point of the ball that is believed; POOLED is there already."""
    benefit, points = beliefs.arms[_BENEFIT], beliefs.points
    row = min(estimate, INSIDE)
    for state in range(2 if row == INSIDE else 0):
        for action in range(2):
            inside = points[INSIDE, state, action]
            visits, good = tally.visits[state, action], tally.good[state, action]
            if estimate == MEAN:
                for arm in range(len(benefit)):  # the posterior mean under a uniform prior
                    inside[arm] = (good[arm] + 1.0) / (visits[arm] + 2.0)
            elif estimate == THOMPSON:
                for arm in range(len(benefit)):
                    inside[arm] = _draw_beta(good[arm] + 1.0, visits[arm] - good[arm] + 1.0, luck)
            for arm in range(len(benefit)):
                low, high = points[PESSIMISTIC, state, action, arm], points[OPTIMISTIC, state, action, arm]
                inside[arm] = min(high, max(low, inside[arm]))
    for arm in range(len(benefit)):
        benefit[arm] = _steady(points[row, 0, 1, arm], points[row, 1, 1, arm]) - _steady(
            points[row, 0, 0, arm], points[row, 1, 0, arm]
        )


@part
def _draw_beta(a: float, b: float, source: WordArray) -> float:
    """Return a draw from Beta(a, b), for a and b of at least 1."""
    x, y = _draw_gamma(a, source), _draw_gamma(b, source)
    return x / (x + y)


@part
def _draw_gamma(shape: float, source: WordArray) -> float:
    """Return a draw from Gamma(shape), for a shape of at least 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        normal = math.sqrt(-2.0 * math.log(open_uniform(source))) * math.cos(2.0 * math.pi * uniform(source))
        v = 1.0 + c * normal
        if v > 0.0:
            v = v * v * v
            if math.log(open_uniform(source)) < 0.5 * normal * normal + d - d * v + d * math.log(v):
                return d * v


@part
def _steady(from_bad: float, from_good: float) -> float:
    """Return the long-run share of the good state, Eq. (5)."""
    return from_bad / (from_bad + (1.0 - from_good))


@inlined
def merits(beliefs: Beliefs, kind: int, first: float, second: float) -> None:
    """Set the merit of each believed benefit, scaled so that the largest is 1."""
    benefit, merit = beliefs.arms[_BENEFIT], beliefs.arms[MERIT]
    largest = 0.0
    for arm in range(len(benefit)):
        merit[arm] = _merit(kind, first, second, benefit[arm])
        largest = max(largest, merit[arm])
    for arm in range(len(benefit)):
        merit[arm] /= largest


@part
def _merit(kind: int, first: float, second: float, benefit: float) -> float:
    """Return the merit of a benefit, by the merit function of this kind with its two settings."""
    if kind == EXPONENTIAL:
        return math.exp(first * benefit)
    if kind == AFFINE:
        return second + first * benefit
    if kind == POWER:
        return (second + (1.0 + benefit) / 2.0) ** first
    x = first * (benefit - second)
    return 1.0 / (1.0 + math.exp(-x)) if x > 0.0 else math.exp(x) / (1.0 + math.exp(x))


@inlined
def shares(beliefs: Beliefs) -> None:
    """Set each arm's share of all merit, Eq. (8)."""
    merit, share = beliefs.arms[MERIT], beliefs.arms[SHARE]
    total = 0.0
    for each in merit:
        total += each
    for arm in range(len(merit)):
        share[arm] = merit[arm] / total


@inlined
def learning_caps(beliefs: Beliefs, tally: Tally, bounds: FloatArray, budget: int) -> None:
    """Set caps that are below 1 as long as an arm was hardly seen left alone."""
    floor, most, cap = bounds[0], bounds[1], beliefs.arms[_CAP]
    n_arms, total = len(cap), 0.0
    for arm in range(n_arms):
        left_alone = tally.visits[0, 0, arm] + tally.visits[1, 0, arm]
        careful = 1.0 - (1.0 - budget / n_arms) / (1.0 + left_alone)
        cap[arm] = most[arm] if most[arm] < 1.0 else max(floor[arm], careful)
        total += cap[arm]
    for arm in range(n_arms if total < budget else 0):
        cap[arm] = most[arm]


@inlined
def exposures(beliefs: Beliefs, floor: FloatArray, budget: int) -> None:
    """Set each arm's exposure in proportion to merit, between its floor and its cap.

    Their sum grows with the rate, and is linear between the points where some arm reaches a bound: Newton's method ends
    after a few steps. Where no arm moves, it goes on to the next such point. Where it would leave what is known to hold
    the rate, that is halved, in logarithms.
    """
    merit, exposure, cap = beliefs.arms[MERIT], beliefs.arms[EXPOSURE], beliefs.arms[_CAP]
    total = 0.0
    for each in merit:
        total += each
    rate, low, high = budget / total, 0.0, np.inf
    for _ in range(_NEWTON_STEPS + len(merit)):
        total = slope = 0.0
        for arm in range(len(merit)):
            wanted = rate * merit[arm]
            exposure[arm] = min(cap[arm], max(floor[arm], wanted))
            total += exposure[arm]
            slope += merit[arm] if floor[arm] < wanted < cap[arm] else 0.0
        missing = budget - total
        if abs(missing) <= 1e-13 * budget:
            break
        if missing > 0.0:
            low = rate
        else:
            high = rate
        rate = rate + missing / slope if slope > 0.0 else _next_point(merit, floor, cap, rate, missing)
        if not low < rate < high:
            rate = 2.0 * low if high == np.inf else 0.5 * high if low == 0.0 else math.sqrt(low * high)


@part
def _next_point(merit: FloatArray, floor: FloatArray, cap: FloatArray, rate: float, missing: float) -> float:
    """Return a rate just beyond the next one at which some arm leaves its floor, or if too much is given, its cap."""
    up, down = np.inf, 0.0
    for arm in range(len(merit)):
        if rate * merit[arm] <= floor[arm]:
            up = min(up, floor[arm] / merit[arm])
        if rate * merit[arm] >= cap[arm]:
            down = max(down, cap[arm] / merit[arm])
    return up * (1.0 + 1e-9) if missing > 0.0 else down * (1.0 - 1e-9)


@inlined
def greedy_weights(beliefs: Beliefs, budget: int) -> None:
    """Set weights that pull the K largest benefits, with ties at random, and shares and exposures that go with them."""
    benefit, merit, share = beliefs.arms[_BENEFIT], beliefs.arms[MERIT], beliefs.arms[SHARE]
    n_arms = len(benefit)
    for arm in range(n_arms):
        merit[arm] = benefit[arm]
    last = smallest(merit, n_arms, n_arms - budget, benefit[0])
    above = level = 0
    for arm in range(n_arms):
        above += benefit[arm] > last
        level += benefit[arm] == last
    for arm in range(n_arms):
        if benefit[arm] > last:
            merit[arm] = np.inf
            share[arm] = 1.0 / budget
        elif benefit[arm] == last:
            merit[arm] = 1.0
            share[arm] = (budget - above) / level / budget
        else:
            merit[arm] = share[arm] = 0.0
        beliefs.arms[EXPOSURE, arm] = share[arm] * budget


@part
def regret(given: FloatArray, fair: FloatArray) -> float:
    """Return the L1 distance of shares or exposures from the fair ones, one episode's term of Eq. (3)."""
    total = 0.0
    for arm in range(len(given)):
        total += abs(given[arm] - fair[arm])
    return total
