r"""What the next states that were not observed could change: sensitivity to data that are missing not at random.

An effect is estimated from the arm-rounds whose next state was observed, and takes it that the others would have looked
the same. No log can show that: if those whom a call did not help do not answer, rates say nothing. So it is asked what
would follow if they had not.

**By how much.** Take the n arm-rounds with a known state s that were left to chance, with a draw a, of probability
:math:`p_{it}` (e or 1 - e), whose next state is due. Let :math:`y_{sa}` be the share of good next states among those
that were observed, each weighted by :math:`1/p_{it}`; and let the chance of those that were not be different by
:math:`\delta_a`, a *pattern-mixture model* with one sensitivity parameter for each arm of the trial (Little 1993;
Kenward, Goetghebeur and Molenberghs 2001):

.. math:: \Pr(Y = 1 \mid \text{not observed}, s, a) = [\,y_{sa} + \delta_a\,]_0^1 .

The mean outcome under a then moves by the part of its outcomes that are missing times that, and so the effect moves by

.. math:: \Delta(\delta_1, \delta_0) = \sum_s w_{s1} \big([y_{s1} + \delta_1]_0^1 - y_{s1}\big)
          - \sum_s w_{s0} \big([y_{s0} + \delta_0]_0^1 - y_{s0}\big), \qquad
          w_{sa} = \frac1n \sum_{\text{not observed}, s, a} \frac{1}{p_{it}} .

The interval moves with it: at the right :math:`\delta` it holds the truth as often as it says.

**Tipping point.** The conclusion is whether 0 lies in the interval at any time. Nothing moves the effect more than if
those drawn and not seen did worse by d, and those not drawn and not seen better by d, or the reverse; the tipping point
is the least d at which the conclusion is another one (Cro et al. 2020).

**Bounds.** Whatever the unseen states were, the effect lies between what it would be if all drawn and not seen were bad
and all others not seen were good, and the reverse (Manski 1990; Horowitz and Manski 2000). These two are effects on
outcomes that are all known, so each has an interval at any time, and the outer ends of the two hold the truth with at
least the stated probability, whatever is missing and why (Imbens and Manski 2004).

References
----------
.. [1] R. J. A. Little, Pattern-Mixture Models for Multivariate Incomplete Data, JASA 1993.
.. [2] M. G. Kenward, E. J. T. Goetghebeur, G. Molenberghs, Sensitivity Analysis for Incomplete Categorical Data,
   Statistical Modelling 2001.
.. [3] S. Cro, T. P. Morris, M. G. Kenward, J. R. Carpenter, Sensitivity Analysis for Clinical Trials with Missing
   Continuous Outcome Data Using Controlled Multiple Imputation: A Practical Guide, Statistics in Medicine 2020.
.. [4] C. F. Manski, Nonparametric Bounds on Treatment Effects, American Economic Review 1990.
.. [5] J. L. Horowitz, C. F. Manski, Nonparametric Analysis of Randomized Experiments with Missing Covariate and Outcome
   Data, JASA 2000.
.. [6] G. W. Imbens, C. F. Manski, Confidence Intervals for Partially Identified Parameters, Econometrica 2004.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import check_number
from meritfair.effects.trial import Trial
from meritfair.model.sensitivity import least_difference


@dataclass(frozen=True, eq=False)
class EffectSensitivity:
    """What next states that were not observed could change; made by `effect`.

    Attributes
    ----------
    rows, missing : int
        Arm-rounds whose next state is due, and those of them in which it was not observed.
    missing_drawn : int
        How many of these were drawn.
    good : ndarray, shape (2, 2)
        The share of good next states among those that were observed, by state and draw.
    weight : ndarray, shape (2, 2)
        By how much the mean outcome under a draw moves with that of those who were not seen, by state and draw.
    interval : tuple of float
        The interval of the effect at any time.
    bounds : tuple of float
        Between them lies the effect, whatever the unseen states were.
    outer : tuple of float
        The bounds with the uncertainty of both, at any time; NaN if there are too few rows.
    """

    rows: int
    missing: int
    missing_drawn: int
    good: FloatArray
    weight: FloatArray
    interval: tuple[float, float]
    bounds: tuple[float, float]
    outer: tuple[float, float]

    def shift(self, drawn: float = 0.0, not_drawn: float = 0.0) -> float:
        """Return by how much the effect moves if the chances of those not seen differed so much from those seen.

        Examples
        --------
        A fifth of all next states were not seen, of those drawn and of the others, equally in both states:

        >>> good, weight = np.full((2, 2), 0.4), np.full((2, 2), 0.1)
        >>> found = EffectSensitivity(100, 20, 10, good, weight, (0.05, 0.2), (-0.08, 0.32), (-0.15, 0.4))
        >>> round(found.shift(drawn=-0.1), 3), round(found.shift(-0.1, 0.1), 3)
        (-0.02, -0.04)
        >>> round(found.tipping["worse"], 3)
        0.125
        """
        moved = np.array([check_number("not_drawn", not_drawn, -1.0, 1.0), check_number("drawn", drawn, -1.0, 1.0)])
        change = self.weight * (np.clip(self.good + moved, 0.0, 1.0) - self.good)
        return float(change[:, 1].sum() - change[:, 0].sum())

    @property
    def tipping(self) -> dict[str, float]:
        """The least difference at which the conclusion changes, by the direction; infinite if none does it.

        ``worse``: those drawn and not seen did worse by that, those not drawn and not seen better; ``better``: the
        reverse. NaN if there is no interval. If 0 is outside, one direction can bring it in. If 0 is inside, either may
        bring it out.
        """
        low, high = self.interval
        if not math.isfinite(low):
            return {"worse": math.nan, "better": math.nan}
        worse = low if low > 0 else high  # this end has to reach 0
        better = high if high < 0 else low
        return {
            "worse": least_difference(lambda d: worse + self.shift(-d, d) <= 0) if high >= 0 else math.inf,
            "better": least_difference(lambda d: better + self.shift(d, -d) >= 0) if low <= 0 else math.inf,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        plain = {name: getattr(self, name) for name in ("rows", "missing", "missing_drawn")}
        outer, tipping = list(self.outer), self.tipping
        plain |= {"bounds": list(self.bounds), "outer": [end if math.isfinite(end) else None for end in outer]}
        plain["tipping"] = {way: d if math.isfinite(d) else None for way, d in tipping.items()}
        return plain | {"good": self.good.tolist(), "weight": self.weight.tolist()}


def sensitivity_of(
    trial: Trial, found: tuple[float, float, float], solve: Callable[[Trial], tuple[float, float, float]]
) -> EffectSensitivity:
    """Return what the next states that were not observed could change.

    `found` is the effect and its interval at any time, `solve` returns them of a trial.
    """
    lost, drawn = trial.lost, trial.drawn == 1
    worst, best = (solve(_filled(trial, lost, good)) if lost.any() else found for good in (~drawn, drawn))
    weight, good = _by_cell(trial, lost, trial.used)
    return EffectSensitivity(
        rows=int((lost | trial.used).sum()),
        missing=int(lost.sum()),
        missing_drawn=int((lost & drawn).sum()),
        good=good,
        weight=weight,
        interval=found[1:],
        bounds=(max(worst[0], -1.0), min(best[0], 1.0)),
        outer=(worst[1], best[2]),
    )


def _filled(trial: Trial, lost: BoolArray, good: BoolArray) -> Trial:
    """Return a trial in which what was lost is known."""
    return replace(trial, outcome=np.where(lost, good.astype(np.int64), trial.outcome))


def _by_cell(trial: Trial, lost: BoolArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return by state and draw how much those who were not seen weigh, and the share of good ones of those seen."""
    known = lost | used
    cell = (2 * trial.state + trial.drawn)[known]
    weight = 1 / np.where(trial.drawn == 1, trial.exposure, 1 - trial.exposure)[known]

    def sums(values: BoolArray) -> FloatArray:
        return np.bincount(cell, weight * values, minlength=4).astype(np.float64).reshape(2, 2)

    seen, good = used[known], used[known] * (trial.outcome[known] == 1)
    with np.errstate(invalid="ignore"):
        share = sums(good) / sums(seen)
    return sums(lost[known]) / len(cell), np.where(np.isfinite(share), share, 0.5)
