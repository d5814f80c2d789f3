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
optimum. That leaves :math:`\mu` alone, four numbers for each arm. As an arm can be pulled at any fraction of the steps,
there is a solution if the minimums add up to at most K. HiGHS finds the best. It is given the arms in a random order:
of several optima it is not the position of an arm that decides.

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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.errors import InputError, MeritfairError
from meritfair.model.confidence import Ball
from meritfair.model.criterion import Bound, bound_setting
from meritfair.model.whittle import whittle_index
from meritfair.policies.base import Estimator
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View

_ROUNDING = 1e-9  # minimums may miss the budget by this much in all
_LEVEL = 1e-7  # what HiGHS may be wrong by
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
        runs = upper.reshape(-1, *upper.shape[-3:])
        rngs = view.rngs or (None,) * len(runs)
        index = [_index(arms, programme.solve(arms, rng)) for arms, rng in zip(runs, rngs, strict=True)]
        memory = new_debts(np.reshape(index, upper.shape[:-1]), programme.minimum, view.memory)
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
    """Return the fraction of pulls by arm and state, shape (N, 2), with what a pull is worth to break ties."""
    worth = np.round(whittle_index(upper) - optimum.price[:, None], _DIGITS)
    time = optimum.measure.sum(axis=-1)
    fraction = np.round(optimum.measure[..., 1] / np.maximum(time, _LEVEL), _DIGITS)
    guess = np.where(np.abs(worth) <= _LEVEL, 0.5, worth > 0)
    return np.asarray(np.where(time > _LEVEL, fraction, guess) + _TIES * worth / (1 + np.abs(worth)))


@dataclass(frozen=True, eq=False)
class Occupancy:
    """How known arms are pulled best in the long run.

    Attributes
    ----------
    measure : ndarray, shape (N, 2, 2)
        How often each arm is in a state under an action.
    price : ndarray, shape (N,)
        What a pull of each arm must be worth: what one more pull would add, less what the arm's minimum costs.
    value : float
        The mean number of arms in the good state.
    """

    measure: FloatArray
    price: FloatArray
    value: float


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
    >>> optimum.measure.sum(axis=-2).round(4), round(optimum.value, 4)
    (array([[0.1, 0.9],
           [0.9, 0.1]]), 1.3167)
    """

    def __init__(self, budget: int, minimum: FloatArray) -> None:
        from scipy.sparse import csc_array

        total, N = float(minimum.sum()), len(minimum)
        if total > budget + _ROUNDING:
            raise InputError(f"minimum must add up to at most the budget of {budget} over the {N} arms, got {total:g}")
        self.minimum = minimum * min(1.0, budget / max(total, budget))
        equal = np.concatenate([np.zeros(N), np.ones(N), [budget]])
        self._left, self._right = np.concatenate([equal, self.minimum]), np.concatenate([equal, np.ones(N)])
        arm = np.repeat(np.arange(N), 2)  # of the pairs of columns: not pulled, pulled
        rows = np.stack([arm, N + arm, arm, N + arm, np.full(2 * N, 2 * N), 2 * N + 1 + arm], axis=1)
        ends = np.concatenate([[0], np.cumsum(np.tile([2, 4], 2 * N))])
        self._flow = ends[:-1]  # where the coefficients of the balance of good states are
        self._matrix = csc_array((np.ones(rows.size), rows.ravel(), ends), shape=(3 * N + 1, 4 * N))

    def solve(self, transitions: FloatArray, rng: np.random.Generator | None = None) -> Occupancy:
        """Return the best way to pull these arms, shape (N, 2, 2), all above 0.

        Of several, `rng` decides; without it, the order of the arms.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        N = len(transitions)
        order = np.arange(N) if rng is None else rng.permutation(N)
        good = np.tile([0.0, 0.0, 1.0, 1.0], N)
        self._matrix.data[self._flow] = good - transitions[order].ravel()
        self._left[-N:] = self.minimum[order]
        constraint = LinearConstraint(self._matrix, self._left, self._right)
        found = milp(-good, constraints=constraint, bounds=Bounds(0.0, 1.0))  # nothing is whole: linprog takes longer
        if not found.success:
            raise MeritfairError(f"HiGHS has not solved the linear programme of fair-ucrl: {found.message}")
        measure = np.empty((N, 2, 2))
        measure[order] = np.maximum(found.x, 0.0).reshape(N, 2, 2)
        return Occupancy(measure, self._price(measure, whittle_index(transitions)), float(-found.fun))

    def _price(self, measure: FloatArray, worth: FloatArray) -> FloatArray:
        """Return the price of each arm: the least worth of its pulls, or of all pulls that no minimum asks for."""
        pulls = measure[..., 1]
        own = np.where(pulls > _LEVEL, worth, np.inf).min(axis=-1)
        free = pulls.sum(axis=-1) > self.minimum + _LEVEL
        common = own[free].min() if free.any() else own[own < np.inf].max()
        return np.asarray(np.minimum(own, common))
