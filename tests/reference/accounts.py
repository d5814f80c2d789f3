"""Given exposures at a step, by bisection: what `meritfair.engine.accounts` finds by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Sequence


def plain_given(
    wanted: Sequence[float],  # odds
    account: Sequence[float],
    due: Sequence[float],
    slack: float,
    budget: int,
    free: Sequence[bool],
    pull: float,
    least: Sequence[float] | None = None,
    most: Sequence[float] | None = None,
) -> list[float]:
    """Return what each arm is given: wanted odds times (1 + pull * account / 256) ** 256, on one scale, within bounds.

    `least` and `most` are what it is given at least and at most as far as the slack allows.
    """
    low, high, odds, number = [], [], [], min(budget, sum(free))
    floors, ceilings = least or [0.0] * len(due), most or [1.0] * len(due)
    after = [d + e for d, e in zip(account, due, strict=True)]
    bottoms, tops = ([_part(each - bound) for each in after] for bound in (slack, -slack))
    for want, d, bottom, top, may, a, b in zip(wanted, account, bottoms, tops, free, floors, ceilings, strict=True):
        low.append(min(top, max(bottom, a)) if may else 0.0)
        high.append(max(bottom, min(top, b)) if may else 0.0)
        odds.append(math.log(want) + 256 * math.log(1 + min(2000.0, max(-200.0, pull * d)) / 256))
    bottoms, tops = ([each * may for each, may in zip(some, free, strict=True)] for some in (bottoms, tops))
    if not sum(bottoms) <= number <= sum(tops):
        return _at_one_level(after, free, number)
    if sum(low) > number:
        return _between(bottoms, low, number)
    if sum(high) < number:
        return _between(high, tops, number)

    def given(scale: float) -> list[float]:
        return [min(b, max(a, 1 / (1 + math.exp(-scale - o)))) for a, b, o in zip(low, high, odds, strict=True)]

    below, above = -200.0 - max(odds), 200.0 - min(odds)
    for _ in range(200):
        middle = (below + above) / 2
        below, above = (middle, above) if sum(given(middle)) < number else (below, middle)
    return given((below + above) / 2)


def _part(value: float) -> float:
    return min(1.0, max(0.0, value))


def _between(few: Sequence[float], many: Sequence[float], number: float) -> list[float]:
    """Return the point between two that sums to the number."""
    way = (number - sum(few)) / (sum(many) - sum(few))
    return [a + way * (b - a) for a, b in zip(few, many, strict=True)]


def _at_one_level(after: Sequence[float], free: Sequence[bool], number: int) -> list[float]:
    """Return what is given so that all accounts end at one level, as far as can be."""
    below, above = min(after) - 1, max(after)
    for _ in range(200):
        middle = (below + above) / 2
        total = sum(_part(each - middle) for each, may in zip(after, free, strict=True) if may)
        below, above = (middle, above) if total > number else (below, middle)
    return [_part(each - above) if may else 0.0 for each, may in zip(after, free, strict=True)]
