"""Regret against the part K/N of the arms that is pulled at each step: where it is least, and how sure that is.

More pulls show more of what pulling does and less of what not pulling does, so regret has a least somewhere between.
Which K has the least mean over runs is partly luck. How sure it is, is measured by drawing the runs of each K again:
the part of resamples in which that K is the least. Runs of different K are taken as independent; as the authors number
their instances by N K r, some of two K are the same arms, which makes this a little too careful. The paper says
"around" a ratio; taken here as within 0.1 of it, a claim holds if 95 % of resamples agree, does not if 95 % disagree,
and cannot be told between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meritfair.lab.resampling import above, interval_columns, interval_of, percent, ratio, shown, weights
from meritfair.reproduction.artefact import PaperTable, Verdict
from meritfair.reproduction.figures import COLORS
from meritfair.reproduction.panels import outcome_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from meritfair.core.arrays import FloatArray
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["BUDGETS", "BudgetCurve", "budget_curve", "budget_table", "budget_verdicts", "draw_budgets"]

N_ARMS = 10
BUDGETS = tuple((N_ARMS, budget) for budget in range(1, N_ARMS))
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


def budget_verdicts(curve: BudgetCurve, where: str) -> tuple[Verdict, ...]:
    """Return what the curve says of the paper's two claims."""
    near = curve.chance_near
    holds = None if np.isnan(near) else True if near >= _SURE else False if near <= 1 - _SURE else None
    at = f"The least mean regret is at K/N = {curve.least:g}"
    sure = "" if np.isnan(near) else f"; {_places(curve)}, within {_NEAR:g} of the paper's in {percent(near)}"
    theirs, last = f"K/N = {curve.claimed:g}", f"{curve.ratios[-1]:g}"
    return (
        Verdict(f"Regret is least around {theirs}.", where, holds, f"{at}{sure}."),
        Verdict(
            "Increasing K does not necessarily help, and can end up increasing the regret.",
            where,
            above(curve.most, 1.0),
            f"At K/N = {last} the regret is {shown(curve.most)} times that at {theirs}.",
        ),
    )


def _places(curve: BudgetCurve) -> str:
    """Return how often each K/N is the least, most often first; rare ones are left out."""
    order = [k for k in np.argsort(-curve.chance, kind="stable") if curve.chance[k] >= 0.01]
    first = ", ".join(f"{curve.ratios[k]:g} in {percent(curve.chance[k])}" for k in order)
    return f"when runs are drawn again it is at {first} of resamples"


def budget_table(name: str, title: str, curve: BudgetCurve) -> PaperTable:
    """Return regret and the chance of being the least, a row for each K."""
    rows = zip(curve.ratios, curve.regret, curve.chance, strict=True)
    cells = [[f"{part:g}", shown(found, 0), percent(chance)] for part, found, chance in rows]
    columns = {
        "budget_over_arms": [float(each) for each in curve.ratios],
        **interval_columns("regret", curve.regret),
        "chance_least": [float(each) for each in curve.chance],
    }
    return PaperTable(name, title, ["K/N", "MF-RMAB: regret", "is the least in"], cells, columns)


def draw_budgets(axes: Axes, curve: BudgetCurve) -> None:
    """Draw means with their intervals, the least one filled, and a line where the paper has it."""
    means, lows, highs = np.array(curve.regret).T
    color = COLORS["merit-fair"]
    axes.axvline(curve.claimed, color="#999999", linestyle=":", linewidth=1.4)
    axes.vlines(curve.ratios, lows, highs, color=color, linewidth=1.4)
    axes.plot(curve.ratios, means, color=color, marker="o", markersize=5, markerfacecolor="white")
    axes.plot(curve.least, means.min(), "o", color=color, markersize=6)
    axes.set(title=f"Regret by K/N, N = {N_ARMS}", xlabel="K/N", ylabel="regret at the end", ylim=(0, None))
    axes.set_xticks(curve.ratios[::2])
    axes.yaxis.set_major_formatter("{x:,.0f}")
