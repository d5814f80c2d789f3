"""The paper's baseline: always the K arms with the largest estimated benefit (Section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from meritfair.core.checks import check_choice
from meritfair.engine.rules import EXPONENTIAL, GREEDY, SEQUENTIAL, MeritRule, Rule
from meritfair.model.benefit import benefit
from meritfair.model.confidence import ESTIMATES
from meritfair.policies.base import Estimator
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import View


@dataclass(frozen=True)
class Optimal(Estimator):
    """The paper's baseline: pull the K arms with the largest estimated benefit.

    The name is the paper's. The policy is greedy, not optimal for reward: it ignores states. Ties are broken at random;
    the authors' code breaks them by the position of the arms, which matters as long as all estimates are level. Its
    regret as they count it is then another: their code gave 280.5 on an instance of Synthetic where ours gave 262.5.
    On all 30 with N = 5, K = 1 and T = 1,000 the mean is 547 with ties at random and 555 with ties by position.

    Parameters
    ----------
    delta : float
        Probability that the confidence ball misses the truth, strictly between 0 and 1.
    estimate : {"optimistic", "pessimistic", "mean", "pooled", "thompson"}
        Which point of the ball is used; the paper's is the optimistic corner.
    ball : {"paper", "bernstein", "kl"}
        How the ball is measured; the last two are tighter.

    Examples
    --------
    >>> import numpy as np
    >>> from meritfair import Counts
    >>> good = [[[20, 60], [50, 90]], [[30, 30], [70, 80]], [[10, 20], [30, 40]]]
    >>> view = View(Counts(np.full((3, 2, 2), 100), good), 1, 1, np.full((3, 2, 2), np.nan))
    >>> Optimal(estimate="mean").plan(view).exposure(1)
    array([1., 0., 0.])
    """

    name: ClassVar[str] = "optimal"
    adopts: ClassVar[tuple[str, ...]] = ("ball", "delta")
    delta: float = 0.01
    estimate: str = "optimistic"
    ball: str = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("estimate", self.estimate, ESTIMATES)

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable.of(benefit(view.estimated_transitions(self.estimate, self.delta, self.ball)))

    def rule(self) -> Rule:
        estimate, no_merit = ESTIMATES.index(self.estimate), MeritRule(EXPONENTIAL, 0.0, 0.0)
        return Rule(GREEDY, estimate, SEQUENTIAL, self.confidence.rule(), no_merit)
