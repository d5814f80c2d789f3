r"""What a policy makes of the counts: the ball, the estimated benefit, and merit.

The formulas are those of :mod:`meritfair.model`, which has them in NumPy with their equations; here they run inside
the loop over episodes. `tests` holds the two against each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.engine import rules
from meritfair.engine.compiling import call, inlined, part
from meritfair.engine.counting import Tally
from meritfair.engine.rules import BallRule
from meritfair.engine.selection import smallest


class Estimates(NamedTuple):
    """What is estimated of each arm at an episode."""

    upper: FloatArray  # (2, 2, N) by state and action: the corners of the ball
    lower: FloatArray
    inside: FloatArray  # (2, 2, N), a point of the ball: the mean, or what the estimate puts in its place
    benefit: FloatArray  # (N,)
    merit: FloatArray  # (N,), of which the largest is 1
    share: FloatArray  # (N,), of all merit
    exposure: FloatArray  # (N,)
    cap: FloatArray  # (N,), of the exposure


def new_estimates(n_arms: int) -> Estimates:
    """Return room for the estimates of that many arms."""
    return Estimates(*np.zeros((3, 2, 2, n_arms)), *np.zeros((5, n_arms)))


@part
def measure_ball(
    upper: FloatArray, lower: FloatArray, visits: FloatArray, good: FloatArray, episode: int, ball: BallRule
) -> tuple[float, float]:
    """Set the corners of the ball of this episode; return the largest eta and omega."""
    n_arms = upper.shape[2]
    log_term = math.log(8.0 * n_arms / ball.delta) + 4.0 * math.log(episode)
    for state in range(2 if ball.kind == rules.PAPER else 0):
        for action in range(2):
            for arm in range(n_arms):
                seen = 1.0 / max(1.0, visits[state, action, arm])
                frequency = good[state, action, arm] * seen
                half = math.sqrt(log_term * seen)  # half of d, Eq. (6)
                upper[state, action, arm] = min(1.0, frequency + half)
                lower[state, action, arm] = max(0.0, frequency - half)
    if ball.kind != rules.PAPER:
        allowed = math.log(4.0 * n_arms / ball.delta)
        call(ball.tightener, upper, lower, visits, good, ball.kind, allowed)
    eta = omega = -np.inf
    for action in range(2):
        for arm in range(n_arms):
            eta = max(eta, upper[1, action, arm] - lower[0, action, arm])
            omega = max(omega, lower[1, action, arm] - upper[0, action, arm])
    return eta, omega


@inlined
def estimate_benefits(now: Estimates, tally: Tally, estimate: int) -> None:
    """Set the benefit of each arm, Eq. (4), at the point of the ball that is estimated."""
    if estimate == rules.OPTIMISTIC:
        _benefits(now.upper, now.benefit)
    elif estimate == rules.PESSIMISTIC:
        _benefits(now.lower, now.benefit)
    else:
        _move_inside(now.inside, now.upper, now.lower, tally.visits, tally.good, estimate)
        _benefits(now.inside, now.benefit)


@part
def _move_inside(
    point: FloatArray, upper: FloatArray, lower: FloatArray, visits: FloatArray, good: FloatArray, estimate: int
) -> None:
    """Move a point into the ball; the mean is made here, any other is there already."""
    for state in range(2):
        for action in range(2):
            inside = point[state, action]
            if estimate == rules.MEAN:
                for arm in range(len(inside)):  # the posterior mean under a uniform prior
                    inside[arm] = (good[state, action, arm] + 1.0) / (visits[state, action, arm] + 2.0)
            for arm in range(len(inside)):
                inside[arm] = min(upper[state, action, arm], max(lower[state, action, arm], inside[arm]))


@part
def _benefits(point: FloatArray, benefit: FloatArray) -> None:
    """Set the benefit of arms with these transition probabilities."""
    for arm in range(len(benefit)):
        pulled = _steady(point[0, 1, arm], point[1, 1, arm])
        benefit[arm] = pulled - _steady(point[0, 0, arm], point[1, 0, arm])


@part
def _steady(from_bad: float, from_good: float) -> float:
    """Return the long-run share of the good state, Eq. (5)."""
    return from_bad / (from_bad + (1.0 - from_good))


@part
def merits(benefit: FloatArray, merit: FloatArray, kind: int, first: float, second: float) -> None:
    """Set the merit of each estimated benefit, scaled so that the largest is 1."""
    largest = 0.0
    for arm in range(len(merit)):
        merit[arm] = _merit(kind, first, second, benefit[arm])
        largest = max(largest, merit[arm])
    for arm in range(len(merit)):
        merit[arm] /= largest


@part
def _merit(kind: int, first: float, second: float, benefit: float) -> float:
    """Return the merit of a benefit, by the merit function of this kind with its two settings."""
    if kind == rules.EXPONENTIAL:
        return math.exp(first * benefit)
    if kind == rules.AFFINE:
        return second + first * benefit
    if kind == rules.POWER:
        return (second + (1.0 + benefit) / 2.0) ** first
    x = first * (benefit - second)
    return 1.0 / (1.0 + math.exp(-x)) if x > 0.0 else math.exp(x) / (1.0 + math.exp(x))


@part
def shares(merit: FloatArray, share: FloatArray) -> None:
    """Set each arm's share of all merit, Eq. (8)."""
    total = 0.0
    for each in merit:
        total += each
    for arm in range(len(merit)):
        share[arm] = merit[arm] / total


@part
def greedy_weights(now: Estimates, budget: int) -> None:
    """Set weights that pull the K largest benefits, with ties at random, and shares and exposures that go with them."""
    benefit, merit, share = now.benefit, now.merit, now.share
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
        now.exposure[arm] = share[arm] * budget


@part
def regret(given: FloatArray, fair: FloatArray) -> float:
    """Return the L1 distance of shares or exposures from the fair ones, one episode's term of Eq. (3)."""
    total = 0.0
    for arm in range(len(given)):
        total += abs(given[arm] - fair[arm])
    return total
