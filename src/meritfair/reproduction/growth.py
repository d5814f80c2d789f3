r"""How fast regret grows: the exponent :math:`\alpha` of :math:`T^\alpha` that fits the last nine tenths of a run.

It is the slope of the least-squares line through (log t, log FR(t)) for the kept episodes t of T/10 and more, FR the
regret added up to episode t and averaged over runs. Regret that never gets less, such as that of a policy which does
not learn to be fair, has 1; the rate of the paper's Theorem 5.5, :math:`\sqrt{T \ln T}`, has 1/2 plus 1/(2 ln t), that
is 0.55 to 0.57 over these episodes for T = 10,000. Regret is added up from the first episode, so what a policy does
before it has learned anything is in the sum too, and in short runs it is much of it.

The paper calls regret sublinear or linear by the look of its curves. Here it is sublinear if the exponent's interval
lies below 1. How far it is above the theorem's 1/2 is reported apart, and decides nothing: the theorem has a limit on
regret, and a run has one length. Regret is linear if the interval lies above 0.95, and not above 1, as the first
episodes keep even regret that is linear in the end a little below it. An exponent between 0.95 and 1 is both.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.lab.resampling import above, below, every
from meritfair.lab.tasks import Outcome, curve_episodes
from meritfair.simulation.bootstrap import Interval, interval_of, weights

LINEAR = 0.95
_FROM = 0.1  # the part of a run that is left out


def slope(episodes: FloatArray, totals: FloatArray) -> FloatArray:
    """Return the slope of log totals by log episodes; NaN where a total is not positive, or there is one point only.

    Parameters
    ----------
    episodes : ndarray, shape (points,)
    totals : ndarray, shape (..., points)

    Examples
    --------
    >>> t = np.arange(1.0, 100.0)
    >>> slope(t, np.stack([5 * t, 7 * np.sqrt(t)])).round(6)
    array([1. , 0.5])
    """
    x = np.log(episodes)
    x -= x.mean()
    y = np.log(np.where(totals > 0, totals, np.nan))
    return np.asarray(y @ x / (x @ x if len(x) > 1 else np.nan))


def exponents(outcome: Outcome, weight: FloatArray, curve: str = "fairness_regret") -> FloatArray:
    """Return the exponent of a curve's mean over runs, for each row of weights."""
    late = _late(outcome.episodes)
    totals = weight @ outcome.curves[curve][:, -len(late) :]
    return slope(late.astype(np.float64), totals)


def _late(episodes: IntArray) -> IntArray:
    """Return the episodes that count."""
    return np.asarray(episodes[episodes >= _FROM * episodes[-1]])


def exponent(outcome: Outcome, seed: int = 0, curve: str = "fairness_regret") -> Interval:
    """Return the exponent of a curve's mean over runs, with its 95 % bootstrap interval."""
    return interval_of(exponents(outcome, weights(len(outcome.runs), seed), curve))


def rate_of_theorem(episodes: int) -> float:
    r"""Return the exponent that :math:`\sqrt{T \ln T}` has over a run of that many episodes; NaN if that is too few.

    Examples
    --------
    >>> round(rate_of_theorem(10_000), 3)
    0.561
    """
    kept = _late(curve_episodes(episodes)).astype(np.float64)
    return float(slope(kept, np.sqrt(kept * np.log(kept))))


def is_sublinear(found: Iterable[Interval]) -> bool | None:
    """Return whether all exponents are below 1."""
    return every(below(each, 1.0) for each in found)


def is_linear(found: Iterable[Interval]) -> bool | None:
    """Return whether all exponents are above the bar."""
    return every(above(each, LINEAR) for each in found)


def between(value: Interval, low: float, high: float) -> bool | None:
    """Return whether a value lies between two bars, None if its interval does not tell."""
    return every([above(value, low), below(value, high)])
