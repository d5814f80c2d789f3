r"""WIQL: each arm learns by itself what a pull is worth in either state, and the K largest are pulled.

Let s be an arm's state, a whether it is pulled, s' its next state, which is also its reward: 1 if it is good after the
step. With n the number of times that (s, a) was met before, every arm moves at every step, pulled or not, by

.. math::
    Q(s, a) \leftarrow Q(s, a) + \frac{1}{n + 1} \Bigl[ s' + \beta \bigl( \max_{a'} Q(s', a') - \bar Q \bigr) - Q(s, a)
    \Bigr] , \qquad \bar Q = \tfrac14 \sum_{s, a} Q(s, a) .

Its index is :math:`Q(s, 1) - Q(s, 0)`. At step t, counted from 0, all arms are level with a probability of N / (N + t),
so K of them are drawn at random.

*Departure.* The paper has :math:`\beta = 1` and subtracts nothing. Then Q grows without bound. As Q(s, a) is a mean of
what was found over all its visits, it lags the more behind the more seldom a was tried in s, and the index is about
that lag more than about the arm. A discount alone bounds Q, but the climb to its level of about :math:`1 / (1 - \beta)`
takes very long at a rate of 1/n, with the same effect. With :math:`\beta \bar Q` subtracted, which is a constant and so
adds nothing to any index in the limit, there is no climb (Devraj and Meyn). On 30 synthetic instances of 20 arms with a
budget of 4, after 400,000 steps, this makes the difference between 79 % (the paper), 91 % (a discount of 0.9) and 94 %
(both) of what the Whittle index gains (``benchmarks/policies.py``).

*Limit.* As long as every (s, a) continues to be met, the index tends to what a pull gains if all later pulls are free,
:math:`d_s / (1 - \beta (\max_a p_{1a} - \max_a p_{0a}))` with :math:`d_s = p_{s1} - p_{s0}`; that is
`pull_advantage` over :math:`\beta`, as the reward counts from the step itself on. It is not the Whittle index, whose
subsidy stands for what pulls cost others. Exploration stops as 1/t, so some arms may be given up too early: then they
are judged by a few pulls.

============  =============
here          is
============  =============
``discount``  :math:`\beta`
============  =============

References
----------
A. Biswas, G. Aggarwal, P. Varakantham and M. Tambe, "Learn to Intervene: An Adaptive Learning Policy for Restless
Bandits in Application to Preventive Healthcare", IJCAI 2021. A. M. Devraj and S. P. Meyn, "Q-Learning with Uniformly
Bounded Variance", IEEE Trans. Autom. Control 67 (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.model.whittle import check_discount
from meritfair.policies.base import Policy
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View


@dataclass(frozen=True)
class WIQL(Policy):
    """Pulls those who gain most by what Q-learning found for each arm, and explores ever less.

    Parameters
    ----------
    discount : float
        What a reward is worth a step later, from 0 to 1. The smaller, the sooner Q has settled; at 0 only the next
        step counts.

    Examples
    --------
    Only the second arm gains by a pull. It is learned, and after 50 rounds 2 / 52 of all choices still explore.

    >>> learner = WIQL().start(n_arms=2, budget=1, seed=1)
    >>> for _ in range(50):
    ...     actions = learner.choose(states=[0, 0]).actions
    ...     learner.observe([0, 0], actions, [0, actions[1]])
    >>> learner.choose(states=[0, 0]).exposure.round(3)
    array([0.019, 0.981])
    """

    name: ClassVar[str] = "wiql"
    plans_once = True
    discount: float = 0.9

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", check_discount(self.discount))

    def plan(self, view: View) -> StepLearner:
        from meritfair.engine import q_learning as stages  # loading it takes a second

        row = stages.new_values(self.discount)
        memory = np.broadcast_to(row, (*view.counts.visits.shape[:-2], len(row)))
        return StepLearner(memory, stages.rank_by_values, stages.learn_values, stages.explore_less)
