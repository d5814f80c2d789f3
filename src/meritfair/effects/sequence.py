r"""Intervals that hold whenever one looks: an asymptotic confidence sequence by a normal mixture.

Let :math:`S_t` be the sum of the pseudo-outcomes of n arm-rounds up to round t, :math:`M_t` the sum of the effects that
they estimate, and :math:`V_t` the sum of their squares. The sum over each round less its mean is a martingale
difference. If it were normal with variance known, then for every :math:`\lambda` the process
:math:`\exp(\lambda (S_t - M_t) - \lambda^2 V_t / 2)` would be a martingale, and so is its average over
:math:`\lambda \sim N(0, \rho^2)`. It ever reaches :math:`1/\alpha` with probability at most :math:`\alpha` (Ville), so

.. math:: \left|\frac{S_t - M_t}{n}\right|
          \le \frac1n \sqrt{\frac{\rho^2 V_t + 1}{\rho^2} \ln\frac{\rho^2 V_t + 1}{\alpha^2}}
          \quad\text{for all } t \text{ at once}

with probability :math:`1 - \alpha`. For sums that are only nearly normal, with a variance that is estimated, this holds
in the limit of many rows (Waudby-Smith et al. 2024), also for effects that change over time, as they do here; so
nothing is shown before `LEAST` arms were drawn and as many were not. The bound is on the mean effect *up to that
round*: that of a later round may differ, so intervals of different rounds are not intersected.

**Few rows.** Where a few rows with small exposures carry most of the variance, its estimate is uncertain. The bound,
about three standard errors, is widened as Student's t is wider than a normal there (`small_sample`): by 4 % with 60
degrees of freedom, and by nothing in the limit.

**rho** decides when the interval is narrowest, and must not be chosen by outcomes. It is set by the exposures of the
first round, which are known before any outcome: the variance that these would bring in `ROUNDS` rounds, if each outcome
varied as much as it can, is the one at which the interval is narrowest. Elsewhere it is wider, but not by much, and in
early looks very wide.

References
----------
.. [1] I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy, A. Ramdas, Time-Uniform Central Limit Theory and Asymptotic
   Confidence Sequences, Annals of Statistics 2024, arXiv:2103.06476.
.. [2] D. W. Ham, I. Bojinov, M. Lindon, M. Tingley, Design-Based Confidence Sequences, arXiv:2210.08639.
.. [3] H. Robbins, Statistical Methods Related to the Law of the Iterated Logarithm, Annals of Math. Statistics 1970.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, stdtrit

from meritfair.core.arrays import FloatArray

LEAST = 20  # arms drawn, and arms not drawn, before an interval is shown
ROUNDS = 20  # after about that many rounds the interval is narrowest
ALIKE = 0.1  # correlation of the outcomes of a cluster that is expected; it only decides where intervals are narrowest
_MOST_VARIANCE = 0.25  # of a state
_USUAL = 3.0  # standard errors that the bound is away where it is narrowest


def first_variance(exposure: FloatArray) -> FloatArray:
    """Return for each exposure the most that the variance of a pseudo-outcome can be, under a constant prediction.

    Examples
    --------
    >>> first_variance(np.array([0.5, 0.1])).round(2)
    array([1.  , 2.78])
    """
    return np.asarray(_MOST_VARIANCE / (exposure * (1 - exposure)))


def mixture_precision(variance: FloatArray, alpha: float) -> FloatArray:
    """Return the squared rho with which the interval is about narrowest once the sum has this variance.

    Examples
    --------
    >>> rho = mixture_precision(np.array([100.0]), 0.05)
    >>> widths = [mixture_radius(np.array([100.0]), factor * rho, 0.05)[0] for factor in (0.5, 1.0, 2.0)]
    >>> bool(widths[1] < min(widths[0], widths[2]))
    True
    """
    twice = -2 * math.log(alpha)
    return np.asarray((twice + math.log(twice + 1)) / variance)


def mixture_radius(variance: FloatArray, rho_squared: FloatArray, alpha: float) -> FloatArray:
    """Return how far a sum with this variance may be from its mean, at any time, at level alpha.

    Examples
    --------
    >>> mixture_radius(np.array([100.0]), mixture_precision(np.array([100.0]), 0.05), 0.05)
    array([30.35...])
    """
    grown = rho_squared * variance + 1
    return np.asarray(np.sqrt(grown / rho_squared * (np.log(grown) - 2 * math.log(alpha))))


def small_sample(freedom: FloatArray) -> FloatArray:
    """Return by what the bound is widened for a variance with that many degrees of freedom.

    Examples
    --------
    >>> small_sample(np.array([20.0, 60.0, 1e6])).round(3)
    array([1.141, 1.043, 1.   ])
    """
    return np.asarray(stdtrit(freedom, ndtr(_USUAL)) / _USUAL)
