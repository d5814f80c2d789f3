r"""MF-RMAB: exposure in proportion to estimated merit (Algorithm 1 of the paper).

At each episode the policy takes a point of the confidence ball (the paper: the upper corner,
:math:`P^{+,t}`), computes every arm's benefit :math:`\mu_i^t` there, and draws K arms at each step from
:math:`\pi_i^t = g(\mu_i^t) / \sum_j g(\mu_j^t)` (Eq. 8), one after another without putting back.

References
----------
A. Sood, S. Jain and S. Gujar, "Fairness of Exposure in Online Restless Multi-armed Bandits",
AAMAS 2024, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from meritfair.checks import check_choice, check_number
from meritfair.engine.rules import LOTTERY, Rule
from meritfair.model.benefit import benefit
from meritfair.model.confidence import ESTIMATES, Ball
from meritfair.model.exposure import DESIGNS
from meritfair.model.merit import Exponential, Merit
from meritfair.policies.base import Policy, check_merit_function
from meritfair.policies.plans import Lottery

if TYPE_CHECKING:
    from meritfair.policies.base import View

__all__ = ["MeritFair"]


@dataclass(frozen=True)
class MeritFair(Policy):
    """The paper's MF-RMAB: a lottery in proportion to each arm's estimated merit.

    Parameters
    ----------
    merit : Merit
        How benefit becomes merit; the paper's is Exponential(3).
    delta : float
        Chance that the confidence ball may miss the truth, strictly between 0 and 1.
    estimate : {"optimistic", "mean", "pessimistic"}
        Which point of the ball is believed; the paper's is the optimistic corner.
    design : {"sequential"}
        How K arms are drawn; the paper's is one after another by merit.

    Examples
    --------
    >>> MeritFair(merit=Exponential(1.0), estimate="mean")
    MeritFair(merit=Exponential(c=1.0), delta=0.01, estimate='mean', design='sequential')
    """

    name: ClassVar[str] = "merit-fair"
    merit: Merit = field(default_factory=Exponential)
    delta: float = 0.01
    estimate: str = "optimistic"
    design: str = "sequential"

    def __post_init__(self) -> None:
        check_merit_function(self.merit)
        object.__setattr__(self, "delta", check_number("delta", self.delta, 0.0, 1.0, open_ends=True))
        check_choice("estimate", self.estimate, ESTIMATES)
        check_choice("design", self.design, DESIGNS)

    def plan(self, view: View) -> Lottery:
        ball = Ball(view.counts, view.episode, self.delta)
        return Lottery(self.merit(benefit(ball.estimate(self.estimate))))  # Eq. (8)

    def rule(self) -> Rule | None:
        merit = self.merit.rule()
        return None if merit is None else Rule(LOTTERY, ESTIMATES.index(self.estimate), self.delta, merit)
