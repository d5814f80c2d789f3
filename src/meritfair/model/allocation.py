r"""The exact allocation of several pulls: exposure in proportion to merit, up to what an arm can take.

Of K pulls at each step, arm i is entitled to

.. math:: e_i = \min(1, \lambda g_i), \qquad \lambda \text{ such that } \sum_i e_i = K ,

where :math:`g_i` is its merit. No probability is above 1; an arm for which :math:`\lambda g_i \ge 1` is *saturated*.
Between all others Eq. 1 of the paper holds: exposures are as merits. For K = 1 this is the paper's :math:`\pi`.
Floors :math:`f_i` and caps :math:`c_i` generalise it to :math:`e_i = \min(c_i, \max(f_i, \lambda g_i))`.
`docs/theory.md` says why this is the right definition, and what it guarantees.

The sum of all :math:`e_i` grows with :math:`\lambda`, and is linear between the points where some arm leaves its floor
or reaches its cap. About the median of these points is tried; it settles on which side the answer lies, so about half
of them are done with, and so on: O(N) in all. Sums are never subtracted, so merits may span hundreds of orders of
magnitude.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import check_budget, check_merit, float_array, probabilities
from meritfair.core.deprecation import Renamed
from meritfair.core.errors import InputError

_SAMPLE = 1000
_LAST_DIGITS = 1e-13
_ROUNDING = 1e-9  # floors and caps may miss the budget by this much in all


@dataclass(frozen=True, eq=False)
class Allocation:
    """How a budget is shared.

    Attributes
    ----------
    exposure : ndarray, shape (..., N)
        Each arm's probability of being pulled at a step; they sum to the budget.
    rate : ndarray, shape (...)
        Exposure for a unit of merit, lambda; infinite if all arms are at their caps.
    saturated : ndarray of bool, shape (..., N)
        Arms at their cap (1, if none is set): merit would entitle them to at least as much.
    at_floor : ndarray of bool, shape (..., N)
        Arms at their floor: merit would entitle them to less.
    """

    exposure: FloatArray
    rate: FloatArray
    saturated: BoolArray
    at_floor: BoolArray
    lifted = Renamed("at_floor")


def allocate(
    merit: npt.ArrayLike, budget: int = 1, *, floor: npt.ArrayLike = 0.0, cap: npt.ArrayLike = 1.0
) -> Allocation:
    """Share a budget in proportion to merit, between floors and caps.

    Parameters
    ----------
    merit : array_like, shape (..., N)
        Positive merits; only their ratios matter.
    budget : int
        Arms pulled at each step, from 1 to N.
    floor, cap : array_like
        The least and the most exposure of each arm: one number for all, or one for each, perhaps with the leading axes
        of merit. Floors may add up to at most the budget, caps to no less.

    Examples
    --------
    >>> shares = allocate([5.0, 2.0, 2.0, 1.0], budget=2)
    >>> shares.exposure, shares.saturated
    (array([1. , 0.4, 0.4, 0.2]), array([ True, False, False, False]))
    >>> allocate([5.0, 2.0, 2.0, 1.0], budget=2, floor=0.3, cap=0.9).exposure
    array([0.9, 0.4, 0.4, 0.3])
    """
    g = check_merit(merit)
    n_arms = g.shape[-1]
    K = check_budget(budget, n_arms)
    low, high = (np.broadcast_to(bound, g.shape) for bound in check_bounds(floor, cap, n_arms, K))
    log_merit = np.log(g)
    rows = zip(*(x.reshape(-1, n_arms) for x in (log_merit, low, high)), strict=True)
    log_rate = np.array([_log_rate(row, K, *bounds) for row, *bounds in rows]).reshape(g.shape[:-1])
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(log_merit + log_rate[..., None])
        rate = np.exp(log_rate)
    saturated = wanted >= high * (1 - _LAST_DIGITS)
    exposure = np.where(saturated, high, np.maximum(low, wanted))
    return Allocation(exposure, rate, saturated, ~saturated & (wanted < low * (1 - _LAST_DIGITS)))


def shared_error(part: FloatArray, own: FloatArray) -> FloatArray:
    """Return the standard deviations of shares of a whole, when what each is based on has independent errors.

    Arm i has `part[i]` of the whole, and `own[i]` would be the variance of its share if the whole were not shared. What
    one gains is taken from all in proportion, so the variance is (1 - 2 part) own + part^2 times the sum of all.
    """
    return np.asarray(np.sqrt(np.maximum(0.0, (1 - 2 * part) * own + part**2 * own.sum())))


def check_bounds(floor: npt.ArrayLike, cap: npt.ArrayLike, n_arms: int, budget: int) -> tuple[FloatArray, FloatArray]:
    """Return floors and caps, one for each arm, if a budget can be shared between them."""
    low, high = (_one_for_each(name, x, n_arms) for name, x in (("floor", floor), ("cap", cap)))
    above = np.argwhere(low > high)
    if len(above):
        at = tuple(above[0])
        pair = (float(np.broadcast_to(x, (low + high).shape)[at]) for x in (low, high))
        raise InputError("floor must be at most cap, got {:g} and {:g} for arm {}".format(*pair, at[-1]))
    least, most = float(low.sum(axis=-1).max()), float(high.sum(axis=-1).min())
    if least > budget + _ROUNDING:
        raise InputError(f"floors must add up to at most the budget of {budget}, got {least:g}")
    if most < budget - _ROUNDING:
        raise InputError(f"caps must add up to at least the budget of {budget}, got {most:g}")
    return low, high


def fitting_bounds(
    floor: FloatArray, cap: FloatArray, budget: int, highest: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return floors and caps, each (N,), that leave room for a budget and are at most the highest.

    Caps that are too low are raised, and floors that are too high are reduced, each in proportion.

    Examples
    --------
    >>> fitting_bounds(np.full(4, 0.1), np.full(4, 0.5), budget=3)
    (array([0.1, 0.1, 0.1, 0.1]), array([0.75, 0.75, 0.75, 0.75]))
    """
    high = np.minimum(cap, highest)
    room, most = len(high) * highest, high.sum()
    if most < budget:
        high = highest - (highest - high) * ((room - budget) / (room - most))
    low = np.minimum(floor, high)
    if low.sum() > budget + _ROUNDING:
        low = low * (budget / low.sum())
    return low, high


