r"""MF-RMAB: exposure in proportion to estimated merit (Algorithm 1 of the paper).

At each episode the policy takes a point of the confidence ball (the paper: the upper corner,
:math:`P^{+,t}`), computes every arm's benefit :math:`\mu_i^t` there, and draws K arms at each step from
:math:`\pi_i^t = g(\mu_i^t) / \sum_j g(\mu_j^t)` (Eq. 8), one after another without replacement. Other points of the
ball learn faster, and other designs draw several arms in proportion to merit: `docs/settings.md` says which to use.

References
----------
A. Sood, S. Jain and S. Gujar, "Fairness of Exposure in Online Restless Multi-armed Bandits",
AAMAS 2024, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from meritfair.core.checks import check_choice
from meritfair.engine.rules import LOTTERY, Rule
from meritfair.model.accounts import exploration
from meritfair.model.allocation import learning_cap
from meritfair.model.benefit import benefit
from meritfair.model.confidence import ESTIMATES
from meritfair.model.criterion import Bound, Criterion
from meritfair.model.exposure import DESIGNS
from meritfair.model.merit import Exponential, Merit
from meritfair.policies.base import Estimator
from meritfair.policies.plans import Lottery
from meritfair.policies.timed import TimedLottery, slack_setting
from meritfair.policies.view import View


@dataclass(frozen=True)
class MeritFair(Estimator):
    """The paper's MF-RMAB: a lottery in proportion to each arm's estimated merit.

    Parameters
    ----------
    merit : Merit
        How benefit becomes merit; the paper's is Exponential(3).
    delta : float
        Probability that the confidence ball misses the truth, strictly between 0 and 1.
    estimate : {"optimistic", "pessimistic", "mean", "pooled", "thompson"}
        Which point of the ball is used; the paper's is the optimistic corner. `Ball.estimate` describes them.
    design : {"sequential", "exact", "systematic"}
        How K arms are drawn; the paper's is one after another by merit. With the other two, exposures are in
        proportion to merit, up to saturation, for any K.
    floor, cap : float or sequence of float
        The least and the most exposure of each arm, for designs other than ``sequential``. A cap of 1 is approached
        the more often an arm was seen when it was not pulled (`learning_cap`).
    ball : {"paper", "bernstein", "kl"}
        How the ball is measured; the last two are tighter.
    slack : float
        How far an arm may be ahead of what it is due, or behind, in pulls, so that it is pulled when that helps most
        (`TimedLottery`). 0 gives everyone what is due at every step; infinity is no limit. It needs a design other than
        ``sequential``. It does not bound what is due, which follows from the states that are reported.

    Examples
    --------
    Three arms whose benefits seem to be 0.57, 0.1 and 0.125, after 100 visits of each state and action.

    >>> import numpy as np
    >>> from meritfair import Counts
    >>> good = [[[20, 60], [50, 90]], [[30, 30], [70, 80]], [[10, 20], [30, 40]]]
    >>> view = View(Counts(np.full((3, 2, 2), 100), good), 1, 1, np.full((3, 2, 2), np.nan))
    >>> MeritFair(estimate="mean").plan(view).exposure(1).round(3)
    array([0.656, 0.165, 0.179])
    >>> MeritFair().plan(view).exposure(1).round(3)  # optimism keeps exposures closer together
    array([0.501, 0.216, 0.283])

    With slack, those whom a pull helps now have more than they are due; `FairOracle` shows it.

    >>> learner = MeritFair(estimate="mean", design="exact", slack=1.0).start(n_arms=2, budget=1, seed=1)
    >>> choice = learner.choose(states=[0, 1])
    >>> choice.due, abs(choice.account).max() <= 1.0
    (array([0.5, 0.5]), np.True_)
    """

    name: ClassVar[str] = "merit-fair"
    adopts: ClassVar[tuple[str, ...]] = ("merit", "design", "floor", "cap", "ball", "delta")
    merit: Merit = field(default_factory=Exponential)
    delta: float = 0.01
    estimate: str = "optimistic"
    design: str = "sequential"
    floor: Bound = 0.0
    cap: Bound = 1.0
    ball: str = "paper"
    slack: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "floor", self.criterion.floor)
        object.__setattr__(self, "cap", self.criterion.cap)
        super().__post_init__()
        check_choice("estimate", self.estimate, ESTIMATES)
        object.__setattr__(self, "slack", slack_setting(self.slack, self.design))

    @property
    def criterion(self) -> Criterion:
        return Criterion(self.merit, self.design, self.floor, self.cap)

    def plan(self, view: View) -> Lottery | TimedLottery:
        arms = view.estimated_transitions(self.estimate, self.delta, self.ball)
        merit = self.merit(benefit(arms))
        if self.design == "sequential":
            return Lottery(merit)  # Eq. (8)
        not_pulled = view.counts.visits[..., 0].sum(axis=-1)
        cap = learning_cap(not_pulled, view.budget, self.floor, self.cap)
        lottery = Lottery(merit, self.design, self.floor, cap)
        if self.slack == 0:
            return lottery
        return TimedLottery(lottery, arms, self.slack, exploration(view.counts))

    def rule(self) -> Rule | None:
        merit = self.merit.rule()
        if merit is None:
            return None
        estimate, design = ESTIMATES.index(self.estimate), DESIGNS.index(self.design)
        return Rule(LOTTERY, estimate, design, self.confidence.rule(), merit, self.slack)
