r"""Policies of someone who knows the arms and looks at their states: the Whittle index, and what the next step gains.

With :math:`p_{sa}` the probability of a good next state, the gain of a pull at the next step is
:math:`d_s = p_{s1} - p_{s0}`. `Myopic` pulls the K arms with the largest. The Whittle index also counts what becomes of
a better state later; for two states it is :math:`d_s` times a factor (:mod:`meritfair.model.whittle`). `Whittle` pulls
the K arms with the largest index. With many arms that comes close to the greatest reward there is (Weber and Weiss
1990), so what others gain is measured by it.

The budget is spent whole, also where the index is negative: a policy pulls K arms at each step.

References
----------
P. Whittle, "Restless bandits: activity allocation in a changing world", J. Appl. Probab. 25A (1988). R. Weber and
G. Weiss, "On an index policy for restless bandits", J. Appl. Probab. 27 (1990).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from meritfair.model.whittle import check_discount, whittle_index
from meritfair.policies.base import Policy
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import View


@dataclass(frozen=True)
class Whittle(Policy):
    """Knows the true arms, and pulls the K with the largest Whittle index at their state.

    Parameters
    ----------
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward, which is what is simulated. At 0
        all arms are level.

    Examples
    --------
    >>> import numpy as np
    >>> from meritfair import Counts
    >>> truth = np.array([[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]]])
    >>> Whittle().plan(View(Counts.none(2), 1, 1, truth)).index.round(4)
    array([[0.5714, 0.5714],
           [0.    , 0.1667]])
    """

    name: ClassVar[str] = "whittle"
    plans_once = True
    oracle = True
    discount: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", check_discount(self.discount))

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(whittle_index(view.true_transitions, self.discount))


@dataclass(frozen=True)
class Myopic(Policy):
    """Knows the true arms, and pulls the K whose probability of being good at the next step gains most.

    Examples
    --------
    >>> arms = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]], [[0.1, 0.2], [0.3, 0.4]]]
    >>> Myopic().start(budget=1, seed=1, transitions=arms).choose(states=[0, 1, 1]).exposure
    array([1., 0., 0.])
    """

    name: ClassVar[str] = "myopic"
    plans_once = True
    oracle = True

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(view.true_transitions[..., 1] - view.true_transitions[..., 0])