def learning_cap(not_pulled: npt.ArrayLike, budget: int, floor: npt.ArrayLike, cap: npt.ArrayLike) -> FloatArray:
    """Return caps under which a policy keeps learning about every arm.

    What happens to an arm that is not pulled is never seen if it is always pulled, so an estimate that is wrong about
    that could stay wrong forever. After n steps without a pull, the cap of an arm is 1 - (1 - K/N) / (1 + n) where it
    would be 1. So after h steps it was not pulled about sqrt(2 (1 - K/N) h) times, and over T episodes of H steps that
    adds about sqrt(T/H) to its regret (`docs/theory.md`, Section 4).

    Parameters
    ----------
    not_pulled : array_like, shape (..., N)
        How often each arm was seen when it was not pulled.
    budget : int
    floor, cap : array_like
        The bounds that must be kept; they stay as they are where the budget could not be used up otherwise.

    Examples
    --------
    >>> learning_cap([0, 1, 99], budget=1, floor=0.0, cap=1.0).round(4)
    array([0.3333, 0.6667, 0.9933])
    """
    seen = float_array("not_pulled", not_pulled)
    low, high = check_bounds(floor, cap, seen.shape[-1], budget)
    careful = 1 - (1 - budget / seen.shape[-1]) / (1 + seen)
    kept = np.where(high < 1, high, np.maximum(low, careful))
    return np.where(kept.sum(axis=-1, keepdims=True) < budget, high, kept)


def _one_for_each(name: str, value: npt.ArrayLike, n_arms: int) -> FloatArray:
    given = probabilities(name, value)
    if given.ndim and given.shape[-1] != n_arms:
        raise InputError(f"{name} must be one number, or one for each of the {n_arms} arms, got shape {given.shape}")
    return np.full(n_arms, given) if given.ndim == 0 else given


def _log_rate(log_merit: FloatArray, K: int, low: FloatArray, high: FloatArray) -> float:
    """Return the logarithm of lambda for one row of merits."""
    if low.sum() >= K:
        return -math.inf
    with np.errstate(divide="ignore"):
        leaves, reaches = np.log(low) - log_merit, np.log(high) - log_merit  # its floor, its cap
    start, end = -math.inf, math.inf  # between which the answer lies
    settled, free = 0.0, -math.inf  # what arms at a bound have, and the logarithm of the merit of those between bounds
    while len(log_merit):
        x = _pivot(leaves, reaches, start, end)
        with np.errstate(over="ignore", under="ignore"):
            total = settled + np.exp(free + x) + np.clip(np.exp(log_merit + x), low, high).sum()
        start, end = (x, end) if total < K else (start, x)
        at_cap, at_floor, between = reaches <= start, leaves >= end, (leaves <= start) & (reaches >= end)
        settled += float(high[at_cap].sum() + low[at_floor].sum())
        free = _log_sum(free, log_merit[between])
        open_yet = ~(at_cap | at_floor | between)
        log_merit, low, high = log_merit[open_yet], low[open_yet], high[open_yet]
        leaves, reaches = leaves[open_yet], reaches[open_yet]
    if free == -math.inf:  # all are at a bound
        return end
    return min(end, max(start, math.log(max(K - settled, 1e-300)) - free))


def _pivot(leaves: FloatArray, reaches: FloatArray, start: float, end: float) -> float:
    """Return about the median of the points inside, from a sample of them if they are many."""
    for every in (1 + len(leaves) // _SAMPLE, 1):
        points = np.concatenate([leaves[::every], reaches[::every]])
        inside = points[(points > start) & (points < end)]
        if len(inside):
            break
    return float(np.partition(inside, len(inside) // 2)[len(inside) // 2])


def _log_sum(first: float, others: FloatArray) -> float:
    """Return the logarithm of the sum of exponentials."""
    largest = max(first, float(others.max(initial=-np.inf)))
    if largest == -math.inf:
        return largest
    with np.errstate(under="ignore"):
        return largest + math.log(math.exp(first - largest) + float(np.exp(others - largest).sum()))
