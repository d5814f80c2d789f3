r"""How sure one can be of each arm: intervals for its benefit, and for the exposure that it is due.

What is known of the probabilities :math:`P` is a posterior. The values themselves are taken at its mean, as a policy
would take them: benefit :math:`\mu_i` (Eq. 4), merit :math:`g(\mu_i)`, exposure :math:`e_i`. There are two ways to
intervals:

``draws``
    Exposures are computed for each of many draws from the posterior; an interval holds the middle ones. It needs no
    approximation, so it also holds for arms of which little was seen.
``delta``
    Everything is taken to be linear around the mean, and normal. With :math:`w_c` the probability of class c, and
    :math:`m_c, v_c` the means and variances of P within it,

    .. math::
        \text{var}(\mu_i) \approx \sum_c w_c \Big[
        \sum_{s,a} \big(\tfrac{\partial \mu_i}{\partial P(s,a)}\big)^2 v_c(s,a)
        + \big( \nabla\mu_i \cdot (m_c - m) \big)^2 \Big], \qquad
        \text{var}(e_i) \approx \sum_j \big(\tfrac{\partial e_i}{\partial \mu_j}\big)^2 \text{var}(\mu_j) .

    It is quick, and right once much was seen of every arm.

Exposures in proportion to merit share what arms at a bound leave over, :math:`R = K - \sum_{\text{bound}} e_i`, so that
:math:`e_i = R\, g_i / \sum_{\text{free}} g_j` and, between free arms,

.. math:: \frac{\partial e_i}{\partial \mu_j} = e_j \frac{g'_j}{g_j} \Big( 1\{i=j\} - \frac{e_i}{R} \Big) .

An arm at its floor or cap (1, if none is set) neither moves nor moves others. For the sequential draw of several arms
the derivatives are found by moving one arm at a time.

The prior is taken for granted: where it was itself fitted to the counts, intervals are a little too narrow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from meritfair.core.arrays import FloatArray, frozen
from meritfair.core.checks import check_budget, check_choice, check_number, check_whole
from meritfair.core.deprecation import warn_renamed
from meritfair.core.errors import InputError
from meritfair.core.progress import Progress, following
from meritfair.core.seeding import fresh_seed, stream
from meritfair.model.allocation import shared_error
from meritfair.model.benefit import benefit, benefit_gradient
from meritfair.model.criterion import Confidence, Criterion, loose_settings_allowed
from meritfair.model.merit import Merit
from meritfair.model.posterior import Posterior

if TYPE_CHECKING:
    Tell: TypeAlias = Callable[[int, int], None]
    Ends: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # of benefit, then of exposure

METHODS = ("draws", "delta")

_DRAWS, _SLOW_DRAWS = 1000, 250  # the latter where exposures are those of the sequential draw of several arms
_CHUNK = 200_000  # numbers drawn at a time
_EDGE = 1e-12  # draws are kept this far from 0 and 1, where an arm might have no steady state
_STEP = 1e-5  # in the logarithm of a merit; exposures are known to 1e-11


@dataclass(frozen=True, eq=False)
class Assessment:
    """Benefit and due exposure of each arm, with intervals; every array has shape (N,).

    A value is at the mean of the posterior, and need not be in the middle of its interval. An exposure may even lie
    outside: where merit bends, as the exponential does, it is larger on average than at the mean, so that arms of which
    little is known may be due more of the budget, and the others less, than the means say.

    Attributes
    ----------
    benefit, benefit_low, benefit_high : ndarray
    merit : ndarray
    exposure, exposure_low, exposure_high : ndarray
    level : float
        With which probability a single interval holds the truth, if the prior is right.
    """

    benefit: FloatArray
    benefit_low: FloatArray
    benefit_high: FloatArray
    merit: FloatArray
    exposure: FloatArray
    exposure_low: FloatArray
    exposure_high: FloatArray
    level: float


_EXACT = Criterion(design="exact")


@loose_settings_allowed(lambda *_, **__: (_EXACT, Confidence()))
def assess(
    posterior: Posterior,
    criterion: Criterion = _EXACT,
    budget: int = 1,
    *,
    level: float = 0.95,
    method: Literal["draws", "delta"] = "draws",
    draws: int | None = None,
    rng: np.random.Generator | int | None = None,
    progress: Progress = None,
) -> Assessment:
    """Return the benefit and the due exposure of each arm, with intervals.

    Parameters
    ----------
    posterior : Posterior
        What is known of the arms, without leading axes.
    criterion : Criterion
        What each arm is due; by default in proportion to Exponential(3), exactly.
    budget : int
        Arms pulled at each step.
    level : float
        With which probability an interval shall hold the truth.
    method : {"draws", "delta"}
        By draws from the posterior, or by a quick approximation for arms of which much was seen.
    draws : int, optional
        How many draws; 1000 by default. For the sequential draw of several arms, whose exposures take long to find,
        250 by default, which makes the ends of intervals a little rough.
    rng : Generator or int, optional
        Source of the draws, or its seed; by default different each time.
    progress : bool or callable
        True shows a bar. A function is told now and then how many of how many draws (or, for ``delta``, arms) are done.

    Examples
    --------
    >>> from meritfair import Counts, Criterion, Exponential
    >>> from meritfair.model.posterior import Prior
    >>> seen = Counts(visits=[[[90, 90], [90, 90]], [[0, 0], [0, 0]]], good=[[[18, 54], [45, 81]], [[0, 0], [0, 0]]])
    >>> known = assess(Prior.uniform().posterior(seen), Criterion(Exponential(1.0)), rng=1)
    >>> known.benefit.round(1), known.benefit_low.round(1), known.benefit_high.round(1)
    (array([0.6, 0. ]), array([ 0.4, -0.6]), array([0.7, 0.7]))
    >>> known.exposure.round(1), known.exposure_low.round(1), known.exposure_high.round(1)
    (array([0.6, 0.4]), array([0.5, 0.2]), array([0.8, 0.5]))
    """
    if posterior.weights.ndim != 2:
        raise InputError(f"posterior must be of arms alone, without leading axes, got shape {posterior.weights.shape}")
    n_arms = len(posterior.weights)
    K = check_budget(budget, n_arms)
    if isinstance(criterion, Merit):
        warn_renamed("merit of assess", "criterion=mf.Criterion(...)")
        criterion = dataclasses.replace(_EXACT, merit=criterion)
    due = _Due(criterion, K, *criterion.bounds(n_arms, K))
    share = check_number("level", level, 0.0, 1.0, open_ends=True)
    check_choice("method", method, METHODS)
    default = _SLOW_DRAWS if due.slow else _DRAWS
    number = default if draws is None else check_whole("draws", draws, 1)
    mu = benefit(posterior.mean)
    g = criterion.merit(mu)
    e = criterion.exposure(g, K)
    with following(progress, "intervals") as tell:
        if method == "delta":
            ends = _by_delta(posterior, due, mu, g, e, share, tell)
        else:
            source = rng if isinstance(rng, np.random.Generator) else stream(fresh_seed(rng), "bootstrap")
            ends = _by_draws(posterior, due, share, number, source, tell)
    low, high, e_low, e_high = map(frozen, ends)
    return Assessment(frozen(mu), low, high, frozen(g), frozen(e), e_low, e_high, share)


@dataclass(frozen=True)
class _Due:
    """What arms are due, with a floor and a cap for each."""

    criterion: Criterion
    budget: int
    floor: FloatArray
    cap: FloatArray

    @property
    def slow(self) -> bool:
        """Whether exposures are those of the sequential draw of several arms."""
        return self.criterion.design == "sequential" and 1 < self.budget < len(self.floor)

    def exposure(self, merits: FloatArray) -> FloatArray:
        return self.criterion.exposure(merits, self.budget)


def _by_draws(posterior: Posterior, due: _Due, level: float, draws: int, rng: np.random.Generator, tell: Tell) -> Ends:
    """Return the ends of intervals as quantiles over draws."""
    n_arms = len(posterior.weights)
    chunk = 1 if due.slow else max(1, _CHUNK // (4 * n_arms))
    benefits, exposures = np.empty((draws, n_arms)), np.empty((draws, n_arms))
    rows = slice(0, 0)
    for drawn in posterior.in_chunks(rng, draws, chunk):
        rows = slice(rows.stop, rows.stop + len(drawn))
        benefits[rows] = benefit(np.clip(drawn, _EDGE, 1 - _EDGE))
        exposures[rows] = due.exposure(due.criterion.merit(benefits[rows]))
        tell(rows.stop, draws)
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(benefits, tails, axis=0, overwrite_input=True)
    e_low, e_high = np.quantile(exposures, tails, axis=0, overwrite_input=True)
    return low, high, e_low, e_high


def _by_delta(
    posterior: Posterior,
    due: _Due,
    mu: FloatArray,
    merits: FloatArray,
    exposure: FloatArray,
    level: float,
    tell: Tell,
) -> Ends:
    """Return the ends of intervals by linear error propagation."""
    spread = np.sqrt(_benefit_variance(posterior))
    moved = due.criterion.merit.derivative(mu) / merits * spread  # how far the logarithm of each merit may be off
    if due.slow:
        e_spread = np.sqrt(_moving_each(merits, exposure, due, tell) ** 2 @ moved**2)
    else:
        free = (exposure > due.floor) & (exposure < due.cap)
        shared = np.where(free, exposure, 0.0)
        e_spread = shared_error(shared / max(shared.sum(), np.finfo(float).tiny), (shared * moved) ** 2)
    z = NormalDist().inv_cdf((1 + level) / 2)
    low, high = np.clip([mu - z * spread, mu + z * spread], -1.0, 1.0)
    e_low, e_high = np.clip([exposure - z * e_spread, exposure + z * e_spread], due.floor, due.cap)
    return low, high, e_low, e_high


def _benefit_variance(posterior: Posterior) -> FloatArray:
    """Return the variance of each benefit, linear around the mean: within the classes, and between them."""
    slope = benefit_gradient(posterior.mean)[..., None, :, :]
    total = posterior.good + posterior.bad
    each = posterior.good / total
    within = (slope**2 * each * (1 - each) / (total + 1)).sum(axis=(-2, -1))
    between = (slope * (each - posterior.mean[..., None, :, :])).sum(axis=(-2, -1))
    return np.asarray((posterior.weights * (within + between**2)).sum(axis=-1))


def _moving_each(merits: FloatArray, exposure: FloatArray, due: _Due, tell: Tell) -> FloatArray:
    """Return the derivative of exposure i by the logarithm of merit j, moving one arm at a time."""
    result = np.empty((len(merits), len(merits)))
    for j in range(len(merits)):
        moved = merits.copy()
        moved[j] *= np.exp(_STEP)
        result[:, j] = (due.exposure(moved) - exposure) / _STEP
        tell(j + 1, len(merits))
    return result
