r"""SoftFair: arms are drawn by what a pull gains in their state, so that no arm is left out for good.

At each step K arms are drawn one after another, arm i in state s with a probability in proportion to

.. math:: \exp\{ c\, [Q_i(s, 1) - Q_i(s, 0)] \},

where Q is the value of an action now and the best ones later, with discount :math:`\beta`, on the estimated arms. The
larger c, the more goes to those who gain most; at 0 all are alike. No arm's exposure is 0, and none is favoured over
another that would gain more in the long run, which is the fairness that the authors ask for.

For two states its limit is known:
:math:`Q(s,1) - Q(s,0) = \beta d_s / (1 - \beta(\max_a p_{1a} - \max_a p_{0a}))` with :math:`p_{sa}` the probability
of a good next state and :math:`d_s = p_{s1} - p_{s0}` (``model.whittle.pull_advantage``), so nothing is iterated.

*Departures.* Here Q is that of the best policy, Q*, with a discount, and states are seen at every step. In the authors'
release the value is that of the softmax policy itself, pulled with the probability that it gives; it is
undiscounted, up to the end of an episode of given length; and a state is seen only at a pull, so that arms are drawn by
the state at their last one. Their c is 9.

References
----------
D. Li and P. Varakantham, "Avoiding Starvation of Arms in Restless Multi-Armed Bandits", AAMAS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from meritfair.core.checks import check_number
from meritfair.model.whittle import check_discount, pull_advantage
from meritfair.policies.base import Estimator, check_estimate
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import View


@dataclass(frozen=True)
class SoftFair(Estimator):
    """Draws K arms one after another, by the exponential of what a pull gains in each arm's state.

    Parameters
    ----------
    c : float
        How sharply a gain is favoured, at least 0. With the defaults the arm that is drawn least on the paper's data
        sets is drawn about as often as under MF-RMAB with Exponential(3).
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward. Below 1, gains are bounded by
        discount / (1 - discount), and so are the odds between two arms.
    estimate : {"known", "optimistic", "pessimistic", "mean", "pooled", "thompson"}
        Which arms it plans for: ``known`` are the true ones, the others are points of the confidence ball
        (`Ball.estimate`). ``optimistic`` and ``pessimistic`` move all of an arm's probabilities together, so where
        little was seen a pull seems to gain nothing.
    delta : float
        Probability that the ball misses the truth, strictly between 0 and 1.

    Examples
    --------
    >>> arms = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]], [[0.1, 0.2], [0.3, 0.4]]]
    >>> for c in (0.0, 3.0, 9.0):
    ...     learner = SoftFair(c, estimate="known").start(budget=1, seed=1, transitions=arms)
    ...     print(learner.choose(states=[0, 0, 0]).exposure.round(3))
    [0.333 0.333 0.333]
    [0.648 0.147 0.205]
    [0.958 0.011 0.03 ]
    """

    name: ClassVar[str] = "soft-fair"
    c: float = 3.0
    discount: float = 0.9
    estimate: str = "mean"
    delta: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", check_number("c", self.c, 0.0))
        object.__setattr__(self, "discount", check_discount(self.discount))
        check_estimate(self)
        object.__setattr__(self, "plans_once", self.oracle)

    def plan(self, view: View) -> PriorityTable:
        gain = pull_advantage(view.estimated_transitions(self.estimate, self.delta), self.discount)
        return PriorityTable(self.c * gain, soft=True)
