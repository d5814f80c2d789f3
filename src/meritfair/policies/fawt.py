r"""FaWT: the Whittle index, with a least number of pulls for every arm in every window of time.

Every arm is pulled at least :math:`\eta` times in any L steps in a row; :math:`\eta = 1` is the periodic constraint
of Prins et al. As far as that allows, the arms with the largest Whittle index at their state are pulled. At each step
K arms are pulled, and in L steps all N arms need :math:`\eta` pulls, so it can be done only if

.. math:: N \eta \le K L .

Then it always can: a policy that pulled an arm no sooner than its own window demands could come to owe more than K
pulls at once, so here the deadlines of all arms are looked at together, some steps ahead. Of the sets of K arms from
which all windows can still be kept, the policy pulls one with the largest sum of indices
(:mod:`meritfair.engine.windows` has the proof). Windows are counted in steps of the whole run, across the borders of
episodes.

==========  ======================
here        is in the paper
==========  ======================
``least``   :math:`\eta`
``window``  :math:`L`
==========  ======================

In the paper an arm's state is seen only when it is pulled, and the index is one of beliefs; here all states are seen,
and the index has a closed form. The original plans for known arms; with another `estimate`, the policy plans anew at
each episode as if its estimate were true, and the windows continue.

References
----------
D. Li and P. Varakantham, "Efficient Resource Allocation with Fairness Constraints in Restless Multi-Armed Bandits",
UAI 2022. A. Prins, A. Mate, J. A. Killian, R. Abebe and M. Tambe, "Incorporating Healthcare Motivated Constraints in
Restless Bandit Based Resource Allocation", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError
from meritfair.core.machine import check_memory
from meritfair.model.whittle import check_discount, whittle_index
from meritfair.policies.base import Estimator, check_estimate
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import KNOWN, View

_SHORTEST = 15  # the shortest window of the paper's experiments


@dataclass(frozen=True)
class FaWT(Estimator):
    """Pulls every arm a least number of times in every window, and otherwise those with the largest Whittle index.

    Parameters
    ----------
    least : int
        Pulls that every arm has in every window.
    window : int, optional
        Steps in a window, at least N least / K. None: half as many again, and at least 15.
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward, which is what is simulated.
    estimate : {"known", "optimistic", "pessimistic", "mean", "pooled", "thompson"}
        Which arms it plans for: the true ones, or a point of the confidence ball (`Ball.estimate`).
    delta : float
        Probability that the ball misses the truth, strictly between 0 and 1; for estimates other than ``known``.

    Examples
    --------
    The first arm has the largest index. Where the window leaves no choice, the three take turns.

    >>> arms = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]], [[0.1, 0.2], [0.3, 0.4]]]
    >>> for window in (3, 6):
    ...     learner = FaWT(least=1, window=window).start(budget=1, seed=1, transitions=arms)
    ...     print(*(learner.choose(states=[0, 0, 0]).arms[0] for _ in range(12)))
    0 2 1 0 2 1 0 2 1 0 2 1
    0 0 0 0 2 1 0 0 0 0 2 1
    """

    name: ClassVar[str] = "fawt"
    least: int = 2
    window: int | None = None
    discount: float = 1.0
    estimate: str = KNOWN
    delta: float = 0.01

    def __post_init__(self) -> None:
        check_windows(self)
        object.__setattr__(self, "discount", check_discount(self.discount))
        check_estimate(self)
        object.__setattr__(self, "plans_once", self.oracle)

    def plan(self, view: View) -> StepLearner:
        from meritfair.engine.windows import rank_by_table_in_windows  # loading it takes a second

        index = whittle_index(view.estimated_transitions(self.estimate, self.delta), self.discount)
        if view.memory is None:
            windows = first_windows(view, self.least, self.window)
        else:
            windows = view.memory[..., index.shape[-1] :]  # they continue
        memory = np.concatenate([index, windows], axis=-1)
        return StepLearner(memory, rank_by_table_in_windows, keeps_memory=False)


def check_windows(policy: Any) -> None:
    """Check the settings of a policy that keeps windows: least, and window."""
    object.__setattr__(policy, "least", check_whole("least", policy.least, 1))
    if policy.window is not None:
        object.__setattr__(policy, "window", check_whole("window", policy.window, 1))
        if policy.window < policy.least:
            raise InputError(
                f"window must be at least the {policy.least} pulls that each arm is to have in it, got {policy.window}"
            )


def first_windows(view: View, least: int, window: int | None) -> FloatArray:
    """Return what the engine knows about the windows at the start, shape (..., N, columns)."""
    from meritfair.engine.windows import new_windows

    steps = _window(view.n_arms, view.budget, least, window)
    check_memory(f"{least:,} pulls of {view.n_arms:,} arms in every window", 16 * view.n_arms * least, "least")
    shape = view.counts.visits.shape[:-3]
    rngs = view.rngs or tuple(np.random.default_rng() for _ in range(int(np.prod(shape))))
    numbers = np.array([float(each.integers(2**53)) for each in rngs])
    return new_windows(view.n_arms, view.budget, least, steps, numbers.reshape(shape))


def _window(n_arms: int, budget: int, least: int, window: int | None) -> int:
    """Return the steps in a window, if every arm can have its pulls in it."""
    if window is None:
        return max(_SHORTEST, -(-3 * n_arms * least // (2 * budget)))
    if n_arms * least > budget * window:
        raise InputError(
            f"window must be at least {-(-n_arms * least // budget)} for {n_arms} arms with {least} "
            f"pull{'s' * (least > 1)} each and a budget of {budget}, got {window}"
        )
    return window
