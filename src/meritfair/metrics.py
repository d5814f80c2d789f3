r"""Numbers that say how fair a run was, and how good.

Two of the paper's quantities are measured in two ways, because its published numbers were not made by
its definitions. The functions named ``…_authors`` follow the published code; use them only to compare
with the paper's Table 1, whose two columns are moreover swapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meritfair.checks import float_array
from meritfair.errors import InputError
from meritfair.seeding import stream

if TYPE_CHECKING:
    import numpy.typing as npt

    from meritfair.arrays import BoolArray, FloatArray, IntArray

__all__ = [
    "Interval",
    "coverage_gap",
    "coverage_gap_authors",
    "fairness_regret",
    "first_valid_episode",
    "first_valid_episode_authors",
    "gini",
    "hhi",
    "interval",
    "jain",
    "largest_after",
]


def fairness_regret(given: npt.ArrayLike, fair: npt.ArrayLike) -> FloatArray:
    """Return the L1 distance of shares from the fair ones, one episode's term of Eq. (3); or of exposures.

    Shares, the paper's pi, sum to 1 for every K. Exposures sum to K; for K = 1 the two are the same.

    Examples
    --------
    >>> float(fairness_regret([0.5, 0.5], [0.75, 0.25]))
    0.5
    """
    return np.asarray(np.abs(float_array("given", given) - float_array("fair", fair)).sum(axis=-1))


def first_valid_episode(eta: npt.ArrayLike) -> IntArray:
    """Return t0 of Assumption 4.1: the last episode at which some eta is 1 or more, 0 if there is none.

    Parameters
    ----------
    eta : array_like, shape (..., episodes)
        The largest eta of any arm at each episode.

    Examples
    --------
    >>> int(first_valid_episode([1.0, 0.9, 1.0, 0.8, 0.7]))
    3
    """
    wide = float_array("eta", eta) >= 1
    episodes = wide.shape[-1]
    from_end = np.argmax(wide[..., ::-1], axis=-1)
    return np.asarray(np.where(wide.any(axis=-1), episodes - from_end, 0), dtype=np.int64)


def first_valid_episode_authors(eta: npt.ArrayLike, horizon: int) -> IntArray:
    """Return t0 as the authors' code has it: the first episode at which every eta is below 1, else the horizon.

    Examples
    --------
    >>> int(first_valid_episode_authors([1.0, 0.9, 1.0, 0.8, 0.7], horizon=200))
    2
    """
    narrow = float_array("eta", eta) < 1
    return np.asarray(np.where(narrow.any(axis=-1), np.argmax(narrow, axis=-1) + 1, horizon), dtype=np.int64)


def largest_after(values: npt.ArrayLike, episode: npt.ArrayLike) -> FloatArray:
    """Return the largest value after an episode, as Definition 5.2 takes eta and omega after t0; NaN if none is left.

    Parameters
    ----------
    values : array_like, shape (..., episodes)
    episode : array_like of int, shape (...)
        Counted from 1; 0 takes all episodes.

    Examples
    --------
    >>> largest_after([[1.0, 0.9, 0.8], [1.0, 1.0, 1.0]], [1, 3])
    array([0.9, nan])
    """
    x = float_array("values", values)
    later = np.arange(1, x.shape[-1] + 1) > np.asarray(episode)[..., None]
    largest = np.max(x, axis=-1, where=later, initial=-np.inf)
    return np.where(later.any(axis=-1), largest, np.nan)


def coverage_gap(covered: npt.ArrayLike) -> IntArray:
    """Return G: the longest wait, in episodes, of any arm for an episode that visits all its (s, a).

    The episode that ends the wait counts, so G is 1 when every episode covers every arm. A wait that is
    not over at the end counts as if the next episode ended it.

    Parameters
    ----------
    covered : array_like of bool, shape (..., episodes, N)
        Whether the episode visited all four (s, a) of the arm.

    Examples
    --------
    >>> int(coverage_gap([[True, True], [True, False], [True, False], [True, True]]))
    3
    """
    seen = np.asarray(covered, dtype=np.bool_)
    episode = np.arange(1, seen.shape[-2] + 1)[:, None]
    last = np.maximum.accumulate(np.where(seen, episode, 0), axis=-2)
    missed = np.where(seen, 0, episode - last)
    return np.asarray(missed.max(axis=(-2, -1)) + 1, dtype=np.int64)


def coverage_gap_authors(covered: npt.ArrayLike) -> IntArray:
    """Return G as the authors' code has it, for the comparison with the published table.

    Theirs lists each arm's waits (only the first of several covering episodes in a row ends one), leaves
    out the last episode, and takes the largest wait of that arm whose list is the largest *as a list*,
    compared entry by entry. So it can miss the longest wait of all.

    Examples
    --------
    >>> covered = [[True, False], [False, True], [False, True], [False, True], [True, True], [True, True]]
    >>> int(coverage_gap(covered)), int(coverage_gap_authors(covered))
    (4, 2)
    """
    seen = np.asarray(covered, dtype=np.bool_)
    flat = seen.reshape(-1, *seen.shape[-2:])
    return np.reshape([max(max(_waits(arm) for arm in run[:-1].T)) for run in flat], seen.shape[:-2]).astype(np.int64)


def _waits(covered: BoolArray) -> list[int]:
    waits: list[int] = []
    missed, open_wait = 0, True
    for ok in covered:
        if not ok:
            missed, open_wait = missed + 1, True
        elif open_wait:
            waits.append(missed + 1)
            missed, open_wait = 0, False
    return [*waits, missed + 1] if open_wait else waits


def jain(amounts: npt.ArrayLike) -> FloatArray:
    """Return Jain's index along the last axis: 1 when all get the same, 1/N when one gets all; NaN for nothing.

    Examples
    --------
    >>> float(jain([5, 5, 5, 5])), float(jain([20, 0, 0, 0]))
    (1.0, 0.25)
    """
    x = _amounts(amounts)
    with np.errstate(invalid="ignore"):
        return np.asarray(x.sum(axis=-1) ** 2 / (x.shape[-1] * (x**2).sum(axis=-1)))


def gini(amounts: npt.ArrayLike) -> FloatArray:
    """Return the Gini coefficient along the last axis: 0 when all get the same; NaN for nothing.

    Examples
    --------
    >>> float(gini([5, 5, 5, 5])), float(gini([20, 0, 0, 0]))
    (0.0, 0.75)
    """
    x = np.sort(_amounts(amounts), axis=-1)
    n = x.shape[-1]
    rank = 2 * np.arange(1, n + 1) - n - 1
    with np.errstate(invalid="ignore"):
        return np.asarray((rank * x).sum(axis=-1) / (n * x.sum(axis=-1)))


def hhi(amounts: npt.ArrayLike) -> FloatArray:
    """Return the Herfindahl-Hirschman index, the sum of squared shares: 1/N to 1; NaN for nothing.

    Examples
    --------
    >>> float(hhi([5, 5, 5, 5])), float(hhi([20, 0, 0, 0]))
    (0.25, 1.0)
    """
    x = _amounts(amounts)
    with np.errstate(invalid="ignore"):
        return np.asarray(((x / x.sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1))


def _amounts(amounts: npt.ArrayLike) -> FloatArray:
    x = float_array("amounts", amounts)
    if x.ndim == 0 or not np.all(x >= 0):
        raise InputError("amounts must be a list of numbers that are not negative")
    return x


class Interval(NamedTuple):
    """A mean over runs, with a 95 % bootstrap interval; NaN at both ends for a single run."""

    mean: float
    low: float
    high: float


def interval(values: npt.ArrayLike, seed: int = 0, resamples: int = 2000) -> Interval:
    """Return the mean over runs with its 95 % percentile bootstrap interval.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0, 4.0]).mean
    2.5
    """
    x = float_array("values", values)
    mean = float(x.mean())
    if len(x) < 2:
        return Interval(mean, np.nan, np.nan)
    picks = stream(seed, "bootstrap").integers(0, len(x), (resamples, len(x)))
    low, high = np.quantile(x[picks].mean(axis=1), [0.025, 0.975])
    return Interval(mean, float(low), float(high))
