r"""FaWT-Q: Q-learning of what a pull is worth, with a least number of pulls for every arm in every window of time.

Each arm learns by itself (WIQL, Biswas et al.). Let s be its state, l the steps since its last pull (its *age*), a the
action, s' the next state, which is also its reward, and l' the next age. With n the number of times that (s, l, a) was
met before, every arm moves at every step, pulled or not, by

.. math::
    Q(s, l, a) \leftarrow Q(s, l, a) + \frac{1}{n + 1} \Bigl[ s' + \beta \bigl( \max_{a'} Q(s', l', a') - \bar Q \bigr)
    - Q(s, l, a) \Bigr] ,

where :math:`\bar Q` is the mean of the arm's values that were ever moved. At step t, counted from 0, all arms are
level with a probability of N / (N + t), so that all is tried; else the index is :math:`Q(s, l, 1) - Q(s, l, 0)`.
Either way the arms pulled have the largest sum of indices of all sets from which every arm still gets its :math:`\eta`
pulls in every L steps, as in :mod:`meritfair.policies.fawt`.

============  ===============
here          is in the paper
============  ===============
``least``     :math:`\eta`
``window``    :math:`L`
``discount``  :math:`\beta`
============  ===============

*Three versions.* The setting `update` says how Q moves.

- ``relative`` is the formula above, with :math:`\beta = 0.5` by default. :math:`\beta \bar Q` is subtracted for the
  reasons that :mod:`meritfair.policies.wiql` gives; it is the same for all values of an arm, and no index sees it.
- ``li`` is that of Li and Varakantham's own release: a constant rate of 0.5 and :math:`\beta = 0.95`, no visits are
  counted, nothing is subtracted, and the next value is taken at the age of now,

  .. math::
    Q(s, l, a) \leftarrow Q(s, l, a) + \tfrac12 \bigl[ s' + \beta \max_{a'} Q(s', l, a') - Q(s, l, a) \bigr] .

  Q is bounded by :math:`1 / (1 - \beta)`, and forgets: it is a mean of the last few visits.
- A third is in the repository of the MF-RMAB paper, whose Appendix A was made with it. It counts visits at the new
  age and reads them at the old one, refreshes the index of another age than it has updated, has :math:`\beta = 1` and
  subtracts nothing, so that Q grows without bound, and explores by a generator that is never seeded. Its index is
  nearly random about merit. These errors are not Li and Varakantham's. They are played for the reproduction of that
  appendix alone (:mod:`meritfair.reproduction.appendix_a`).

*Departures.* In Li and Varakantham's paper and release a state is seen only at a pull, and the age stands for what is
not seen since; there is one pull for each arm in a window, and exploring does not mind the windows. Here states are
seen, so the age tells only how soon an arm will have to be pulled, while what the arm has met is spread over more
values. `ages` says how many are distinguished. The fewer, and the smaller the discount, the sooner the index is good:
in 20,000 steps of 20 synthetic arms, with a budget of 4 and windows of 50, of what `FaWT` gains over pulling nobody by
knowing the arms this policy has 98 % with a single age, 95 % with 5 and 90 % with 15; with a discount of 0.9 it has 97,
90 and 84 %.

References
----------
D. Li and P. Varakantham, "Efficient Resource Allocation with Fairness Constraints in Restless Multi-Armed Bandits",
UAI 2022; released at github.com/HughLee1994/SoftFair-and-FaWT-in-Restless-Multi-Armed-Bandits. A. Biswas, G. Aggarwal,
P. Varakantham and M. Tambe, "Learn to Intervene: An Adaptive Learning Policy for Restless Bandits in Application to
Preventive Healthcare", IJCAI 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.checks import check_choice, check_whole
from meritfair.model.whittle import check_discount
from meritfair.policies.base import Policy
from meritfair.policies.fawt import check_windows, first_windows
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View

_DISCOUNTS = {"relative": 0.5, "li": 0.95}
# As the MF-RMAB repository has it, with its errors or with the two wrong ages put right: for the reproduction of its
# Appendix A only, so no message offers them.
_PUBLISHED = {"published": 1.0, "mended": 1.0}


@dataclass(frozen=True)
class FaWTQ(Policy):
    """Pulls every arm a least number of times in every window, and otherwise those who gain most by Q-learning.

    Parameters
    ----------
    least : int
        Pulls that every arm has in every window.
    window : int, optional
        Steps in a window, at least N least / K. None: half as many again, and at least 15.
    discount : float, optional
        What a reward is worth a step later, from 0 to 1; at 0 only the next step counts. None: 0.5, and 0.95 for
        ``li``.
    ages : int
        How many steps since the last pull are distinguished, at least 1; longer ones are taken together. With 1, only
        states are. Li and Varakantham's release has as many as the window has steps.
    update : {"relative", "li"}
        How Q moves: by 1 / (n + 1) and relative to its mean, or at a constant rate of 0.5, as in Li and Varakantham's
        own release.

    Examples
    --------
    Only the first arm gains by a pull. Soon it has all pulls that the windows of the others leave.

    >>> learner, pulled = FaWTQ(least=1, window=4).start(n_arms=3, budget=1, seed=1), []
    >>> for _ in range(32):
    ...     choice = learner.choose(states=[0, 0, 0])
    ...     learner.observe([0, 0, 0], choice.actions, [choice.actions[0], 0, 0])
    ...     pulled.append(int(choice.arms[0]))
    >>> print(*pulled)
    0 2 1 1 0 2 0 1 0 2 1 0 0 2 1 0 0 2 1 0 0 2 1 0 0 2 1 0 0 2 1 0
    >>> FaWTQ(update="li").discount
    0.95
    """

    name: ClassVar[str] = "fawt-q"
    plans_once = True
    least: int = 2
    window: int | None = None
    discount: float = None  # type: ignore[assignment]  # that of the update, once it is known
    ages: int = 5
    update: str = "relative"

    def __post_init__(self) -> None:
        check_windows(self)
        if self.update not in _PUBLISHED:
            check_choice("update", self.update, _DISCOUNTS)
        discount = {**_DISCOUNTS, **_PUBLISHED}[self.update] if self.discount is None else self.discount
        object.__setattr__(self, "discount", check_discount(discount))
        object.__setattr__(self, "ages", check_whole("ages", self.ages, 1))

    def plan(self, view: View) -> StepLearner:
        from meritfair.engine import aged_values as stages  # loading it takes a second
        from meritfair.engine.q_learning import explore_less

        rank, learn = {
            "relative": (stages.rank_by_values, stages.learn_relative),
            "li": (stages.rank_by_values, stages.learn_at_constant_rate),
            "published": (stages.rank_by_kept_indices, stages.learn_as_published),
            "mended": (stages.rank_by_kept_indices, stages.learn_as_mended),
        }[self.update]
        windows = first_windows(view, self.least, self.window)
        values = stages.new_values(self.ages, self.discount, keep_indices=self.update in _PUBLISHED)
        memory = np.concatenate([np.broadcast_to(values, (*windows.shape[:-1], len(values))), windows], axis=-1)
        return StepLearner(memory, rank, learn, explore_less)
