"""What is simulated: the arms of each run, the budget, the length, and what counts as fair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.model.counts import Counts
from meritfair.model.criterion import Confidence, Criterion, plain
from meritfair.model.observation import Observation
from meritfair.model.rules import Budget, Rules


@dataclass(frozen=True, eq=False)
class Problem:
    """What is simulated; everything is checked, and the same for all policies that are compared."""

    transitions: FloatArray  # (runs, N, 2, 2)
    names: tuple[str, ...]
    budgets: Budget  # the same at each step, or one for each of some steps, which repeat
    rules: Rules
    episodes: int
    horizon: int
    carry_states: bool
    criterion: Criterion
    confidence: Confidence
    exposure_regret: bool
    seed: int
    first_run: int = 0
    states: IntArray | None = None  # (runs, N), where arms start; None is at random
    history: Counts | None = None  # (N, 2, 2), what was seen before the first episode
    observed: Observation = 1.0  # the chance that a state is seen, or "pulled"

    @property
    def sees_all(self) -> bool:
        """Whether every state is seen."""
        return self.observed == 1.0

    @property
    def runs(self) -> int:
        """How many independent runs there are."""
        return len(self.transitions)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return int(self.transitions.shape[1])

    @property
    def cycle(self) -> tuple[int, ...]:
        """The budget of each step, again from the start after the last."""
        return (self.budgets,) if isinstance(self.budgets, int) else self.budgets

    @property
    def budget(self) -> int:
        """The budget of a step, the largest if it changes."""
        return max(self.cycle)

    @property
    def mean_budget(self) -> float:
        """The mean budget of a step."""
        return sum(self.cycle) / len(self.cycle)

    @property
    def restricted(self) -> bool:
        """Whether the budget changes, or some arms may not be pulled at some steps."""
        return len(self.cycle) > 1 or bool(self.rules)

    @property
    def integrates(self) -> bool:
        """Whether exposures of sequential draws are found by an integral in each episode."""
        return self.exposure_regret and self.budget > 1

    def settings(self) -> dict[str, Any]:
        """Return everything but the transition probabilities and the seed as plain values."""
        return {
            "names": list(self.names),
            "budget": self.budgets if isinstance(self.budgets, int) else list(self.budgets),
            "rules": self.rules.settings() if self.rules else None,
            "episodes": self.episodes,
            "horizon": self.horizon,
            "carry_states": self.carry_states,
            "observed": self.observed,
            **self.criterion.settings(),
            **plain(self.confidence),
            "first_run": self.first_run,
            **{name: "given" for name in ("states", "history") if vars(self)[name] is not None},
        }
