r"""ProbFair: a guaranteed exposure for everyone, and within that the most reward that a lottery can give.

Every arm i has an exposure :math:`p_i`, its probability of being pulled at any step, whatever its state; of these the
policy takes those with

.. math:: \max \sum_i f(P_i, p_i), \qquad l \le p_i \le u, \qquad \sum_i p_i = K ,

where f is the long-run probability of the good state (Eq. 5 of the MF-RMAB paper), and draws K arms at each step with
exactly these exposures, by dependent rounding. It needs :math:`l \le K/N \le u`.

=========  ==================  ============
here       is                  in the paper
=========  ==================  ============
``lower``  the least exposure  :math:`\ell`
``upper``  the most exposure   :math:`u`
=========  ==================  ============

The original scans how the budget may be split between the arms with a concave f and those with a convex one; here the
optimum is exact (:mod:`meritfair.model.stationary`). It takes l as given; the default here is half of an equal share,
K/2N, which is possible for any budget. It plans for known arms; with another `estimate`, the policy plans anew at each
episode as if its estimate were true.

References
----------
C. Herlihy, A. Prins, A. Srinivasan and J. P. Dickerson, "Planning to Fairly Allocate: Probabilistic Fairness in the
Restless Bandit Setting", KDD 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.checks import check_number
from meritfair.core.errors import InputError
from meritfair.model.stationary import best_exposure
from meritfair.policies.base import Estimator, check_estimate
from meritfair.policies.plans import Lottery
from meritfair.policies.view import KNOWN, View

_NEVER = 1e-300  # a merit must be positive


@dataclass(frozen=True)
class ProbFair(Estimator):
    """Gives every arm at least a certain exposure, and the rest of the budget to where it is worth most.

    Parameters
    ----------
    lower : float, optional
        The least exposure of any arm, at most K/N. None: half of an equal share, K/2N.
    upper : float
        The most exposure of any arm, at least K/N. Below 1, no arm is pulled at every step, and so a learner
        continues to see what happens when it is not pulled.
    estimate : {"known", "optimistic", "pessimistic", "mean", "pooled", "thompson"}
        Which arms it plans for: the true ones, or a point of the confidence ball.
    delta : float
        Probability that the ball misses the truth, strictly between 0 and 1; for estimates other than ``known``.

    Examples
    --------
    >>> from meritfair import Counts
    >>> from meritfair.policies import View
    >>> truth = np.array([[[0.1, 0.5], [0.5, 0.6]], [[0.1, 0.2], [0.5, 0.9]], [[0.3, 0.2], [0.7, 0.6]]])
    >>> ProbFair(lower=0.1).plan(View(Counts.none(3), 1, 1, truth)).exposure(1).round(4)
    array([0.1, 0.8, 0.1])
    """

    name: ClassVar[str] = "prob-fair"
    lower: float | None = None
    upper: float = 1.0
    estimate: str = KNOWN
    delta: float = 0.01

    def __post_init__(self) -> None:
        if self.lower is not None:
            object.__setattr__(self, "lower", check_number("lower", self.lower, 0.0, 1.0))
        object.__setattr__(self, "upper", check_number("upper", self.upper, 0.0, 1.0))
        if self.lower is not None and self.lower > self.upper:
            raise InputError(f"lower must be at most upper, got {self.lower:g} and {self.upper:g}")
        check_estimate(self)
        object.__setattr__(self, "plans_once", self.oracle)

    def plan(self, view: View) -> Lottery:
        shape = view.counts.visits.shape
        arms = np.broadcast_to(view.estimated_transitions(self.estimate, self.delta), shape).reshape(-1, *shape[-3:])
        lower = view.budget / (2 * view.n_arms) if self.lower is None else self.lower
        rngs = view.rngs or (None,) * len(arms)
        exposure = [
            best_exposure(run, view.budget, lower, self.upper, rng) for run, rng in zip(arms, rngs, strict=True)
        ]
        return Lottery(np.maximum(np.reshape(exposure, shape[:-2]), _NEVER), "exact")
