"""The fair policy of someone who knows the arms: what every learner is measured against (Eq. 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from meritfair.model.benefit import benefit
from meritfair.model.merit import Exponential, Merit
from meritfair.policies.base import Policy, check_merit_function
from meritfair.policies.plans import Lottery

if TYPE_CHECKING:
    from meritfair.policies.base import View

__all__ = ["FairOracle"]


@dataclass(frozen=True)
class FairOracle(Policy):
    """Knows the true arms, and draws in proportion to their true merit.

    Parameters
    ----------
    merit : Merit
        How benefit becomes merit; the paper's is Exponential(3).
    """

    name: ClassVar[str] = "fair-oracle"
    constant: ClassVar[bool] = True
    merit: Merit = field(default_factory=Exponential)

    def __post_init__(self) -> None:
        check_merit_function(self.merit)

    def plan(self, view: View) -> Lottery:
        return Lottery(self.merit(benefit(view.true_transitions)))  # pi* of Eq. (2)
