r"""Given exposures: what each arm gets at a step, if it is due an exposure over time.

An arm's *account* d is what it was due less what it was given, in pulls, and `slack` bounds it. At a step an arm that
is due e can be given at least max(0, d + e - slack) and at most min(1, d + e + slack), so that its account stays within
the slack whatever happens. Between these bounds its exposure has the odds

.. math:: \Lambda \cdot \frac{\varphi}{1 - \varphi} \cdot e^{\kappa d},

where :math:`\varphi` is the exposure that is wanted at its state, and :math:`\Lambda` is one number for all arms, such
that exposures sum to the budget. The sum grows with :math:`\log \Lambda`, which is found by Newton's method between two
bounds. What is missing to the sum after that is shared in proportion to the room that each arm has left: so the sum
and the bounds hold always, and no step can fail.

Who may not be pulled at a step is given nothing. Then the bounds may leave too little room for the budget, or ask for
more than it: in the first case arms are given more than their bound, in the second less, each in proportion.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.engine.compiling import kernel, part

_CLOSE = 1e-9  # what Newton's method may leave of the budget
_STEPS = 100
_FAR = 300.0  # log odds
_WIDEST = 4.0  # the longest step, in log odds


class Timing(NamedTuple):
    """What a timed lottery brings along."""

    merit: FloatArray  # (N,)
    floor: FloatArray  # (N,)
    cap: FloatArray  # (N,)
    point: FloatArray  # (2, 2, N) by state and action: the arms for which the time of pulls is chosen
    explore: FloatArray  # (2, 2, N), how much each state and action is to be seen, of what the lottery would see
    slack: float
    pull: float  # how strongly accounts act
    design: int
    looks: bool  # whether states matter at all


class Accounts(NamedTuple):
    """What the arms of a run were due and given, and room to find what they are given next."""

    account: FloatArray  # (N,)
    least: FloatArray  # (N,), the smallest account at any step
    largest: FloatArray  # (N,)
    total: FloatArray  # (N,), all that was given
    due: FloatArray  # (N,), at a step
    odds: FloatArray  # (2, N), of what is wanted, by state
    floor: FloatArray  # (2, N), what is given at least, by state, to learn from
    ceiling: FloatArray  # (2, N), and at most
    given: FloatArray  # (N,)
    weight: FloatArray  # (N,), odds that take the account in
    low: FloatArray  # (N,)
    high: FloatArray  # (N,)
    order: IntArray  # (N,), in which arms are drawn
    budget: IntArray  # (1,), for which `due` was found; -1 if it has to be found anew
    scale: FloatArray  # (1,), of the odds at the last step


def new_accounts(n_arms: int) -> Accounts:
    """Return accounts of 0."""
    account, least, largest, total, due, given, weight, low, high = np.zeros((9, n_arms))
    room = given, weight, low, high, np.arange(n_arms), np.full(1, -1), np.ones(1)
    odds, floor, ceiling = np.zeros((3, 2, n_arms))
    return Accounts(account, least, largest, total, due, odds, floor, ceiling, *room)


_NONE = np.zeros(0)
_NO_CELLS = np.zeros((2, 2, 0))
NO_TIMING = Timing(_NONE, _NONE, _NONE, _NO_CELLS, _NO_CELLS, 0.0, 0.0, 0, False)


@part
def bounds(account: float, due: float, floor: float, ceiling: float, slack: float) -> tuple[float, float]:
    """Return the least and the most that an arm can be given at a step.

    Slack goes before what is given to learn from. They are never at odds unless a rule has moved the account.
    """
    after = account + due  # the account, if nothing is given
    least, most = min(1.0, max(0.0, after - slack)), min(1.0, max(0.0, after + slack))
    return min(most, max(least, floor)), max(least, min(most, ceiling))


@part
def give(
    given: FloatArray, odds: FloatArray, low: FloatArray, high: FloatArray, free: BoolArray, budget: float, scale: float
) -> float:
    """Set given exposures between bounds, in proportion to these odds; return the scale of the odds that was found.

    `scale` is a first guess. The budget is at most the number of arms that are free.
    """
    least = most = 0.0
    for arm in range(len(given)):
        least += low[arm]
        most += high[arm]
    if least >= budget:
        part_of_it = budget / least if least > 0.0 else 0.0
        for arm in range(len(given)):
            given[arm] = low[arm] * part_of_it
        return scale
    if most <= budget:
        for arm in range(len(given)):
            given[arm] = high[arm]
            high[arm] = 1.0 if free[arm] else 0.0
    else:
        scale = _find_scale(given, odds, low, high, budget, scale)
    _share_rest(given, low, high, budget)
    return scale


@part
def _find_scale(
    given: FloatArray, odds: FloatArray, low: FloatArray, high: FloatArray, budget: float, scale: float
) -> float:
    """Set the exposures of the scale at which they come close to the budget; return it."""
    below, above, stride = 0.0, np.inf, 1.0
    for _ in range(_STEPS):
        total = slope = 0.0
        for arm in range(len(given)):
            weight = odds[arm] * scale
            wanted = weight / (1.0 + weight)
            exposure = min(high[arm], max(low[arm], wanted))
            given[arm] = exposure
            total += exposure
            slope += wanted * (1.0 - wanted) if exposure == wanted else 0.0
        missing = budget - total
        if abs(missing) <= _CLOSE:
            break
        if missing > 0.0:
            below = scale
        else:
            above = scale
        if slope > 0.0:
            scale *= math.exp(min(_WIDEST, max(-_WIDEST, missing / slope)))
        else:  # all are at a bound
            stride *= 2.0
            scale *= stride if missing > 0.0 else 1.0 / stride
        if not below < scale < above:
            scale = 4.0 * below if above == np.inf else 0.25 * above if below == 0.0 else math.sqrt(below * above)
    return scale


@part
def _share_rest(given: FloatArray, low: FloatArray, high: FloatArray, budget: float) -> None:
    """Share what is missing to the budget, or too much, in proportion to the room that each arm has."""
    total = up = down = 0.0
    for arm in range(len(given)):
        total += given[arm]
        up += high[arm] - given[arm]
        down += given[arm] - low[arm]
    missing = budget - total
    room = up if missing > 0.0 else down
    fraction = missing / room if room > 0.0 else 0.0
    for arm in range(len(given)):
        given[arm] += fraction * (high[arm] - given[arm] if missing > 0.0 else given[arm] - low[arm])


@part
def shift(log_odds: float) -> float:
    """Return a factor of odds; who is owed far more than the slack has no more than a large one."""
    return math.exp(min(_FAR, max(-_FAR, log_odds)))


@kernel
def give_once(
    given: FloatArray,
    odds: FloatArray,
    low: FloatArray,
    high: FloatArray,
    account: FloatArray,
    due: FloatArray,
    free: BoolArray,
    slack: float,
    budget: int,
    pull: float,
) -> None:
    """Set the given exposures of one step.

    `odds` are those of what is wanted, `low` and `high` what is given at least and at most to learn from; all change.
    """
    for arm in range(len(given)):
        least, most = bounds(account[arm], due[arm], low[arm], high[arm], slack)
        low[arm], high[arm] = (least, most) if free[arm] else (0.0, 0.0)
        odds[arm] *= shift(pull * account[arm])
    give(given, odds, low, high, free, float(budget), 1.0)
