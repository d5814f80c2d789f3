"""A policy that always has the same plan."""

from __future__ import annotations

from typing import Any

from meritfair.policies.base import Policy
from meritfair.policies.plans import Plan
from meritfair.policies.view import View


class Planned(Policy):
    """One plan, made once for all episodes or again for each."""

    name = "planned"

    def __init__(self, plan: Plan, once: bool) -> None:
        self._plan, self.plans_once = plan, once

    def plan(self, view: View) -> Plan:
        return self._plan

    def settings(self) -> dict[str, Any]:
        return {}
