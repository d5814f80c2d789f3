r"""SoftFair: arms are drawn by what a pull gains in their state, so that no arm is left out for good.

At each step K arms are drawn one after another, arm i in state s with a chance in proportion to

.. math:: \exp\{ c\, [Q_i(s, 1) - Q_i(s, 0)] \},

where Q is the value of an action now and the best ever after, with discount :math:`\beta`, on the arms as they are
believed to be. The larger c, the more goes to those who gain most; at 0 all are alike. No arm's chance is 0, and none
is favoured over another that would gain more in the long run, which is the fairness that the authors ask for.

For two states its limit is known:
:math:`Q(s,1) - Q(s,0) = \beta d_s / (1 - \beta(\max_a p_{1a} - \max_a p_{0a}))` with :math:`p_{sa}` the chance of a
good next state and :math:`d_s = p_{s1} - p_{s0}` (:func:`~.whittle.pull_advantage`), so nothing is iterated.

*Departures.* Here Q is that of the best policy, Q*, with a discount, and states are seen at every step. In the authors'
release the value is that of the softmax policy itself, pulled with the chance that it gives and otherwise not; it is
undiscounted, up to the end of an episode of given length; and a state is seen only at a pull, so that arms are drawn by
the state at their last one. Their c is 9.

References
----------
D. Li and P. Varakantham, "Avoiding Starvation of Arms in Restless Multi-Armed Bandits", AAMAS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from meritfair.core.checks import check_number
from meritfair.model.criterion import Confidence
from meritfair.model.whittle import check_discount, pull_advantage
from meritfair.policies.base import Policy, check_beliefs
from meritfair.policies.plans import PriorityTable

if TYPE_CHECKING:
    from meritfair.policies.base import View

__all__ = ["SoftFair"]


@dataclass(frozen=True)
class SoftFair(Policy):
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
        Which arms are believed in: ``known`` are the true ones, the others are points of the confidence ball
        (`Ball.estimate`). ``optimistic`` and ``pessimistic`` move all of an arm's chances together, so where little
        was seen a pull seems to gain nothing.
    delta : float
        Chance that the ball may miss the truth, strictly between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from meritfair import Counts
    >>> from meritfair.policies import View
    >>> truth = np.array([[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]]])
    >>> SoftFair(c=2.0, estimate="known").plan(View(Counts.none(2), 1, 1, truth)).index.round(4)
    array([[0.9863, 0.9863],
           [0.    , 0.3273]])
    """

    name: ClassVar[str] = "soft-fair"
    adopts: ClassVar[tuple[str, ...]] = ("delta",)
    c: float = 3.0
    discount: float = 0.9
    estimate: str = "mean"
    delta: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", check_number("c", self.c, 0.0))
        object.__setattr__(self, "discount", check_discount(self.discount))
        check_beliefs(self)
        object.__setattr__(self, "constant", self.oracle)

    @property
    def confidence(self) -> Confidence:
        return Confidence(delta=self.delta)

    def plan(self, view: View) -> PriorityTable:
        gain = pull_advantage(view.believed(self.estimate, self.delta), self.discount)
        return PriorityTable(self.c * gain, soft=True)
