r"""Exposure: with which probability each arm is pulled at a step, for given merits.

For one pull the fair exposure is the merit's share, :math:`\pi_i = g_i / \sum_j g_j` (Eq. 2, Eq. 8).

For K > 1 the designs ``exact`` and ``systematic`` give each arm the exposure that :mod:`meritfair.model.allocation`
defines, in proportion to merit up to saturation; they differ only in who is drawn together.

The paper draws K arms one after another from :math:`\pi`, without replacement (design ``sequential``). An arm is
then among the K with a probability :math:`Pr_i(K)` that is not proportional to merit. It is found exactly by a
race: let arm j arrive at an exponential time with rate :math:`w_j = g_j`. The order of arrival has the law of the
sequential draw, so arm i is drawn when fewer than K others arrive before it:

.. math:: Pr_i(K) = \int_0^\infty w_i e^{-w_i t}\, \Pr\{\text{at most } K-1 \text{ others by } t\}\, dt .

The number of others that have arrived by t is Poisson-binomial. In :math:`x = \ln t` the integrand is
analytic and dies at both ends, so the trapezoid rule converges geometrically: its step is halved until
nothing moves. Merits may span hundreds of orders of magnitude.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_budget, check_choice, check_merit
from meritfair.core.errors import InputError
from meritfair.model.allocation import allocate

DESIGNS = ("sequential", "exact", "systematic")  # in the order of engine.rules

_COMPILED_FROM = 10_000  # N K from which the engine integrates: to within 1e-9, and a hundred times faster
_LOWEST = -180.0  # the smallest logarithm of a rate there
_TAIL = 1e-14  # what may be cut off at either end of the integral
_AGREE = 1e-11  # halving the step must move no exposure by more
_CHUNK = 4_000_000  # numbers in memory at a time


def merit_share(merit: npt.ArrayLike) -> FloatArray:
    """Return each arm's share of all merit, pi of Eq. (2) and Eq. (8), along the last axis.

    Examples
    --------
    >>> merit_share([1.0, 3.0])
    array([0.25, 0.75])
    """
    g = check_merit(merit)
    scaled = g / g.max(axis=-1, keepdims=True)  # sums of the largest doubles would overflow
    return np.asarray(scaled / scaled.sum(axis=-1, keepdims=True))


def fair_exposure(
    merit: npt.ArrayLike,
    budget: int = 1,
    design: Any = "sequential",
    *,
    floor: npt.ArrayLike = 0.0,
    cap: npt.ArrayLike = 1.0,
) -> FloatArray:
    """Return each arm's probability of being pulled at a step; they sum to the budget.

    Parameters
    ----------
    merit : array_like, shape (..., N)
        Positive merits; only their ratios matter.
    budget : int
        Arms pulled at each step, from 1 to N.
    design : {"sequential", "exact", "systematic"}
        How the arms are drawn: ``sequential`` is the paper's, one after another without replacement. The other two
        have exposures in proportion to merit up to saturation; `allocate` also says who is saturated.
    floor, cap : array_like
        The least and the most exposure of each arm, for designs other than ``sequential``.

    Returns
    -------
    ndarray, shape (..., N)

    Examples
    --------
    >>> fair_exposure([0.5, 0.2, 0.2, 0.1])
    array([0.5, 0.2, 0.2, 0.1])
    >>> fair_exposure([0.5, 0.2, 0.2, 0.1], budget=2).round(4)
    array([0.8056, 0.4722, 0.4722, 0.25  ])
    >>> fair_exposure([0.5, 0.2, 0.2, 0.1], budget=2, design="exact")
    array([1. , 0.4, 0.4, 0.2])
    """
    if check_design(design, floor, cap) != "sequential":
        return allocate(merit, budget, floor=floor, cap=cap).exposure
    g = check_merit(merit)
    n_arms = g.shape[-1]
    K = check_budget(budget, n_arms)
    if K == 1:
        return merit_share(g)
    if n_arms == K:
        return np.ones_like(g)
    rows = [_race_exposure(row - row.max(), K) for row in np.log(g).reshape(-1, n_arms)]
    return np.asarray(rows).reshape(g.shape)


def takes_integral(merit: FloatArray, budget: int, design: str) -> bool:
    """Whether exposures take an integral: those of a sequential draw of several arms that differ."""
    return design == "sequential" and budget > 1 and bool(np.ptp(merit, axis=-1).any())


def check_design(design: Any, floor: npt.ArrayLike = 0.0, cap: npt.ArrayLike = 1.0) -> str:
    """Return `design` if there is such a design, and it can keep floors and caps if there are any."""
    name = check_choice("design", design, DESIGNS)
    if name == "sequential" and (np.any(np.asarray(floor) != 0.0) or np.any(np.asarray(cap) != 1.0)):
        raise InputError("floor and cap need the design 'exact' or 'systematic': a sequential draw cannot keep them")
    return name


def _race_exposure(log_rate: FloatArray, K: int) -> FloatArray:
    """Return the inclusion probabilities of the sequential draw, for 1 < K < N and a largest rate of 1."""
    if not log_rate.any():
        return np.full(len(log_rate), K / len(log_rate))  # all alike
    if len(log_rate) * K <= _COMPILED_FROM or log_rate.min() < _LOWEST:
        return _sequential(log_rate, K)
    from meritfair.engine.inclusion import include, new_race  # the same integral; loading it takes a second

    exposure = np.zeros(len(log_rate))
    include(new_race(len(log_rate), K), np.exp(log_rate), exposure, K)
    return np.clip(exposure, 0.0, 1.0)


def _sequential(log_rate: FloatArray, K: int) -> FloatArray:
    """Return the same in plain NumPy, for rates of any range."""
    n_arms = len(log_rate)
    # Before exp(low), the fastest arm arrives with probability below _TAIL. After exp(high), having
    # N - K arms still outstanding is as unlikely: at most 2^N choices of them, each with
    # probability exp(-t · sum of their rates), where the N - K slowest are the likeliest.
    slowest = np.sort(log_rate)[: n_arms - K]
    slow_sum = slowest[-1] + np.log(np.exp(slowest - slowest[-1]).sum())
    low = np.log(_TAIL)
    high = np.log(n_arms * np.log(2) - np.log(_TAIL)) - slow_sum
    intervals = int(np.ceil((high - low) / 0.25))
    step = (high - low) / intervals
    total = _race(log_rate, K, low + step * np.arange(intervals + 1))
    exposure = step * total
    for _ in range(12):
        total += _race(log_rate, K, low + step * (np.arange(intervals) + 0.5))
        step, intervals, previous = step / 2, intervals * 2, exposure
        exposure = step * total
        if np.abs(exposure - previous).max() < _AGREE:
            break
    return np.asarray(np.clip(exposure, 0.0, 1.0))


def _race(log_rate: FloatArray, K: int, x: FloatArray) -> FloatArray:
    """Return for each arm the sum over log times x of (density of arriving there and being among the first K)."""
    n_arms = len(log_rate)
    total = np.zeros(n_arms)
    size = max(1, _CHUNK // (n_arms * K))
    for start in range(0, len(x), size):
        hazard = np.exp(log_rate[:, None] + x[None, start : start + size])  # rate × time, (N, nodes)
        density = hazard * np.exp(-hazard)  # of the log of the arrival time
        total += (density * _fewer_than(K, -np.expm1(-hazard))).sum(axis=1)
    return total


def _fewer_than(K: int, arrived: FloatArray) -> FloatArray:
    """Return for each arm the probability that fewer than K of the others have arrived.

    `arrived` has shape (N, nodes). The law of the number of arrivals is built up from the first arm
    forwards and from the last backwards; leaving out arm i joins the two parts on either side of it.
    Nothing is ever subtracted or divided, so no digits are lost.
    """
    n_arms, nodes = arrived.shape
    before = np.empty((n_arms, K, nodes))  # before[i, k]: exactly k of the arms 0 … i-1
    law = np.zeros((K, nodes))
    law[0] = 1.0
    for i in range(n_arms):
        before[i] = law
        law = _add_arm(law, arrived[i])
    result = np.empty_like(arrived)
    law = np.zeros((K, nodes))
    law[0] = 1.0
    for i in range(n_arms - 1, -1, -1):
        at_most = np.cumsum(law, axis=0)  # of the arms i+1 … N-1
        result[i] = np.einsum("kn,kn->n", before[i], at_most[::-1])
        law = _add_arm(law, arrived[i])
    return result


def _add_arm(law: FloatArray, arrived: FloatArray) -> FloatArray:
    """Return the law of a count, cut off above, after one more arm may have arrived."""
    more = law * (1 - arrived)
    more[1:] += law[:-1] * arrived
    return more
