"""Policies that learn nothing: baselines for those that do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery, PriorityTable, Rotation
from meritfair.policies.view import View


@dataclass(frozen=True)
class Random(Policy):
    """Pulls K arms at random, all alike.

    Examples
    --------
    >>> Random().start(n_arms=4, budget=1, seed=1).choose().exposure
    array([0.25, 0.25, 0.25, 0.25])
    """

    name: ClassVar[str] = "random"
    plans_once = True

    def plan(self, view: View) -> Lottery:
        return Lottery(np.ones(view.counts.visits.shape[:-2]))


@dataclass(frozen=True)
class RoundRobin(Policy):
    """Pulls K arms after K arms in turn; who comes first is drawn at the start.

    Examples
    --------
    >>> learner = RoundRobin().start(n_arms=3, budget=1, seed=1)
    >>> print(*(learner.choose().names[0] for _ in range(6)))
    arm-1 arm-3 arm-2 arm-1 arm-3 arm-2
    """

    name: ClassVar[str] = "round-robin"
    plans_once = True

    def plan(self, view: View) -> Rotation:
        return Rotation(view.n_arms)


@dataclass(frozen=True)
class NoAction(Policy):
    """Never pulls: what happens if nobody is reached.

    Examples
    --------
    >>> NoAction().start(n_arms=3, budget=1, seed=1).choose().actions
    array([0, 0, 0])
    """

    name: ClassVar[str] = "none"
    plans_once = True
    spends_budget = False

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(np.full(view.counts.visits.shape[:-1], -np.inf))
