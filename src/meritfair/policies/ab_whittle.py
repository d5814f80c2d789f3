r"""AB-Whittle: every arm learns its Whittle index in either state, by Q-learning on two time scales.

The Whittle index of state x is the subsidy :math:`\lambda` for not pulling an arm at which pulling it in x is worth
just as much. So each arm keeps, for each of its two states x, a subsidy :math:`\lambda_x` and values :math:`Q_x(s, a)`
under that subsidy. At every step every arm, pulled (a = 1) or not, moves from s to s', which is also its reward: 1 if
it is good after the step. For both x,

.. math::
    Q_x(s, a) &\leftarrow Q_x(s, a) + \alpha \Bigl[ s' + (1 - a) \lambda_x
        + \max_{a'} Q_x(s', a') - f(Q_x) - Q_x(s, a) \Bigr] , \\
    \lambda_x &\leftarrow \lambda_x + b \, \bigl[ Q_x(x, 1) - Q_x(x, 0) \bigr] .

f is the mean of the four values, which takes the place of the average reward. With n the times that (s, a) was met,
this one included, and m the steps of the arm so far, :math:`\alpha = n^{-fast}` and :math:`b = m^{-slow}`: as slow is
larger, a subsidy hardly changes while the values settle. The index of an arm is the subsidy of its state; with a
probability of `exploration` K arms are drawn at random instead.

*Where it settles.* Let :math:`p_{sa}` be the probability of a good next state and :math:`d_s = p_{s1} - p_{s0}`.
Settled values have :math:`Q_x(s, a) = (1 - a) \lambda_x + p_{sa} D + c`, where :math:`D = 1 + \max Q_x(1, \cdot) - \max
Q_x(0, \cdot)` and c is a constant, so the subsidy moves along :math:`Q_x(x, 1) - Q_x(x, 0) = d_x D - \lambda_x`. The
subsidy enters the value of not pulling, and so it is not subtracted again; with it kept out of Q(x, 0), the subsidy
moves along :math:`Q(x, 1) - Q(x, 0) - \lambda_x`, which is the same. :math:`D` is the worth of good over bad in
:mod:`meritfair.model.whittle`. There two states are shown to be indexable: :math:`d_x D - \lambda_x` is positive below
the Whittle index of average reward, 0 at it, and negative above. So that is where each subsidy goes. That the reward is
counted after the step, and there before it, makes no difference on average.

*Departures.* The paper leaves the step sizes open but for two conditions: both have infinite sums and finite sums of
squares, and the slow one becomes ever smaller than the fast one. These powers satisfy them, and of those tried they
came close to the index soonest on arms drawn at random.

==================  ==================================
here                is in the paper
==================  ==================================
``fast``, ``slow``  powers of its step sizes a(n), b(n)
``exploration``     :math:`\epsilon`
==================  ==================================

References
----------
K. E. Avrachenkov and V. S. Borkar, "Whittle index based Q-learning for restless bandits with average reward",
Automatica 139 (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.checks import check_number
from meritfair.core.errors import InputError
from meritfair.policies.base import Policy
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View


@dataclass(frozen=True)
class ABWhittle(Policy):
    """Pulls the K arms with the largest Whittle index, which it learns at each step.

    Parameters
    ----------
    exploration : float
        Probability that K arms are drawn at random at a step, from 0 to 1. About that part of what could be gained is
        lost for good, but without it some arms may never be tried.
    fast, slow : float
        How soon the steps of the values and of the indices become smaller, as powers of the number of visits:
        0.5 < fast < slow <= 1.

    Examples
    --------
    Only the second arm gains by a pull. It is learned, and half of the exploration is left for the first.

    >>> learner = ABWhittle(exploration=0.05).start(n_arms=2, budget=1, seed=1)
    >>> for _ in range(50):
    ...     actions = learner.choose(states=[0, 0]).actions
    ...     learner.observe([0, 0], actions, [0, actions[1]])
    >>> learner.choose(states=[0, 0]).exposure
    array([0.025, 0.975])
    """

    name: ClassVar[str] = "ab-whittle"
    plans_once = True
    exploration: float = 0.05
    fast: float = 0.7
    slow: float = 0.9

    def __post_init__(self) -> None:
        for name in ("exploration", "fast", "slow"):
            object.__setattr__(self, name, check_number(name, getattr(self, name), 0.0, 1.0))
        if not 0.5 < self.fast < self.slow:
            raise InputError(f"fast must be above 0.5 and below slow, got {self.fast:g} and {self.slow:g}")

    def plan(self, view: View) -> StepLearner:
        from meritfair.engine import q_learning as stages  # loading it takes a second

        row = stages.new_subsidies(self.exploration, self.fast, self.slow)
        memory = np.broadcast_to(row, (*view.counts.visits.shape[:-2], len(row)))
        return StepLearner(memory, stages.rank_by_subsidies, stages.learn_subsidies, stages.explore_by_setting)
