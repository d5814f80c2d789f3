r"""UCWhittle: the Whittle index of the best arms that the counts leave plausible.

Before episode t each probability :math:`p_{sa}` of a good next state is taken to lie in a box around its frequency,

.. math::
    \hat p_{sa} \pm d_{sa}, \qquad d_{sa} = \sqrt{\frac{2 |S| \ln(2 |S| |A| N t^4 / \delta)}{\max(1, n_{sa})}} ,

within [0, 1], where :math:`n_{sa}` are its visits and N is the number of arms. The policy takes a point of the box, and
pulls the K arms with the largest Whittle index there. Which point, is the setting ``bound``:

- ``penalty``: the one where the index is largest, for each state by itself (``model.whittle.largest_whittle_index``);
- ``value``: the one where the arm is worth most, for any start, subsidy and discount: every :math:`p_{sa}` at its
  upper end, as a good state is always worth more than a bad one (:mod:`meritfair.model.whittle`);
- ``extreme``: the upper end under a pull, the lower end without.

The paper bounds the L1 distance of :math:`(1 - p_{sa}, p_{sa})` from the frequencies by d, which for two states is a
box of half this width (`meritfair.Ball`). Here d bounds each entry. So the guarantee holds all the more, and the index
stays optimistic for longer. The paper finds the first two points by a solver, as quadratic programmes; for two states
they are known corners, so no solver is needed, and these points are exact. What is called ``extreme`` is a baseline in
the paper, not one of its algorithms.

Two of the points can stay wrong forever. ``penalty`` and ``extreme`` assume the worst of not pulling an arm, and only
not pulling it could show otherwise: an arm that is pulled whenever it is bad keeps its high index there, even if pulls
harm it. Under ``value`` such an arm seems to need no pull, so at times it is not pulled, and is learned.
So ``value`` wins in the long run. Early it depends on the arms. On Synthetic, where pulls may harm, it leads from the
start. On the synthetic arms of the authors' repository (lily-x/online-rmab), where a pull and a good state always
help, with 8 arms, 3 pulled and 20 steps an episode, it is the slowest: over the first 100 episodes it gains 0.38 of
what the Whittle index gains over random pulls, ``penalty`` 0.64 and ``extreme`` 0.63, and in the last 40 of 400
episodes 0.85, 0.72 and 0.77 (means over 200 draws of the arms).

References
----------
K. Wang, L. Xu, A. Taneja and M. Tambe, "Optimistic Whittle Index Policy: Online Learning for Restless Bandits",
AAAI 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.checks import check_choice
from meritfair.model.confidence import confidence_radius
from meritfair.model.whittle import check_discount, largest_whittle_index, whittle_index
from meritfair.policies.base import Estimator
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import View

_BOUNDS = ("value", "penalty", "extreme")


@dataclass(frozen=True)
class UCWhittle(Estimator):
    """Pulls the K arms with the largest Whittle index at an optimistic point of what the counts leave plausible.

    Parameters
    ----------
    bound : {"value", "penalty", "extreme"}
        Which point: where the arm is worth most, where the index is largest, or where pulling gains most. In the long
        run ``value`` does best, as the other two may hold on to a wrong arm; at first it can be the slowest.
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward. Below 1, an arm of which nothing
        is known has a finite index.
    delta : float
        Probability that the box misses the truth, strictly between 0 and 1.

    Examples
    --------
    The index of an arm of which nothing was seen, in both states.

    >>> from meritfair import Counts
    >>> view = View(Counts.none(1), 1, 1, np.full((1, 2, 2), np.nan))
    >>> for bound in ("value", "penalty", "extreme"):
    ...     print(bound, UCWhittle(bound).plan(view).index.round(4).tolist())
    value [[0.0, 0.0]]
    penalty [[9.0, 0.9]]
    extreme [[0.9, 0.9]]
    """

    name: ClassVar[str] = "uc-whittle"
    bound: str = "value"
    discount: float = 0.9
    delta: float = 1e-3

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, _BOUNDS)
        object.__setattr__(self, "discount", check_discount(self.discount))
        super().__post_init__()

    def plan(self, view: View) -> PriorityTable:
        middle, visits = view.counts.frequency, view.counts.visits
        radius = confidence_radius(visits, view.episode, view.n_arms, self.delta)  # Eq. (6)
        lower, upper = np.maximum(0.0, middle - radius), np.minimum(1.0, middle + radius)  # [0, 1] if never seen
        match self.bound:
            case "penalty":
                return PriorityTable(largest_whittle_index(lower, upper, self.discount))
            case "value":
                return PriorityTable(whittle_index(upper, self.discount))
        return PriorityTable(whittle_index(np.stack([lower[..., 0], upper[..., 1]], axis=-1), self.discount))
