r"""Intervals by drawing runs again, and what they say of a claim.

A resample gives run r the weight of how often it was drawn, :math:`w_r = n_r / R`. A mean, a spread, an exponent is a
function of weights, so it is computed at once for a table of them whose first row is the runs as they were played (all
:math:`1/R`) and whose others are resamples; `interval_of` takes the first as the value and the middle 95 % of the
others as its interval. Two quantities with the same weights are drawn from the same runs, so luck that both share
cancels in their ratio or difference.

A claim holds if the whole interval lies on its side of the bar, does not hold if all of it lies on the other, and
cannot be told between: true, false and None, as in `Verdict.holds`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from meritfair.simulation.metrics import Interval, resampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meritfair.core.arrays import FloatArray

__all__ = [
    "above",
    "below",
    "every",
    "interval_columns",
    "interval_of",
    "percent",
    "ratio",
    "shown",
    "span",
    "spread",
    "tally",
    "weights",
]


@lru_cache(maxsize=64)
def weights(runs: int, seed: int = 0, number: int = 0) -> FloatArray:
    """Return the weights of runs: as played, then in each resample; for a single run there is only the first row.

    Tables of another number are drawn independently, for runs that have nothing in common.

    Examples
    --------
    >>> weights(4).shape, weights(4)[0].tolist(), weights(1).shape
    ((2001, 4), [0.25, 0.25, 0.25, 0.25], (1, 1))
    """
    played = np.full((1, runs), 1 / runs)
    if runs < 2:
        return played
    drawn = resampled(runs, seed, number=number)
    times = (drawn[:, :, None] == np.arange(runs)).sum(axis=1)
    table = np.concatenate([played, times / runs])
    table.flags.writeable = False  # it is kept for the next who asks
    return table


def interval_of(values: FloatArray) -> Interval:
    """Return the first value with the middle 95 % of the others, which has no end where these are not numbers.

    Examples
    --------
    >>> interval_of(weights(3) @ np.array([2.0, 2.0, 2.0]))
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    mean, others = float(values[0]), values[1:]
    if not len(others) or math.isnan(mean):
        return Interval(mean, np.nan, np.nan)
    unknown = np.isnan(others)
    low = np.quantile(np.where(unknown, -np.inf, others), 0.025, method="lower")
    high = np.quantile(np.where(unknown, np.inf, others), 0.975, method="higher")
    return Interval(mean, float(low), float(high))


def interval_columns(name: str, found: Sequence[Interval]) -> dict[str, list[float]]:
    """Return intervals as columns of a file: ``name``, ``name_low`` and ``name_high``.

    Examples
    --------
    >>> interval_columns("regret", [Interval(2.0, 1.0, 3.0)])
    {'regret': [2.0], 'regret_low': [1.0], 'regret_high': [3.0]}
    """
    means, lows, highs = ([each[k] for each in found] for k in range(3))
    return {name: means, f"{name}_low": lows, f"{name}_high": highs}


def spread(runs: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the standard deviation over runs, for each row of weights.

    Examples
    --------
    >>> spread(np.array([1.0, 3.0]), weights(2))[0].item()
    1.0
    """
    centred = runs - runs.mean()  # so that no digits are lost
    return np.asarray(np.sqrt(np.maximum(weight @ centred**2 - (weight @ centred) ** 2, 0.0)))


def ratio(over: FloatArray, under: FloatArray) -> FloatArray:
    """Return the ratio, NaN where there is nothing to divide by."""
    return np.asarray(over / np.where(under > 0, under, np.nan))


def below(value: Interval, bar: float) -> bool | None:
    """Return whether a value is below a bar, None if its interval does not tell.

    Examples
    --------
    >>> below(Interval(0.6, 0.5, 0.7), 0.75), below(Interval(0.6, 0.5, 0.8), 0.75), below(Interval(0.9, 0.8, 1), 0.75)
    (True, None, False)
    """
    return True if value.high < bar else False if value.low >= bar else None


def above(value: Interval, bar: float) -> bool | None:
    """Return whether a value is above a bar, None if its interval does not tell."""
    return True if value.low > bar else False if value.high <= bar else None


def every(answers: Iterable[bool | None]) -> bool | None:
    """Return whether a claim holds everywhere: false if it fails somewhere, None if that cannot be told.

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
    'in 2 of 4 settings (not in 1, cannot be told in 1)'
    >>> tally([True] * 15), tally([False] * 15)
    ('in all 15 settings', 'in none of 15 settings')
    """
    found = list(answers)
    total, holds, fails = len(found), found.count(True), found.count(False)
    if total in (holds, fails):
        return f"in all {total} settings" if holds else f"in none of {total} settings"
    rest = [f"not in {fails}"] * (fails > 0) + [f"cannot be told in {found.count(None)}"] * (None in found)
    return f"in {holds} of {total} settings ({', '.join(rest)})"


def shown(value: Interval, digits: int = 2) -> str:
    """Return a value and its interval as text.

    Examples
    --------
    >>> shown(Interval(0.621, 0.6, 0.64)), shown(Interval(1234.5, np.nan, np.nan), 0)
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
