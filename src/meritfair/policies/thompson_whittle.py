r"""Thompson sampling for the Whittle index: plan for arms drawn from the posterior.

Before each episode every probability :math:`p_{sa}` of a good next state is drawn from its posterior under a uniform
prior, :math:`\text{Beta}(1 + \text{good}, 1 + \text{bad})`, and the K arms with the largest Whittle index of the arms
so drawn are pulled. Where little was seen the draws differ from episode to episode, so all is tried; where much was
seen they are near the truth. Each run draws from a generator of its own.

References
----------
Y. H. Jung and A. Tewari, "Regret Bounds for Thompson Sampling in Episodic Restless Bandit Problems", NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.errors import InputError
from meritfair.model.posterior import Prior
from meritfair.model.whittle import check_discount, whittle_index
from meritfair.policies.base import Policy
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import View


@dataclass(frozen=True)
class ThompsonWhittle(Policy):
    """Pulls the K arms with the largest Whittle index of arms drawn from the posterior, anew for each episode.

    Parameters
    ----------
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward. At 0 all arms are level.

    Examples
    --------
    Two arms with indices of 0.57 in both states, and of 0 and 0.17: before anything was seen, and after 1000 visits of
    each state and action.

    >>> from meritfair import Counts
    >>> good = np.array([[[200, 600], [500, 900]], [[300, 300], [700, 800]]])
    >>> for seen in (Counts.none(2), Counts(np.full((2, 2, 2), 1000), good)):
    ...     view = View(seen, 1, 1, np.full((2, 2, 2), np.nan), rngs=(np.random.default_rng(1),))
    ...     print(ThompsonWhittle().plan(view).index.round(2).tolist())
    [[0.52, -0.09], [0.36, -0.47]]
    [[0.59, 0.56], [-0.03, 0.2]]
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
    if len(view.rngs) != len(good):
        raise InputError(f"thompson-whittle needs a generator for each of the {len(good)} runs, got {len(view.rngs)}")
    return np.reshape([rng.beta(*seen) for rng, *seen in zip(view.rngs, good, bad, strict=True)], shape)
