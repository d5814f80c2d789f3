r"""Numbers that say how fair a run was, and how good.

Two of the paper's quantities are measured in two ways, because its published numbers were not made by
its definitions. The functions named ``…_authors`` follow the published code; use them only to compare
with the paper's Table 1, whose two columns are moreover swapped.

Means and ratios over runs have bootstrap intervals (`meritfair.simulation.bootstrap`). With R, R_none and R_best the
rewards of a policy, of nobody pulled and of the best policy that is not asked to be fair:

    intervention benefit = (R - R_none) / (R_best - R_none)
    price of fairness    = (R_best - R) / R_best
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import float_array
from meritfair.core.errors import InputError
from meritfair.simulation.bootstrap import RESAMPLES, Interval, interval, ratio_interval

__all__ = [
    "Interval",
    "coverage_gap",
    "coverage_gap_authors",
    "coverage_gap_censored",
    "earth_mover",
    "fairness_regret",
    "first_valid_episode",
    "first_valid_episode_authors",
    "first_valid_episode_censored",
    "gini",
    "hhi",
    "interval",
    "intervention_benefit",
    "jain",
    "largest_after",
    "price_of_fairness",
    "ratio_interval",
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


def first_valid_episode_censored(eta: npt.ArrayLike) -> BoolArray:
    """Return whether t0 is only a lower bound: some eta is 1 or more at the last episode.

    Examples
    --------
    >>> bool(first_valid_episode_censored([1.0, 0.9, 1.0])), bool(first_valid_episode_censored([1.0, 0.9, 0.8]))
    (True, False)
    """
    return np.asarray(float_array("eta", eta)[..., -1] >= 1)


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
    not over at the end counts as if the next episode ended it; `coverage_gap_censored` says whether it is the longest.

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


def coverage_gap_censored(covered: npt.ArrayLike) -> BoolArray:
    """Return whether G is only a lower bound: the longest wait was not over at the end.

    Parameters
    ----------
    covered : array_like of bool, shape (..., episodes, N)
        As for `coverage_gap`.

    Examples
    --------
    >>> covered = [[True, True], [True, False], [True, False]]
    >>> int(coverage_gap(covered)), bool(coverage_gap_censored(covered))
    (3, True)
    >>> bool(coverage_gap_censored([*covered, [True, True]]))
    False
    """
    seen = np.asarray(covered, dtype=np.bool_)
    since = np.where(seen.any(axis=-2), np.argmax(seen[..., ::-1, :], axis=-2), seen.shape[-2])
    longest = since.max(axis=-1)
    return np.asarray((longest > 0) & (longest + 1 == coverage_gap(seen)))


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


def earth_mover(pulls: npt.ArrayLike, steps: int) -> FloatArray:
    r"""Return how far pulls are from round robin along the last axis: 0 is as even, 1 is the same arms at every step.

    It is the earth mover's distance of Herlihy et al. (2023), of how many pulls the arms had from how many they would
    have in round robin (r: as many in all, even up to one). On a line, with N arms in both, it pairs arms by rank.
    It is divided by its largest value, when the n = K * steps pulls all go to the same K arms:

    .. math:: \frac{\sum_i |n_{(i)} - r_{(i)}|}{\sum_i |m_{(i)} - r_{(i)}|}, \qquad m = (steps, ..., steps, 0, ..., 0)

    If n is no multiple of the steps, one more arm has the rest. NaN for nothing; 0 if all are pulled at every step.

    Parameters
    ----------
    pulls : array_like of int, shape (..., N)
    steps : int
        How often each could have been pulled.

    Examples
    --------
    >>> earth_mover([[25, 25, 25, 25], [100, 0, 0, 0], [50, 50, 0, 0]], steps=100)
    array([0.        , 1.        , 0.66666667])
    """
    x = -np.sort(-_amounts(pulls), axis=-1)  # from most to least
    if x.max(initial=0.0) > steps:
        raise InputError(f"pulls must be at most the number of steps, {steps}, got {x.max():g}")
    n_arms, total, rank = x.shape[-1], x.sum(axis=-1, keepdims=True), np.arange(x.shape[-1])
    even = total // n_arms + (rank < total % n_arms)
    most = np.clip(total - rank * steps, 0, steps)
    moved, at_most = np.abs(x - even).sum(axis=-1), np.abs(most - even).sum(axis=-1)
    shared = moved / np.where(at_most > 0, at_most, 1.0)
    return np.where(total[..., 0] > 0, shared, np.nan)


def _amounts(amounts: npt.ArrayLike) -> FloatArray:
    x = float_array("amounts", amounts)
    if x.ndim == 0 or not np.all(x >= 0):
        raise InputError("amounts must be a list of numbers that are not negative")
    return x


def intervention_benefit(
    reward: npt.ArrayLike,
    reward_none: npt.ArrayLike,
    reward_best: npt.ArrayLike,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return the part of what can be won by pulling that a policy wins: 0 as if nobody was pulled, 1 as the best.

    Parameters
    ----------
    reward, reward_none, reward_best : array_like, shape (runs,)
        Rewards of the policy, of pulling nobody, and of the best policy (`Whittle`), in the same runs. If the best
        wins nothing over all runs, there is nothing to have a part of: NaN.

    Examples
    --------
    >>> intervention_benefit([12.0, 30.0], [10.0, 20.0], [14.0, 40.0])
    Interval(mean=0.5, low=0.5, high=0.5)
    """
    r, none, best = (float_array("reward", each) for each in (reward, reward_none, reward_best))
    return ratio_interval(r - none, best - none, seed, resamples)


def price_of_fairness(
    reward: npt.ArrayLike, reward_best: npt.ArrayLike, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return the part of the best reward that a policy goes without: 0 is as the best, negative is better still.

    Parameters
    ----------
    reward, reward_best : array_like, shape (runs,)
        Rewards of the policy and of the best policy (`Whittle`), in the same runs.

    Examples
    --------
    >>> price_of_fairness([90.0, 180.0], [100.0, 200.0])
    Interval(mean=0.1, low=0.1, high=0.1)
    """
    r, best = float_array("reward", reward), float_array("reward", reward_best)
    return ratio_interval(best - r, best, seed, resamples)
