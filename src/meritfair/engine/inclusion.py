r"""Exposures of the sequential draw, once an episode: the integral of :mod:`meritfair.model.exposure`, compiled.

Arm i, which arrives at rate :math:`w_i`, is drawn when fewer than K others arrive before it. In log time,

.. math:: Pr_i(K) = 1 - (1 + w_i \tau)^{-m} + \int w_i t\, e^{-w_i t} \bigl(F_i(t) - S(t)\bigr)\, d \ln t ,

where :math:`F_i(t)` is the chance that fewer than K others have arrived by t, and S(t) that of fewer than m arrivals
of a steady stream of rate :math:`1/\tau`, for which the integral is known: arm i comes before its m-th. With
:math:`m \tau` about the time at which K have arrived, the difference is large only near that time, so few nodes of the
trapezoid rule do. At each, the law of the number of arrivals is built up from the first arm forwards; going backwards,
`later[k]` is the chance that of the arms behind at most K - 1 - k have arrived, so leaving out an arm joins the two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.engine.compiling import inlined, part, stage

_NEGLIGIBLE = 1e-11
_TINY = 1e-200  # processors are slow with the smallest of numbers
_MOST_STREAM = 8  # the largest m


class Race(NamedTuple):
    """Room to work in."""

    before: FloatArray  # (N + 1, K): the law of the number of arrivals among the arms before each
    later: FloatArray  # (K + 1,)
    arrived: FloatArray  # (N,)


def new_race(n_arms: int, budget: int) -> Race:
    """Return the room for draws of that many arms."""
    return Race(np.zeros((n_arms + 1, budget)), np.zeros(budget + 1), np.zeros(n_arms))


@stage
def include(race: Race, merit: FloatArray, exposure: FloatArray, budget: int) -> int:
    """Set the probability that each arm is among the K drawn by merits of which the largest is 1."""
    n_arms = len(merit)
    if budget == n_arms:
        exposure[:] = 1.0
        return 0
    m = min(budget, _MOST_STREAM)
    tau = _time_of(merit, budget - 0.5) / m
    for arm in range(n_arms):
        exposure[arm] = -math.expm1(-m * math.log1p(merit[arm] * tau))
    middle, step = math.log(m * tau), min(0.25, 1.0 / math.sqrt(budget))
    for side in (-1.0, 1.0):  # first back from the middle, then on from there
        x, small = middle if side > 0.0 else middle - step, 0
        while small < 3:  # the sum may change its sign, so one small node is not the last
            time = math.exp(x)
            stream = _fewer_of_stream(time / tau, m)
            added = _add_node(race, merit, exposure, budget, time, step, stream)
            small = small + 1 if added < _NEGLIGIBLE else 0
            x += side * step
    return 0


@part
def _time_of(merit: FloatArray, number: float) -> float:
    """Return about when this many have arrived, on average; by Newton's method from the left."""
    total = 0.0
    for each in merit:
        total += each
    time = number / total
    for _ in range(200):
        arrived = rate = 0.0
        for each in merit:
            left = math.exp(-each * time)
            arrived += 1.0 - left
            rate += each * left
        if arrived > number - 0.25:
            break
        time += (number - arrived) / rate
    return time


@part
def _fewer_of_stream(y: float, m: int) -> float:
    """Return the chance of fewer than m arrivals where y are expected."""
    term = total = 1.0
    for j in range(1, m):
        term *= y / j
        total += term
    return total * math.exp(-y)


@inlined
def _add_node(
    race: Race, merit: FloatArray, exposure: FloatArray, budget: int, time: float, step: float, stream: float
) -> float:
    """Add what one node contributes to each arm; return the largest of these."""
    n_arms, before, later, arrived = len(merit), race.before, race.later, race.arrived
    before[0, :] = 0.0
    before[0, 0] = 1.0
    for arm in range(n_arms):
        chance = -math.expm1(-merit[arm] * time)
        arrived[arm] = chance
        law, following = before[arm], before[arm + 1]
        following[0] = law[0] * (1.0 - chance)
        for k in range(1, budget):
            both = law[k] * (1.0 - chance) + law[k - 1] * chance
            following[k] = both if both > _TINY else 0.0
    for k in range(budget):
        later[k] = 1.0
    later[budget] = largest = 0.0
    for arm in range(n_arms - 1, -1, -1):
        fewer, chance, law = 0.0, arrived[arm], before[arm]
        for k in range(budget):
            fewer += law[k] * later[k]
            both = later[k] + (later[k + 1] - later[k]) * chance
            later[k] = both if both > _TINY else 0.0
        added = step * merit[arm] * time * (1.0 - chance) * (fewer - stream)
        exposure[arm] += added
        largest = max(largest, abs(added))
    return largest
