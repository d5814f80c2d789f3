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
    low, high, odds = [], [], []
    floors, ceilings = least or [0.0] * len(due), most or [1.0] * len(due)
    for want, d, e, may, a, b in zip(wanted, account, due, free, floors, ceilings, strict=True):
        bottom, top = min(1.0, max(0.0, d + e - slack)), min(1.0, max(0.0, d + e + slack))
        low.append(min(top, max(bottom, a)) if may else 0.0)
        high.append(max(bottom, min(top, b)) if may else 0.0)
        odds.append(math.log(want) + 256 * math.log(1 + min(2000.0, max(-200.0, pull * d)) / 256))
    number = min(budget, sum(free))
    if sum(low) >= number:
        return [each * number / sum(low) if number else 0.0 for each in low]
    if sum(high) <= number:
        room = sum(free) - sum(high)
        more = (number - sum(high)) / room if room else 0.0
        return [top + more * (may - top) for top, may in zip(high, free, strict=True)]

    def given(scale: float) -> list[float]:
        return [min(b, max(a, 1 / (1 + math.exp(-scale - o)))) for a, b, o in zip(low, high, odds, strict=True)]

    below, above = -200.0 - max(odds), 200.0 - min(odds)
    for _ in range(200):
        middle = (below + above) / 2
        below, above = (middle, above) if sum(given(middle)) < number else (below, middle)
    return given((below + above) / 2)
