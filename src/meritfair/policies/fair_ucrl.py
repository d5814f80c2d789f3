r"""Fair-UCRL: the most reward that the confidence ball allows, if every arm is pulled a least fraction of the time.

At each episode take a box of plausible arms: for every arm i, state s and action a, the next state is good with a
probability between :math:`L_i(s,a)` and :math:`U_i(s,a)`. How often an arm is in s under a in the long run is its
*occupancy measure* :math:`\mu_i(s,a)`, and how often it goes from there to s' is :math:`z_i(s,a,s')`. Of all arms in
the boxes and all ways of pulling them, those with the largest reward are found by a linear programme,

.. math::
    \max \sum_{i,a} \mu_i(1, a) \quad \text{with} \quad
    & \mu_i(s,a) = \sum_{s'} z_i(s,a,s') \ge 0 , \quad \sum_{s,a} \mu_i(s,a) = 1 , \quad
      \sum_a \mu_i(1,a) = \sum_{s,a} z_i(s,a,1) , \\
    & L_i(s,a) \mu_i(s,a) \le z_i(s,a,1) \le U_i(s,a) \mu_i(s,a) , \\
    & \sum_{i,s} \mu_i(s,1) = K , \qquad \sum_s \mu_i(s,1) \ge \eta_i .

The index of an arm in a state is the fraction of the time there at which it is pulled,
:math:`\mu_i(s,1) / (\mu_i(s,0) + \mu_i(s,1))`, and the K largest are pulled.

=============  ====================  =========================================
here           in the paper          is
=============  ====================  =========================================
``minimum``    :math:`\eta_i`        the least fraction of steps at which an arm is pulled
``measure``    :math:`\mu`           occupancy measure, shape (N, 2, 2)
``delta``      :math:`\delta`        probability that the box misses the truth
``price``                            what a pull of the arm must be worth, its dual variable
=============  ====================  =========================================

*Two states need no z.* Put a price :math:`\lambda` on pulls, any one for each arm, and let D be how much more a good
state is worth than a bad one. As in :mod:`meritfair.model.whittle`, :math:`D = 1 + m_1(D) - m_0(D)` with
:math:`m_s(D) = \max_{a,p} (p D - \lambda a)` over all p in the box. The right-hand side less D is at least 1 for
:math:`D \le 0` and falls to below 0 thereafter, as no U is 0: so D is positive, each arm by itself does best with every
probability at its upper end, and by duality so does the programme: :math:`z_i(s,a,1) = U_i(s,a) \mu_i(s,a)` attains the
optimum. That leaves :math:`\mu` alone, four numbers for each arm.

*Known arms need no solver.* How often an arm is good at best is a concave function of how often it is pulled, of two
straight segments (:mod:`meritfair.model.fluid`). So the optimum gives each arm its minimum and spends what is left of K
on the steepest segments; of equally steep ones chance decides. `state_exposure` then says when an arm is pulled. There
is a solution if the minimums add up to at most K.

*Where the paper leaves things open.*

- Nearly all fractions are 0 or 1, so top K would mostly draw at random among equals, though a pull is worth more to
  some. Let :math:`W_i(s)` be the Whittle index at U and :math:`\lambda_i` the arm's price: that of the budget, less
  what its minimum makes up for. A fraction is 1 only if :math:`W_i(s) \ge \lambda_i`, and 0 only if :math:`W_i(s) \le
  \lambda_i`. Arms of equal fractions are ordered by :math:`W_i(s) - \lambda_i`. On 20 synthetic arms that are known,
  with a budget of 4 and no minimum, this is 99 % of what the Whittle index gains, where random ties have 92 %.
- If the optimum never visits a state, there is no fraction; then it is 1 if :math:`W_i(s) > \lambda_i`, 0 if it is
  smaller, and 1/2 if they are equal.
- Top K by fractions does not keep the minimums: an arm of a small fraction may never be among the K largest. So each
  arm has a running debt, and who is owed much comes first: :mod:`meritfair.engine.fractions` proves that then every
  arm's fraction of pulls is at least its minimum in the long run, whatever the arms are, in their boxes or not.
- The budget is spent whole, as everywhere here: K arms are pulled, not at most K.

References
----------
S. Wang, G. Xiong and J. Li, "Online Restless Multi-Armed Bandits with Long-Term Fairness Constraints", AAAI 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.errors import InputError
from meritfair.model.confidence import Ball
from meritfair.model.criterion import Bound, bound_setting
from meritfair.model.fluid import ArmWorth, arm_worth
from meritfair.model.timing import best_good_share, state_exposure
from meritfair.model.whittle import whittle_index
from meritfair.policies.base import Estimator
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View

_ROUNDING = 1e-9  # minimums may miss the budget by this much in all
_LEVEL = 1e-7  # what counts as nothing
_DIGITS = 9
_TIES = 1e-3  # what a difference of worth counts for among equal fractions


@dataclass(frozen=True)
class FairUCRL(Estimator):
    """Pulls every arm at least a fraction of the time in the long run, and else those where optimism sees most reward.

    Parameters
    ----------
    minimum : float or sequence of float, optional
        The least fraction of steps at which each arm is pulled in the long run; they add up to at most the budget.
        None: half of an equal share, K/2N.
    delta : float
        Probability that the confidence ball misses the truth, strictly between 0 and 1.
    ball : {"paper", "bernstein", "kl"}
        How the ball is measured; the last two are tighter.

    Examples
    --------
    Only the first arm gains by a pull; the others still have their minimum, up to a constant number of pulls.

    >>> learner = FairUCRL(minimum=0.2).start(n_arms=3, budget=1, seed=1, horizon=100)
    >>> for _ in range(1000):
    ...     for state in (0, 1):
    ...         learner.observe([state] * 3, [1, 1, 1], [1, 0, 0])
    ...         learner.observe([state] * 3, [0, 0, 0], [0, 0, 0])
    >>> sum(learner.choose(states=[0, 0, 0]).actions for _ in range(100))
    array([62, 19, 19])
    """

    name: ClassVar[str] = "fair-ucrl"
    adopts: ClassVar[tuple[str, ...]] = ("ball", "delta")
    minimum: Bound | None = None
    delta: float = 0.01
    ball: str = "paper"

    def __post_init__(self) -> None:
        if self.minimum is not None:
            object.__setattr__(self, "minimum", bound_setting("minimum", self.minimum))
        super().__post_init__()

    def plan(self, view: View) -> StepLearner:
        from meritfair.engine.fractions import new_debts, rank_by_debt  # loading it takes a second

        upper = Ball(view.counts, view.episode, self.delta, self.ball).upper
        programme = Programme(view.budget, self._minimums(view))
        index = _index(upper, programme.solve(upper, view.rngs))
        memory = new_debts(index, programme.minimum, view.memory)
        return StepLearner(memory, rank_by_debt, keeps_memory=False)

    def _minimums(self, view: View) -> FloatArray:
        """Return the least fraction of each arm."""
        minimum = np.asarray(view.budget / (2 * view.n_arms) if self.minimum is None else self.minimum)
        if minimum.ndim and len(minimum) != view.n_arms:
            raise InputError(
                f"minimum must be one number, or one for each of the {view.n_arms} arms, got {len(minimum)}"
            )
        return np.broadcast_to(minimum, view.n_arms)


def _index(upper: FloatArray, optimum: Occupancy) -> FloatArray:
    """Return the fraction of pulls by arm and state, shape (..., N, 2), with what a pull is worth to break ties."""
    worth = np.round(whittle_index(upper) - optimum.price[..., None], _DIGITS)
    time = optimum.measure.sum(axis=-1)
    fraction = np.round(optimum.measure[..., 1] / np.maximum(time, _LEVEL), _DIGITS)
    guess = np.where(np.abs(worth) <= _LEVEL, 0.5, worth > 0)
    return np.asarray(np.where(time > _LEVEL, fraction, guess) + _TIES * worth / (1 + np.abs(worth)))


@dataclass(frozen=True, eq=False)
class Occupancy:
    """How known arms are pulled best in the long run.

    Attributes
    ----------
    measure : ndarray, shape (..., N, 2, 2)
        How often each arm is in a state under an action.
    price : ndarray, shape (..., N)
        What a pull of each arm must be worth: what one more pull would add, less what the arm's minimum costs.
    value : ndarray, shape (...)
        The mean number of arms in the good state.
    """

    measure: FloatArray
    price: FloatArray
    value: FloatArray


class Programme:
    """The linear programme of the module's docstring, for arms that are given: without z.

    Parameters
    ----------
    budget : int
        Arms pulled at each step, on average.
    minimum : ndarray, shape (N,)
        The least fraction of steps at which each arm is pulled; they add up to at most the budget.

    Examples
    --------
    >>> arms = np.array([[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]]])
    >>> optimum = Programme(1, np.array([0.0, 0.1])).solve(arms)
    >>> optimum.measure.sum(axis=-2).round(4), optimum.value.round(4)
    (array([[0.1, 0.9],
           [0.9, 0.1]]), np.float64(1.3167))
    """

    def __init__(self, budget: int, minimum: FloatArray) -> None:
        total, N = float(minimum.sum()), len(minimum)
        if total > budget + _ROUNDING:
            raise InputError(f"minimum must add up to at most the budget of {budget} over the {N} arms, got {total:g}")
        self.budget, self.minimum = budget, minimum * min(1.0, budget / max(total, budget))

    def solve(self, transitions: FloatArray, rngs: Sequence[np.random.Generator] = ()) -> Occupancy:
        """Return the best way to pull these arms, shape (..., N, 2, 2), all above 0.

        Of several, random numbers decide, of a generator for each set of arms; without them, the order of the arms.
        """
        pulled = self._pulled(arm_worth(transitions), rngs)
        by_state, good = state_exposure(transitions, pulled), best_good_share(transitions, pulled)
        time = np.stack([1 - good, good], axis=-1)
        measure = np.stack([time * (1 - by_state), time * by_state], axis=-1)
        return Occupancy(measure, self._price(measure, whittle_index(transitions)), np.asarray(good.sum(axis=-1)))

    def _pulled(self, worth: ArmWorth, rngs: Sequence[np.random.Generator]) -> FloatArray:
        """Return how often each arm is pulled, (..., N): the minimums, then the steepest segments that are left."""
        *sets, N = worth.kink.shape
        ends = np.stack([np.zeros(worth.kink.shape), worth.kink, np.ones(worth.kink.shape)], axis=-1)
        left = np.diff(np.maximum(ends, self.minimum[:, None]), axis=-1).reshape(*sets, 2 * N)
        ties = np.array([rng.random(2 * N) for rng in rngs]).reshape(*sets, 2 * N) if rngs else np.zeros(left.shape)
        order = np.lexsort((ties, -np.round(worth.slope.reshape(left.shape), _DIGITS)))
        steepest = np.take_along_axis(left, order, axis=-1)
        before = np.cumsum(steepest, axis=-1) - steepest
        filled = np.empty(left.shape)
        np.put_along_axis(filled, order, np.clip(self.budget - self.minimum.sum() - before, 0.0, steepest), axis=-1)
        return np.asarray(np.clip(self.minimum + filled.reshape(*sets, N, 2).sum(axis=-1), 0.0, 1.0))

    def _price(self, measure: FloatArray, worth: FloatArray) -> FloatArray:
        """Return the price of each arm: the least worth of its pulls, or of all pulls that no minimum asks for."""
        pulls = measure[..., 1]
        own = np.where(pulls > _LEVEL, worth, np.inf).min(axis=-1)
        free = pulls.sum(axis=-1) > self.minimum + _LEVEL
        common = np.where(free, own, np.inf).min(axis=-1, keepdims=True)
        highest = np.where(own < np.inf, own, -np.inf).max(axis=-1, keepdims=True)
        return np.asarray(np.minimum(own, np.where(free.any(axis=-1, keepdims=True), common, highest)))
