r"""What a policy makes of the counts: the ball, the benefit it believes in, and merit.

The formulas are those of :mod:`meritfair.model`, which has them in NumPy with their equations; here they run inside
the loop over episodes. `tests` holds the two against each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meritfair.engine.compiling import call, inlined, part
from meritfair.engine.rules import (
    AFFINE,
    EXPONENTIAL,
    MEAN,
    OPTIMISTIC,
    PAPER,
    PESSIMISTIC,
    POWER,
)
from meritfair.engine.selection import smallest

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray
    from meritfair.engine.chains import Tally
    from meritfair.engine.rules import BallRule

__all__ = [
    "CAP",
    "EXPOSURE",
    "INSIDE",
    "MERIT",
    "SHARE",
    "Beliefs",
    "believe",
    "greedy_weights",
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


_BENEFIT, MERIT, SHARE, EXPOSURE, CAP = range(5)  # rows of `arms`
INSIDE = MEAN  # row of `points`: the mean, or what stands in its place


def new_beliefs(n_arms: int) -> Beliefs:
    """Return beliefs about nothing."""
    return Beliefs(np.zeros((3, 2, 2, n_arms)), np.zeros((5, n_arms)))


@inlined
def measure_ball(beliefs: Beliefs, tally: Tally, episode: int, ball: BallRule) -> tuple[float, float]:
    """Set the corners of the ball of this episode; return the largest eta and omega."""
    n_arms = beliefs.arms.shape[1]
    log_term = math.log(8.0 * n_arms / ball.delta) + 4.0 * math.log(episode)
    for state in range(2 if ball.kind == PAPER else 0):
        for action in range(2):
            for arm in range(n_arms):
                seen = 1.0 / max(1.0, tally.visits[state, action, arm])
                frequency = tally.good[state, action, arm] * seen
                half = math.sqrt(log_term * seen)  # half of d, Eq. (6)
                beliefs.points[OPTIMISTIC, state, action, arm] = min(1.0, frequency + half)
                beliefs.points[PESSIMISTIC, state, action, arm] = max(0.0, frequency - half)
    if ball.kind != PAPER:
        allowed = math.log(4.0 * n_arms / ball.delta)
        call(ball.tightener, beliefs.points, tally.visits, tally.good, ball.kind, allowed)
    eta = omega = -np.inf
    for action in range(2):
        for arm in range(n_arms):
            eta = max(eta, beliefs.points[OPTIMISTIC, 1, action, arm] - beliefs.points[PESSIMISTIC, 0, action, arm])
            omega = max(omega, beliefs.points[PESSIMISTIC, 1, action, arm] - beliefs.points[OPTIMISTIC, 0, action, arm])
    return eta, omega


@inlined
def believe(beliefs: Beliefs, tally: Tally, estimate: int) -> None:
    """Set the benefit of each arm, Eq. (4), at the point of the ball that is believed.

    Of the points inside, the mean is made here; any other is there already.
    """
    benefit, points = beliefs.arms[_BENEFIT], beliefs.points
    row = min(estimate, INSIDE)
    for state in range(2 if row == INSIDE else 0):
        for action in range(2):
            inside = points[INSIDE, state, action]
            visits, good = tally.visits[state, action], tally.good[state, action]
            if estimate == MEAN:
                for arm in range(len(benefit)):  # the posterior mean under a uniform prior
                    inside[arm] = (good[arm] + 1.0) / (visits[arm] + 2.0)
            for arm in range(len(benefit)):
                low, high = points[PESSIMISTIC, state, action, arm], points[OPTIMISTIC, state, action, arm]
                inside[arm] = min(high, max(low, inside[arm]))
    for arm in range(len(benefit)):
        benefit[arm] = _steady(points[row, 0, 1, arm], points[row, 1, 1, arm]) - _steady(
            points[row, 0, 0, arm], points[row, 1, 0, arm]
        )


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
