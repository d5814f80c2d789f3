r"""Thompson sampling for the Whittle index: believe arms in proportion to how plausible they are.

Before each episode every chance :math:`p_{sa}` of a good next state is drawn from its posterior under a uniform prior,
:math:`\text{Beta}(1 + \text{good}, 1 + \text{bad})`, and the K arms with the largest Whittle index of the arms so drawn
are pulled. Where little was seen the draws differ from episode to episode, so all is tried; where much was seen they
are near the truth. Of each run the draws come from a source of its own.

References
----------
Y. H. Jung and A. Tewari, "Regret Bounds for Thompson Sampling in Episodic Restless Bandit Problems", NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from meritfair.core.errors import InputError
from meritfair.model.posterior import Prior
from meritfair.model.whittle import check_discount, whittle_index
from meritfair.policies.base import Policy
from meritfair.policies.plans import PriorityTable

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray
    from meritfair.policies.base import View

__all__ = ["ThompsonWhittle"]


@dataclass(frozen=True)
class ThompsonWhittle(Policy):
    """Pulls the K arms with the largest Whittle index of arms drawn from the posterior, anew for each episode.

    Parameters
    ----------
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward. At 0 all arms are level.

    Examples
    --------
    >>> import numpy as np
    >>> from meritfair import Counts
    >>> from meritfair.policies import View
    >>> nothing = View(Counts.none(2), 1, 1, np.full((2, 2, 2), np.nan), luck=(np.random.default_rng(1),))
    >>> ThompsonWhittle().plan(nothing).index.shape
    (2, 2)
    """

    name: ClassVar[str] = "thompson-whittle"
    discount: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", check_discount(self.discount))

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(whittle_index(_plausible(view), self.discount))


def _plausible(view: View) -> FloatArray:
    """Return arms drawn from the posterior, shape (..., N, 2, 2)."""
    shape = view.counts.visits.shape
    posterior = Prior.uniform().posterior(view.counts)
    good, bad = (x.reshape(-1, *shape[-3:]) for x in (posterior.good, posterior.bad))
    if len(view.luck) != len(good):
        raise InputError(f"thompson-whittle needs a generator for each of the {len(good)} runs, got {len(view.luck)}")
    return np.reshape([luck.beta(*seen) for luck, *seen in zip(view.luck, good, bad, strict=True)], shape)
