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
from meritfair.engine.chains import Tally
from meritfair.engine.compiling import call, part
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
def measure_ball(now: Estimates, tally: Tally, episode: int, ball: BallRule) -> tuple[float, float]:
    """Set the corners of the ball of this episode; return the largest eta and omega."""
    n_arms = len(now.benefit)
    log_term = math.log(8.0 * n_arms / ball.delta) + 4.0 * math.log(episode)
    for state in range(2 if ball.kind == rules.PAPER else 0):
        for action in range(2):
            for arm in range(n_arms):
                seen = 1.0 / max(1.0, tally.visits[state, action, arm])
                frequency = tally.good[state, action, arm] * seen
                half = math.sqrt(log_term * seen)  # half of d, Eq. (6)
                now.upper[state, action, arm] = min(1.0, frequency + half)
                now.lower[state, action, arm] = max(0.0, frequency - half)
    if ball.kind != rules.PAPER:
        allowed = math.log(4.0 * n_arms / ball.delta)
        call(ball.tightener, now.upper, now.lower, tally.visits, tally.good, ball.kind, allowed)
    eta = omega = -np.inf
    for action in range(2):
        for arm in range(n_arms):
            eta = max(eta, now.upper[1, action, arm] - now.lower[0, action, arm])
            omega = max(omega, now.lower[1, action, arm] - now.upper[0, action, arm])
    return eta, omega


@part
def estimate_benefits(now: Estimates, tally: Tally, estimate: int) -> None:
    """Set the benefit of each arm, Eq. (4), at the point of the ball that is estimated.

    Of the points inside, the mean is made here; any other is there already.
    """
    corner = estimate in (rules.OPTIMISTIC, rules.PESSIMISTIC)
    point = now.inside if not corner else now.upper if estimate == rules.OPTIMISTIC else now.lower
    for state in range(0 if corner else 2):
        for action in range(2):
            inside = now.inside[state, action]
            visits, good = tally.visits[state, action], tally.good[state, action]
            if estimate == rules.MEAN:
                for arm in range(len(inside)):  # the posterior mean under a uniform prior
                    inside[arm] = (good[arm] + 1.0) / (visits[arm] + 2.0)
            for arm in range(len(inside)):
                inside[arm] = min(now.upper[state, action, arm], max(now.lower[state, action, arm], inside[arm]))
    for arm in range(len(now.benefit)):
        pulled = _steady(point[0, 1, arm], point[1, 1, arm])
        now.benefit[arm] = pulled - _steady(point[0, 0, arm], point[1, 0, arm])


@part
def _steady(from_bad: float, from_good: float) -> float:
    """Return the long-run share of the good state, Eq. (5)."""
    return from_bad / (from_bad + (1.0 - from_good))


@part
def merits(now: Estimates, kind: int, first: float, second: float) -> None:
    """Set the merit of each estimated benefit, scaled so that the largest is 1."""
    merit, largest = now.merit, 0.0
    for arm in range(len(merit)):
        merit[arm] = _merit(kind, first, second, now.benefit[arm])
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
def shares(now: Estimates) -> None:
    """Set each arm's share of all merit, Eq. (8)."""
    total = 0.0
    for each in now.merit:
        total += each
    for arm in range(len(now.merit)):
        now.share[arm] = now.merit[arm] / total


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
