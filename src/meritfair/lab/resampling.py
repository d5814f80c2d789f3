"""What bootstrap intervals say of a claim, and how they are written.

A claim holds if the whole interval lies on its side of the bar, does not hold if all of it lies on the other, and is
inconclusive between: true, false and None, as in `Verdict.holds`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from meritfair.simulation.bootstrap import Interval


def interval_columns(name: str, found: Sequence[Interval]) -> dict[str, list[float]]:
    """Return intervals as columns of a file: ``name``, ``name_low`` and ``name_high``.

    Examples
    --------
    >>> interval_columns("regret", [Interval(2.0, 1.0, 3.0)])
    {'regret': [2.0], 'regret_low': [1.0], 'regret_high': [3.0]}
    """
    means, lows, highs = ([each[k] for each in found] for k in range(3))
    return {name: means, f"{name}_low": lows, f"{name}_high": highs}


def below(value: Interval, bar: float) -> bool | None:
    """Return whether a value is below a bar, None if its interval is inconclusive.

    Examples
    --------
    >>> below(Interval(0.6, 0.5, 0.7), 0.75), below(Interval(0.6, 0.5, 0.8), 0.75), below(Interval(0.9, 0.8, 1), 0.75)
    (True, None, False)
    """
    return True if value.high < bar else False if value.low >= bar else None


def above(value: Interval, bar: float) -> bool | None:
    """Return whether a value is above a bar, None if its interval is inconclusive."""
    return True if value.low > bar else False if value.high <= bar else None


def every(answers: Iterable[bool | None]) -> bool | None:
    """Return whether a claim holds everywhere: false if it fails somewhere, None if that is inconclusive.

    Examples
    --------
    >>> every([True, True]), every([True, None]), every([None, False])
    (True, None, False)
    """
    found = set(answers)
    return False if False in found else None if None in found else True


def tally(answers: Iterable[bool | None]) -> str:
    """Return in how many settings a claim holds, in words.

    Examples
    --------
    >>> tally([True, True, None, False])
    'in 2 of 4 settings (not in 1, inconclusive in 1)'
    >>> tally([True] * 15), tally([False] * 15)
    ('in all 15 settings', 'in none of 15 settings')
    """
    found = list(answers)
    total, holds, fails = len(found), found.count(True), found.count(False)
    if total in (holds, fails):
        return f"in all {total} settings" if holds else f"in none of {total} settings"
    rest = [f"not in {fails}"] * (fails > 0) + [f"inconclusive in {found.count(None)}"] * (None in found)
    return f"in {holds} of {total} settings ({', '.join(rest)})"


def shown(value: Interval, digits: int = 2) -> str:
    """Return a value and its interval as text.

    Examples
    --------
    >>> shown(Interval(0.621, 0.6, 0.64)), shown(Interval(1234.5, math.nan, math.nan), 0)
    ('0.62 (0.60 to 0.64)', '1,234')
    """
    mean, low, high = (_number(each, digits) for each in value)
    return mean if math.isnan(value.low) else f"{mean} ({low} to {high})"


def percent(part: float, digits: int = 0) -> str:
    """Return a part of 1 as text.

    Examples
    --------
    >>> percent(0.0354), percent(0.0354, 1)
    ('4 %', '3.5 %')
    """
    return "–" if math.isnan(part) else f"{100 * part:.{digits}f} %"


def span(values: Iterable[float], digits: int = 2) -> str:
    """Return the least and the largest of several numbers as text.

    Examples
    --------
    >>> span([0.61, 0.59, 0.67]), span([12_000.0], 0)
    ('0.59 to 0.67', '12,000')
    """
    known = [each for each in values if not math.isnan(each)]
    if not known:
        return "–"
    low, high = _number(min(known), digits), _number(max(known), digits)
    return low if low == high else f"{low} to {high}"


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:z,.{digits}f}".replace("-", "−").replace("inf", "∞")
