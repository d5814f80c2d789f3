r"""What a policy makes of the counts: the ball, the benefit it believes in, and merit.

The formulas are those of :mod:`meritfair.model`, which has them in NumPy with their equations; here they run inside
the loop over episodes. `tests` holds the two against each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meritfair.engine.compiling import inlined, part
from meritfair.engine.rules import AFFINE, EXPONENTIAL, MEAN, OPTIMISTIC, PESSIMISTIC, POWER
from meritfair.engine.selection import smallest

if TYPE_CHECKING:
    from meritfair.arrays import FloatArray
    from meritfair.engine.chains import Tally

__all__ = [
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

    points: FloatArray  # (3, 2, 2, N), by state and action: the corners of the ball and the mean
    arms: FloatArray  # (3, N): benefit; merit, of which the largest is 1; share of all merit


_BENEFIT, MERIT, SHARE = range(3)  # rows of `arms`


def new_beliefs(n_arms: int) -> Beliefs:
    """Return beliefs about nothing."""
    return Beliefs(np.zeros((3, 2, 2, n_arms)), np.zeros((3, n_arms)))


@inlined
def measure_ball(beliefs: Beliefs, tally: Tally, episode: int, delta: float) -> tuple[float, float]:
    """Set the corners of the ball of this episode; return the largest eta and omega."""
    n_arms = beliefs.arms.shape[1]
    log_term = math.log(8.0 * n_arms / delta) + 4.0 * math.log(episode)
    for state in range(2):
        for action in range(2):
            for arm in range(n_arms):
                seen = 1.0 / max(1.0, tally.visits[state, action, arm])
                frequency = tally.good[state, action, arm] * seen
                half = math.sqrt(log_term * seen)  # half of d, Eq. (6)
                beliefs.points[OPTIMISTIC, state, action, arm] = min(1.0, frequency + half)
                beliefs.points[PESSIMISTIC, state, action, arm] = max(0.0, frequency - half)
    eta = omega = -np.inf
    for action in range(2):
        for arm in range(n_arms):
            eta = max(eta, beliefs.points[OPTIMISTIC, 1, action, arm] - beliefs.points[PESSIMISTIC, 0, action, arm])
            omega = max(omega, beliefs.points[PESSIMISTIC, 1, action, arm] - beliefs.points[OPTIMISTIC, 0, action, arm])
    return eta, omega


@inlined
def believe(beliefs: Beliefs, tally: Tally, estimate: int) -> None:
    """Set the benefit of each arm, Eq. (4), at the point of the ball that is believed."""
    benefit, points = beliefs.arms[_BENEFIT], beliefs.points
    if estimate == MEAN:
        for state in range(2):
            for action in range(2):
                for arm in range(len(benefit)):  # the posterior mean under a uniform prior
                    good, visits = tally.good[state, action, arm], tally.visits[state, action, arm]
                    points[MEAN, state, action, arm] = (good + 1.0) / (visits + 2.0)
    for arm in range(len(benefit)):
        benefit[arm] = _steady(points[estimate, 0, 1, arm], points[estimate, 1, 1, arm]) - _steady(
            points[estimate, 0, 0, arm], points[estimate, 1, 0, arm]
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
    """Set weights that pull the K largest benefits, with ties at random, and the shares that go with them."""
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


@part
def regret(share: FloatArray, fair_share: FloatArray) -> float:
    """Return the L1 distance of two shares, one episode's term of Eq. (3)."""
    total = 0.0
    for arm in range(len(share)):
        total += abs(share[arm] - fair_share[arm])
    return total
