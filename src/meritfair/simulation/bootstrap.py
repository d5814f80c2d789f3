r"""The bootstrap: 95 % confidence intervals by drawing runs with replacement.

A resample gives run r the weight of how often it was drawn, :math:`w_r = n_r / R`. Means, ratios, spreads and exponents
are functions of these weights, so all of them are computed at once for a table whose first row is the runs as they were
played (all :math:`1/R`) and whose other rows are resamples (`weights`); `interval_of` takes the first as the value and
the middle 95 % of the others as its interval. Two quantities with the same weights are drawn from the same runs, so
noise that both share cancels in their ratio or difference.

Ratios are ratios of means, not means of ratios, so that a run in which little could be won does not drown the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import float_array
from meritfair.core.errors import InputError
from meritfair.core.seeding import stream

RESAMPLES = 2000
_ENDS = (0.025, 0.975)


class Interval(NamedTuple):
    """A mean over runs, or a ratio of two, with a 95 % bootstrap interval; NaN at both ends for a single run."""

    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """A difference of two means over runs: its interval run by run, and what it would be without pairs of runs."""

    paired: Interval
    unpaired: Interval


def interval_row(found: Mapping[str, Interval]) -> dict[str, float]:
    """Return intervals as part of a row of a table: each as ``name``, ``name_low`` and ``name_high``.

    Examples
    --------
    >>> interval_row({"regret": Interval(2.0, 1.0, 3.0)})
    {'regret': 2.0, 'regret_low': 1.0, 'regret_high': 3.0}
    """
    ends = ("", "_low", "_high")
    return {name + end: value for name, each in found.items() for end, value in zip(ends, each, strict=True)}


def interval(values: npt.ArrayLike, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """Return the mean over runs with its 95 % percentile bootstrap interval.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0, 4.0]).mean
    2.5
    """
    x = float_array("values", values)
    if len(x) < 2:
        return Interval(float(x.mean()), np.nan, np.nan)
    low, high = np.quantile(x[_resampled(len(x), seed, resamples)].mean(axis=1), _ENDS)
    return Interval(float(x.mean()), float(low), float(high))


def difference(one: npt.ArrayLike, other: npt.ArrayLike, seed: int = 0, resamples: int = RESAMPLES) -> Difference:
    """Return the mean of one less that of the other over the same runs, with 95 % intervals.

    The paired one draws runs, and takes both numbers of each: what is common to both in a run cancels. The unpaired
    one draws the runs of each on their own, as if these had nothing in common.

    Examples
    --------
    >>> found = difference([1.0, 5.0, 9.0], [0.5, 4.5, 8.5])
    >>> found.paired
    Interval(mean=0.5, low=0.5, high=0.5)
    >>> found.unpaired.low < -4 and found.unpaired.high > 5
    True
    """
    x, y = float_array("one", one), float_array("other", other)
    if x.shape != y.shape:
        raise InputError(f"a difference needs one number for each run twice, got {x.shape} and {y.shape}")
    paired = interval(x - y, seed, resamples)
    if len(x) < 2:
        return Difference(paired, paired)
    means = [each[_resampled(len(each), seed, resamples, i)].mean(axis=1) for i, each in enumerate((x, y))]
    low, high = np.quantile(means[0] - means[1], _ENDS)
    return Difference(paired, Interval(paired.mean, float(low), float(high)))


def intervals(measures: Mapping[str, FloatArray], seed: int = 0) -> dict[str, Interval]:
    """Return the `interval` of each measure of the same runs, all at once, up to rounding."""
    values = np.stack(list(measures.values()), axis=1)
    ends = np.full((2, values.shape[1]), np.nan)
    if len(values) > 1:
        resampled = np.einsum("sr,rm->ms", weights(len(values), seed)[1:], values)  # threads would only wait
        ends = np.quantile(resampled, _ENDS, axis=1)
    columns = zip(values.mean(axis=0).tolist(), *ends.tolist(), strict=True)
    return {name: Interval(*numbers) for name, numbers in zip(measures, columns, strict=True)}


def ratio_interval(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return the ratio of two means over the same runs, with a 95 % interval that draws both from the same runs.

    NaN where the mean denominator is not positive. In a resample where it is not, the ratio could be anything: if these
    are more than a few, the interval has no end.

    Examples
    --------
    >>> ratio_interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])  # always half, whichever runs are drawn
    Interval(mean=0.5, low=0.5, high=0.5)
    """
    above, below = float_array("numerator", numerator), float_array("denominator", denominator)
    if above.shape != below.shape:
        raise InputError(f"a ratio needs one number for each run twice, got {above.shape} and {below.shape}")
    picks = _resampled(len(above), seed, resamples)
    over, under = (np.append(each.mean(), each[picks].mean(axis=1)) for each in (above, below))
    return interval_of(ratio(over, under))


def _resampled(runs: int, seed: int, resamples: int = RESAMPLES, number: int = 0) -> IntArray:
    """Return runs drawn with replacement, as many as there are, shape (resamples, runs); none for a single run."""
    rows = resamples if runs > 1 else 0
    return np.asarray(stream(seed, "bootstrap", number).integers(0, runs, (rows, runs)))


@lru_cache(maxsize=64)
def weights(runs: int, seed: int = 0, number: int = 0) -> FloatArray:
    """Return the weights of runs: as played, then in each resample; for a single run there is only the first row.

    Tables of another number are drawn independently, for runs that have nothing in common.

    Examples
    --------
    >>> weights(4).shape, weights(4)[0].tolist(), weights(1).shape
    ((2001, 4), [0.25, 0.25, 0.25, 0.25], (1, 1))
    """
    times = (_resampled(runs, seed, number=number)[:, :, None] == np.arange(runs)).sum(axis=1)
    table = np.concatenate([np.full((1, runs), 1 / runs), times / runs])
    table.flags.writeable = False  # it is kept for the next caller
    return table


def interval_of(values: FloatArray) -> Interval:
    """Return the first value with the middle 95 % of the others; the interval has no end where these are not numbers.

    Examples
    --------
    >>> interval_of(weights(3) @ np.array([2.0, 2.0, 2.0]))
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    mean, others = float(values[0]), values[1:]
    if not len(others) or math.isnan(mean):
        return Interval(mean, np.nan, np.nan)
    unknown = np.isnan(others)
    low = np.quantile(np.where(unknown, -np.inf, others), _ENDS[0], method="lower")
    high = np.quantile(np.where(unknown, np.inf, others), _ENDS[1], method="higher")
    return Interval(mean, float(low), float(high))


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
