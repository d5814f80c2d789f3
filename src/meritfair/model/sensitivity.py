r"""What states that were not observed could change of estimated benefits: data that are missing not at random.

Estimates take it that next states that were not observed would have looked like those that were, after the same state
and action. A log cannot show that. So it is asked what would follow if they had not.

Let :math:`\lambda_i(s,a)` be the part of the visits of arm i to state s under action a whose next state was not
observed (where there was no visit, that of all arms), and let the chance of a good state be different there by
:math:`\delta_a`: a *pattern-mixture model* with one sensitivity parameter for each action (Little 1993). As a
probability is the mean of both patterns, the estimate moves to

.. math:: P_i(s,a;\delta) = (1 - \lambda_i(s,a))\, P_i(s,a) + \lambda_i(s,a)\, [P_i(s,a) + \delta_a]_0^1 .

At :math:`\delta_a = \pm 1` all unseen states were good, or bad. The benefit rises with both probabilities under a pull,
and falls with both without one, so :math:`\delta = (-1, 1)` and :math:`(1, -1)` bound the mean benefit (Manski 1990),
up to the uncertainty that there would be with nothing missing. The *tipping point* is the least d at which the mean
benefit is 0 if those pulled and not seen did worse by d, and those not pulled and not seen better by d, or, for a mean
benefit below 0, the reverse.

That the last state was observed does no harm: what follows a known state does not depend on why it is known.

References
----------
R. J. A. Little, "Pattern-mixture models for multivariate incomplete data", JASA 88 (1993).
C. F. Manski, "Nonparametric bounds on treatment effects", American Economic Review 80 (1990).
S. Cro et al., "Sensitivity analysis for clinical trials with missing continuous outcome data using controlled multiple
imputation: a practical guide", Statistics in Medicine 39 (2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_number
from meritfair.model.benefit import benefit

STEP = 0.1  # the difference of which results say what it would change
_INSIDE = 1e-9  # of probabilities, from 0 and 1
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class BenefitSensitivity:
    """What states that were not observed could change of the mean benefit.

    Attributes
    ----------
    estimate : ndarray, shape (N, 2, 2)
        The estimated probabilities of a good next state, by state and action.
    visits, missing : ndarray, shape (N, 2, 2)
        How often it was known in which state the arm was and what was done, and in how many of these cases the next
        state was not observed.

    Examples
    --------
    Of an arm that was often seen, a quarter of the states after a pull are missing:

    >>> known = BenefitSensitivity(
    ...     np.array([[[0.2, 0.4], [0.6, 0.8]]]), np.full((1, 2, 2), 80), np.array([[[0, 20], [0, 20]]])
    ... )
    >>> [round(value, 2) for value in (known.mean_benefit(), known.mean_benefit(pulled=-0.1), *known.bounds)]
    [0.33, 0.29, 0.1, 0.45]
    >>> known.tipping  # not even if none of those who were not seen after a pull had been well
    inf
    """

    estimate: FloatArray
    visits: IntArray
    missing: IntArray

    @cached_property
    def part(self) -> FloatArray:
        """The part of the next states that was not observed, shape (N, 2, 2)."""
        all_visits = self.visits.sum(axis=0)
        of_all = self.missing.sum(axis=0) / np.maximum(all_visits, 1)
        return np.where(self.visits > 0, self.missing / np.maximum(self.visits, 1), of_all)

    def transitions(self, pulled: float = 0.0, not_pulled: float = 0.0) -> FloatArray:
        """Return the probabilities if the chances of those not seen differed so much from those of others like them."""
        moved = np.array([check_number("not_pulled", not_pulled, -1.0, 1.0), check_number("pulled", pulled, -1.0, 1.0)])
        there = np.clip(self.estimate + moved, 0.0, 1.0)
        return np.asarray(self.estimate + self.part * (there - self.estimate))

    def mean_benefit(self, pulled: float = 0.0, not_pulled: float = 0.0) -> float:
        """Return the mean benefit of all arms, if the chances of those not seen differed so much."""
        moved = self.transitions(pulled, not_pulled)
        return float(benefit(np.clip(moved, _INSIDE, 1 - _INSIDE)).mean())

    @property
    def bounds(self) -> tuple[float, float]:
        """The mean benefit if all unseen states spoke against pulls, and if all spoke for them."""
        return self.mean_benefit(-1.0, 1.0), self.mean_benefit(1.0, -1.0)

    @cached_property
    def tipping(self) -> float:
        """The least difference at which the mean benefit is 0; infinite if none does it."""
        sign = 1.0 if self.mean_benefit() > 0 else -1.0
        return least_difference(lambda d: sign * self.mean_benefit(-sign * d, sign * d) <= 0)

    def __str__(self) -> str:
        now, (low, high) = self.mean_benefit(), self.bounds
        missing, visits = int(self.missing.sum()), int(self.visits.sum())
        if not missing:
            return (
                f"Not seen: nothing. All {visits:,} next states were observed, so the mean benefit, {now:z.2f}, does "
                "not depend on states that are missing."
            )
        side = ("less", "more") if now > 0 else ("more", "less")
        one = (self.mean_benefit(pulled=-STEP), self.mean_benefit(not_pulled=STEP))
        if now <= 0:
            one = (self.mean_benefit(pulled=STEP), self.mean_benefit(not_pulled=-STEP))
        tips = (
            f"With {100 * self.tipping:.0f} points for both, it would be 0."
            if math.isfinite(self.tipping)
            else "Not even 100 points for both would bring it to 0."
        )
        return (
            f"Not seen: {missing:,} of {visits:,} next states ({100 * missing / visits:.0f} %). Estimates take it that "
            "these were good as often as those that were seen, after the same state and action; no record can show "
            f"that. The mean benefit is {now:z.2f}. If those pulled and not seen had been good {100 * STEP:.0f} "
            f"percentage points {side[0]} often than that, it would be {one[0]:z.2f}; if those not pulled and not seen "
            f"had been good {100 * STEP:.0f} points {side[1]} often, {one[1]:z.2f}. {tips} Whatever the unseen states "
            f"were, it lies between {low:z.2f} and {high:z.2f}, up to the uncertainty of the estimates."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and what follows, as plain values."""
        return {
            "visits": self.visits.sum(axis=0).tolist(),
            "missing": self.missing.sum(axis=0).tolist(),
            "mean_benefit": self.mean_benefit(),
            "pulled_worse_by_a_tenth": self.mean_benefit(pulled=-STEP),
            "not_pulled_better_by_a_tenth": self.mean_benefit(not_pulled=STEP),
            "bounds": list(self.bounds),
            "tipping": self.tipping if math.isfinite(self.tipping) else None,
        }


def least_difference(reached: Callable[[float], bool]) -> float:
    """Return the least difference, up to 1, from which on something holds; infinite if it never does.

    Examples
    --------
    >>> round(least_difference(lambda d: d >= 0.3), 6), least_difference(lambda d: d > 2)
    (0.3, inf)
    """
    if not reached(1.0):
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
