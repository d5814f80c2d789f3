r"""Given exposures: what each arm gets at a step, if it is due an exposure over time.

An arm's *account* d is what it was due less what it was given, in pulls, and `slack` bounds it. At a step an arm that
is due e can be given at least max(0, d + e - slack) and at most min(1, d + e + slack), so that its account stays within
the slack whatever happens. Between these bounds its exposure has the odds

.. math:: \Lambda \cdot o \cdot (1 + \kappa d / 256)^{256},

where o are the odds that are wanted at its state, the last factor is :math:`e^{\kappa d}`, nearly, and :math:`\Lambda`
is one number for all arms, such that exposures sum to the budget. The sum grows with :math:`\log \Lambda`, which is
found by Newton's method between two bounds. What is missing to the sum after that is shared in proportion to the room
that each arm has left: so the sum and the bounds hold always, and no step can fail.

Who may not be pulled at a step is given nothing. Then the bounds may leave too little room for the budget, or ask for
more than it. In both cases one level is found for all accounts: who may be pulled is given
:math:`\min(1, \max(0, d + e - \ell))`, where the level :math:`\ell` is as close to the slack, on that side, as the
budget allows. So those who are farthest beyond it come back first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.engine.compiling import kernel, part, summing

_CLOSE = 1e-9  # what Newton's method may leave of the budget
_STEPS = 100
_AT_ONCE = 1024  # numbers that are summed before what is lost by rounding is noted
_NEAR, _FAR = 200.0, 2000.0  # log odds
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
    odds_now: FloatArray  # (N,), those of its state
    floor_now: FloatArray  # (N,)
    ceiling_now: FloatArray  # (N,)
    given: FloatArray  # (N,)
    weight: FloatArray  # (N,), odds that take the account in
    low: FloatArray  # (N,)
    high: FloatArray  # (N,)
    order: IntArray  # (N,), in which arms are drawn
    budget: IntArray  # (1,), for which `due` was found; -1 if it has to be found anew
    scale: FloatArray  # (1,), of the odds at the last step


def new_accounts(n_arms: int) -> Accounts:
    """Return accounts of 0."""
    account, least, largest, total, due, odds_now, floor_now, ceiling_now = np.zeros((8, n_arms))
    given, weight, low, high = np.zeros((4, n_arms))
    odds, floor, ceiling = np.zeros((3, 2, n_arms))
    now = odds_now, floor_now, ceiling_now
    room = given, weight, low, high, np.arange(n_arms), np.full(1, -1), np.ones(1)
    return Accounts(account, least, largest, total, due, odds, floor, ceiling, *now, *room)


_NONE = np.zeros(0)
_NO_CELLS = np.zeros((2, 2, 0))
NO_TIMING = Timing(_NONE, _NONE, _NONE, _NO_CELLS, _NO_CELLS, 0.0, 0.0, 0, False)


@part
def set_bounds(low: FloatArray, high: FloatArray, account: FloatArray, due: FloatArray, slack: float) -> None:
    """Set the least and the most that each arm can be given at a step, so that its account stays within the slack."""
    for arm in range(len(due)):
        after = account[arm] + due[arm]  # the account, if nothing is given
        low[arm] = min(1.0, max(0.0, after - slack))
        high[arm] = min(1.0, max(0.0, after + slack))


@part
def narrow(low: FloatArray, high: FloatArray, floor: FloatArray, ceiling: FloatArray) -> None:
    """Narrow the bounds to what is given at least and at most to learn from.

    Slack goes first. The two are never at odds unless a rule has moved the account.
    """
    for arm in range(len(low)):
        least, most = low[arm], high[arm]
        low[arm] = min(most, max(least, floor[arm]))
        high[arm] = max(least, min(most, ceiling[arm]))


@part
def leave_out(low: FloatArray, high: FloatArray, free: BoolArray) -> None:
    """Give nothing to those who may not be pulled."""
    for arm in range(len(low)):
        low[arm] = low[arm] if free[arm] else 0.0
        high[arm] = high[arm] if free[arm] else 0.0


@part
def set_weights(weight: FloatArray, odds: FloatArray, account: FloatArray, pull: float) -> None:
    """Set the odds that take the account in."""
    for arm in range(len(weight)):
        weight[arm] = odds[arm] * shift(pull * account[arm])


@part
def settle(account: FloatArray, least: FloatArray, largest: FloatArray, due: FloatArray, given: FloatArray) -> None:
    """Enter what was due and what is given."""
    for arm in range(len(account)):
        account[arm] += due[arm] - given[arm]
    for arm in range(len(account)):
        least[arm] = min(least[arm], account[arm])
        largest[arm] = max(largest[arm], account[arm])


@part
def add_to(total: FloatArray, given: FloatArray) -> None:
    """Add up what is given."""
    for arm in range(len(total)):
        total[arm] += given[arm]


@part
def give(given: FloatArray, odds: FloatArray, low: FloatArray, high: FloatArray, budget: float, scale: float) -> float:
    """Set given exposures between bounds that leave room for the budget, in proportion to these odds.

    Return the scale of the odds that was found; `scale` is a first guess.
    """
    scale = _find_scale(odds, low, high, budget, scale)
    _set_at(given, odds, low, high, scale)
    _share_rest(given, low, high, budget)
    return scale


@part
def give_under_rules(
    given: FloatArray,
    odds: FloatArray,
    low: FloatArray,
    high: FloatArray,
    account: FloatArray,
    due: FloatArray,
    free: BoolArray,
    slack: float,
    budget: float,
    scale: float,
) -> float:
    """Do the same where the bounds may leave no room for the budget, which is at most the number of arms free.

    Learning gives way first: `low` and `high` are moved to the bounds of the slack, each in proportion, as far as it
    needs. Where these leave no room either, all accounts are brought to one level.
    """
    least, most = _sums_within(account, due, free, slack)
    if not least <= budget <= most:
        _bring_to_level(given, low, high, account, due, free, budget)
        return scale
    narrow_least, narrow_most = sum_of(low), sum_of(high)
    if narrow_least <= budget <= narrow_most:
        return give(given, odds, low, high, budget, scale)
    for arm in range(len(given)):
        after = account[arm] + due[arm]
        if not free[arm]:
            given[arm] = 0.0
        elif narrow_least > budget:
            bound = _part(after - slack)
            given[arm] = bound + (budget - least) / (narrow_least - least) * (low[arm] - bound)
        else:
            bound = _part(after + slack)
            given[arm] = bound + (most - budget) / (most - narrow_most) * (high[arm] - bound)
    return scale


@part
def _part(value: float) -> float:
    """Return the number from 0 to 1 that is next to a value."""
    return min(1.0, max(0.0, value))


@part
def _sums_within(account: FloatArray, due: FloatArray, free: BoolArray, slack: float) -> tuple[float, float]:
    """Return how much must and can be given in all to those who may be pulled, with accounts within the slack."""
    least = most = 0.0
    for arm in range(len(due)):
        after = account[arm] + due[arm]
        if free[arm]:
            least += _part(after - slack)
            most += _part(after + slack)
    return least, most


@part
def _bring_to_level(
    given: FloatArray,
    low: FloatArray,
    high: FloatArray,
    account: FloatArray,
    due: FloatArray,
    free: BoolArray,
    budget: float,
) -> None:
    """Give so much that all accounts end at one level, as far as exposures between 0 and 1 allow."""
    below, above = np.inf, -np.inf
    for arm in range(len(due)):
        if free[arm]:
            below = min(below, account[arm] + due[arm] - 1.0)  # at this level all are given 1
            above = max(above, account[arm] + due[arm])  # and at this one nothing
    for _ in range(_STEPS):
        middle = 0.5 * (below + above)
        if not below < middle < above:
            break
        total, _most = _sums_within(account, due, free, middle)
        below, above = (middle, above) if total > budget else (below, middle)
    for arm in range(len(due)):
        after = account[arm] + due[arm]
        low[arm] = given[arm] = _part(after - above) if free[arm] else 0.0
        high[arm] = _part(after - below) if free[arm] else 0.0
    _share_rest(given, low, high, budget)


@part
def _find_scale(odds: FloatArray, low: FloatArray, high: FloatArray, budget: float, scale: float) -> float:
    """Return the scale at which exposures come close to the budget.

    Newton's method can go to and fro between the sides of a kink. Where a step leaves more than half of what was
    missing, and both sides are known, the next is in their middle.
    """
    below, above, stride, before = 0.0, np.inf, 1.0, np.inf
    for _ in range(_STEPS):
        total, slope = _sum_at(odds, low, high, scale)
        missing = budget - total
        if abs(missing) <= _CLOSE:
            break
        if missing > 0.0:
            below = scale
        else:
            above = scale
        slow, before = abs(missing) > 0.5 * before, abs(missing)
        if slope > 0.0:
            scale *= math.exp(min(_WIDEST, max(-_WIDEST, missing / slope)))
        else:  # all are at a bound
            stride *= 2.0
            scale *= stride if missing > 0.0 else 1.0 / stride
        if above == np.inf or below == 0.0:
            if not below < scale < above:
                scale = 4.0 * below if above == np.inf else 0.25 * above
        elif slow or not below < scale < above:
            scale = math.sqrt(below) * math.sqrt(above)
    return scale


@summing
def _sum_at(odds: FloatArray, low: FloatArray, high: FloatArray, scale: float) -> tuple[float, float]:
    """Return the sum of the exposures of a scale, and its slope by the logarithm of the scale."""
    total = slope = 0.0
    for arm in range(len(odds)):
        weight = odds[arm] * scale
        wanted = weight / (1.0 + weight)
        exposure = min(high[arm], max(low[arm], wanted))
        total += exposure
        slope += wanted * (1.0 - wanted) if exposure == wanted else 0.0
    return total, slope


@part
def _set_at(given: FloatArray, odds: FloatArray, low: FloatArray, high: FloatArray, scale: float) -> None:
    """Set the exposures of a scale."""
    for arm in range(len(given)):
        weight = odds[arm] * scale
        given[arm] = min(high[arm], max(low[arm], weight / (1.0 + weight)))


@part
def _share_rest(given: FloatArray, low: FloatArray, high: FloatArray, budget: float) -> None:
    """Share what is missing to the budget, or too much, in proportion to the room that each arm has.

    Where the bounds leave no room for the budget but for rounding, all end at the bound: none is given less than 0.
    """
    total = sum_of(given)
    missing = budget - total
    end = high if missing > 0.0 else low
    room = sum_of(end) - total
    fraction = min(1.0, max(0.0, missing / room)) if room != 0.0 else 0.0
    for arm in range(len(given)):
        given[arm] += fraction * (end[arm] - given[arm])


@part
def sum_of(values: FloatArray) -> float:
    """Return a sum that is exact but for the last digits, also of a million numbers."""
    total, lost = 0.0, 0.0
    for first in range(0, len(values), _AT_ONCE):
        some = _sum_from(values, first, min(first + _AT_ONCE, len(values)))
        after = total + some
        lost += (total - after) + some if total >= some else (some - after) + total
        total = after
    return total + lost


@summing
def _sum_from(values: FloatArray, first: int, end: int) -> float:
    """Return the sum of values from the first on."""
    total = 0.0
    for i in range(first, end):
        total += values[i]
    return total


@part
def shift(log_odds: float) -> float:
    """Return a factor of odds: the exponential, nearly, as (1 + z / 256) ** 256, which takes few instructions."""
    power = 1.0 + min(_FAR, max(-_NEAR, log_odds)) * 0.00390625
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    return power * power


@kernel
def give_once(
    given: FloatArray,
    odds: FloatArray,
    low: FloatArray,
    high: FloatArray,
    floor: FloatArray,
    ceiling: FloatArray,
    account: FloatArray,
    due: FloatArray,
    free: BoolArray,
    slack: float,
    budget: int,
    pull: float,
) -> None:
    """Set the given exposures of one step; `odds` are those of what is wanted, and change."""
    set_bounds(low, high, account, due, slack)
    narrow(low, high, floor, ceiling)
    leave_out(low, high, free)
    set_weights(odds, odds, account, pull)
    give_under_rules(given, odds, low, high, account, due, free, slack, float(budget), 1.0)
