"""One round: who is pulled by a plan among those who are available, and with which chance each was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meritfair.core.errors import InputError
from meritfair.policies.by_name import UNKNOWN
from meritfair.policies.plans import PriorityTable, StepLearner

if TYPE_CHECKING:
    from meritfair.core.arrays import BoolArray, FloatArray, IntArray
    from meritfair.policies.plans import AnyPlan
    from meritfair.policies.rows import Rows

__all__ = ["Situation"]


@dataclass(frozen=True)
class Situation:
    """The arms in a round, and what is drawn by."""

    policy: str  # its name, for messages
    names: tuple[str, ...]
    rows: Rows  # what a step learner remembers in them changes
    states: IntArray  # -1 where it is not known
    available: BoolArray
    step: int  # rounds before this one
    luck: np.random.Generator

    def draw(self, plan: AnyPlan, budget: int) -> tuple[FloatArray, BoolArray]:
        """Return the chances of all arms, and who of them is pulled."""
        exposure, pulled = np.zeros(len(self.names)), np.zeros(len(self.names), np.bool_)
        most = min(budget, int(self.available.sum()))
        if most > 0:
            exposure[self.available], pulled[self.available] = self._draw(plan, most)
        elif isinstance(plan, StepLearner):
            self._ranking(plan, self.rows.remembered(plan.memory), False)  # notes who was pulled before
        return exposure, pulled

    def _draw(self, plan: AnyPlan, budget: int) -> tuple[FloatArray, BoolArray]:
        """Return the chances of the available arms and who of them is pulled."""
        if isinstance(plan, StepLearner):
            return self._draw_by_rank(plan, budget)
        if isinstance(plan, PriorityTable) and plan.looks_at_states:
            self._check_known()
        here = plan.at(self.states, self.rows.turn).among(self.available, budget)
        return here.chances(budget), here.draw(budget, self.luck)

    def _draw_by_rank(self, plan: StepLearner, budget: int) -> tuple[FloatArray, BoolArray]:
        self._check_known()
        memory = self.rows.remembered(plan.memory)
        chance = 0.0 if plan.explore is None else float(np.clip(plan.explore(memory, self.step), 0.0, 1.0))
        exploring = bool(self.luck.random() < chance)
        before = memory.copy()
        here = self._ranking(plan, memory, exploring).among(self.available, budget)
        exposure, pulled = here.chances(budget), here.draw(budget, self.luck)
        other = (1 - chance) if exploring else chance
        if other > 0:
            exposure *= 1 - other
            there = self._ranking(plan, before, not exploring).among(self.available, budget)
            exposure += other * there.chances(budget)
        return exposure, pulled

    def _ranking(self, plan: StepLearner, memory: FloatArray, exploring: bool) -> PriorityTable:
        index = np.full(len(self.names), np.nan)
        known = np.maximum(self.states, 0)  # of those who are not available
        plan.rank(memory, known, self.rows.pulled, self.step, exploring, index)
        missing = np.flatnonzero(np.isnan(index))
        if len(missing):
            raise InputError(f"rank must set a number for each arm, got nan for {self.names[missing[0]]!r}")
        return PriorityTable.of(index)

    def _check_known(self) -> None:
        missing = np.flatnonzero((self.states == UNKNOWN) & self.available)
        if len(missing):
            raise InputError(
                f"the policy {self.policy} looks at states: that of {self.names[missing[0]]!r} must be known"
            )
