"""Policies that look at the true arms, as they can be used: nobody knows these, so they get the estimated ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.model.criterion import Confidence, Criterion
from meritfair.policies.base import Policy
from meritfair.policies.plans import Plan
from meritfair.policies.view import View


def as_known(policy: Policy, transitions: FloatArray) -> Policy:
    """Return a policy that takes these arms for the true ones, if it looks at them; others as they are."""
    return WithEstimates(policy, transitions) if policy.oracle else policy


@dataclass(frozen=True, eq=False)
class WithEstimates(Policy):
    """A policy that looks at the true arms, and is shown estimated ones instead; they stay as they are."""

    policy: Policy
    transitions: FloatArray
    name = "with-estimates"

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans_once", self.policy.plans_once)
        object.__setattr__(self, "spends_budget", self.policy.spends_budget)

    @property
    def criterion(self) -> Criterion | None:
        return self.policy.criterion

    @property
    def confidence(self) -> Confidence | None:
        return self.policy.confidence

    def plan(self, view: View) -> Plan:
        shown = np.broadcast_to(self.transitions, view.true_transitions.shape)
        return self.policy.plan(replace(view, true_transitions=shown))

    def settings(self) -> dict[str, Any]:
        return self.policy.settings()
