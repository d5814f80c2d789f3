"""The fair policy of someone who knows the arms: what every learner is measured against (Eq. 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from meritfair.model.benefit import benefit
from meritfair.model.criterion import Bound, Criterion
from meritfair.model.merit import Exponential, Merit
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery
from meritfair.policies.timed import TimedLottery, slack_setting
from meritfair.policies.view import View


@dataclass(frozen=True)
class FairOracle(Policy):
    """Knows the true arms, and draws in proportion to their true merit.

    Parameters
    ----------
    merit : Merit
        How benefit becomes merit; the paper's is Exponential(3).
    design : {"sequential", "exact", "systematic"}
        How K arms are drawn.
    floor, cap : float or sequence of float
        The least and the most exposure of each arm, for designs other than ``sequential``.
    slack : float
        How far an arm may be ahead of what it is due, or behind, in pulls, as for `MeritFair`.

    Examples
    --------
    Three arms whose benefits are 0.57, 0.1 and 0.125.

    >>> arms = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]], [[0.1, 0.2], [0.3, 0.4]]]
    >>> FairOracle(merit=Exponential(3.0)).start(budget=1, transitions=arms).choose().exposure.round(3)
    array([0.664, 0.162, 0.174])
    >>> FairOracle(merit=Exponential(1.0)).start(budget=1, transitions=arms).choose().exposure.round(3)
    array([0.442, 0.276, 0.283])

    Fair over time: a pull helps the first arm in its bad state, and so it is ahead of what it is due after a round.

    >>> arms = [[[0.1, 0.9], [0.9, 0.9]], [[0.5, 0.6], [0.5, 0.6]]]
    >>> choice = FairOracle(design="exact", slack=0.2).start(budget=1, transitions=arms).choose(states=[0, 1])
    >>> choice.due.round(2), choice.exposure.round(2), choice.account.round(2)
    (array([0.71, 0.29]), array([0.91, 0.09]), array([-0.2,  0.2]))
    """

    name: ClassVar[str] = "fair-oracle"
    adopts: ClassVar[tuple[str, ...]] = ("merit", "design", "floor", "cap")
    plans_once = True
    oracle = True
    merit: Merit = field(default_factory=Exponential)
    design: str = "sequential"
    floor: Bound = 0.0
    cap: Bound = 1.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "floor", self.criterion.floor)
        object.__setattr__(self, "cap", self.criterion.cap)
        object.__setattr__(self, "slack", slack_setting(self.slack, self.design))

    @property
    def criterion(self) -> Criterion:
        return Criterion(self.merit, self.design, self.floor, self.cap)

    def plan(self, view: View) -> Lottery | TimedLottery:
        arms = view.true_transitions
        lottery = Lottery(self.merit(benefit(arms)), self.design, self.floor, self.cap)  # pi* of Eq. (2)
        return lottery if self.slack == 0 else TimedLottery(lottery, arms, self.slack)
