"""Regret against the part K/N of the arms that is pulled at each step: where it is least, and how sure that is.

More pulls show more of what pulling does and less of what not pulling does, so regret has a least somewhere between.
Which K has the least mean over runs is partly chance. How sure it is, is measured by resampling the runs of each K:
the part of resamples in which that K is the least. Runs of different K are taken as independent; as the authors number
their instances by N K r, some of two K are the same arms, which makes this a little too careful. The paper says
"around" a ratio; taken here as within 0.1 of it, a claim holds if 95 % of resamples agree, does not if 95 % disagree,
and is inconclusive between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meritfair.lab.resampling import interval_of, ratio, weights
from meritfair.reproduction.artefact import outcome_of
from meritfair.reproduction.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from meritfair.core.arrays import FloatArray
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.reproduction.prose import Rows
    from meritfair.simulation.metrics import Interval

__all__ = ["BUDGETS", "BudgetCurve", "budget_curve", "draw_budgets"]

_N_ARMS = 10
BUDGETS = tuple((_N_ARMS, budget) for budget in range(1, _N_ARMS))
_NEAR = 0.1
_SURE = 0.95


@dataclass(frozen=True)
class BudgetCurve:
    """Regret of MF-RMAB for K = 1, 2, …, N - 1.

    ``regret`` has an interval for each K; ``chance`` is the part of resamples in which it is the least, NaN for a
    single run; ``most`` is the regret of the largest K in parts of that at the paper's K.
    """

    ratios: FloatArray
    regret: tuple[Interval, ...]
    chance: FloatArray
    claimed: float
    most: Interval

    @property
    def least(self) -> float:
        """K/N of the least mean."""
        return float(self.ratios[np.argmin([each.mean for each in self.regret])])

    @property
    def chance_near(self) -> float:
        """The part of resamples whose least is near where the paper has it."""
        return float(self.chance[np.abs(self.ratios - self.claimed) < _NEAR + 1e-9].sum())

    @property
    def is_near(self) -> bool | None:
        """Whether regret is least near where the paper has it."""
        near = self.chance_near
        return True if near >= _SURE else False if near <= 1 - _SURE else None

    @property
    def rows(self) -> Rows:
        """Regret and the chance of being the least, a row for each K."""
        each = zip(self.ratios.tolist(), self.regret, self.chance.tolist(), strict=True)
        return [{"budget_over_arms": part, "regret": found, "chance_least": chance} for part, found, chance in each]


def budget_curve(results: Results, scale: Scale, dataset: str, claimed: float) -> BudgetCurve:
    """Return what the panel shows; `claimed` is K/N of the least regret as the paper has it."""
    runs = [outcome_of(results, scale, dataset, size).measures["fairness_regret"] for size in BUDGETS]
    means = np.stack([weights(len(each), scale.seed, k) @ each for k, each in enumerate(runs)])
    ratios = np.array([budget / n_arms for n_arms, budget in BUDGETS])
    least = means[:, 1:].argmin(axis=0)
    chance = np.bincount(least, minlength=len(BUDGETS)) / (len(least) or np.nan)
    theirs = int(np.argmin(np.abs(ratios - claimed)))
    most = interval_of(ratio(means[-1], means[theirs]))
    return BudgetCurve(ratios, tuple(interval_of(each) for each in means), chance, claimed, most)


def draw_budgets(axes: Axes, curve: BudgetCurve) -> None:
    """Draw means with their intervals, the least one filled, and a line where the paper has it."""
    means, lows, highs = np.array(curve.regret).T
    color = COLORS["merit-fair"]
    axes.axvline(curve.claimed, color="#999999", linestyle=":", linewidth=1.4)
    axes.vlines(curve.ratios, lows, highs, color=color, linewidth=1.4)
    axes.plot(curve.ratios, means, color=color, marker="o", markersize=5, markerfacecolor="white")
    axes.plot(curve.least, means.min(), "o", color=color, markersize=6)
    axes.set(title=f"Regret by K/N, N = {_N_ARMS}", xlabel="K/N", ylabel="regret at the end", ylim=(0, None))
    axes.set_xticks(curve.ratios[::2])
    axes.yaxis.set_major_formatter("{x:,.0f}")
