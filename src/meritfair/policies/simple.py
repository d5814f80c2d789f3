"""Policies that learn nothing: yardsticks for those that do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery, PriorityTable, Rotation

if TYPE_CHECKING:
    from meritfair.policies.base import View

__all__ = ["NoAction", "Random", "RoundRobin"]


@dataclass(frozen=True)
class Random(Policy):
    """Pulls K arms at random, all alike."""

    name: ClassVar[str] = "random"
    constant = True

    def plan(self, view: View) -> Lottery:
        return Lottery(np.ones(view.counts.visits.shape[:-2]))


@dataclass(frozen=True)
class RoundRobin(Policy):
    """Pulls K arms after K arms in turn; who comes first is drawn at the start."""

    name: ClassVar[str] = "round-robin"
    constant = True

    def plan(self, view: View) -> Rotation:
        return Rotation(view.n_arms)


@dataclass(frozen=True)
class NoAction(Policy):
    """Never pulls: what happens if nobody is reached."""

    name: ClassVar[str] = "none"
    constant = True
    spends_budget = False

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(np.full(view.counts.visits.shape[:-1], -np.inf))
