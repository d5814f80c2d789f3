"""Figures 2 to 4: regret against steps on each data set, and against the part of the arms that is pulled (Section 6.3).

The paper shows three sizes for each data set, on linear axes; here are all five of its Table 1, on logarithmic ones,
where how fast a curve grows can be read off. On linear axes they are in `meritfair.reproduction.both_ways`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from meritfair.lab.resampling import above, every, interval_of, ratio, spread, weights
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, outcome_of
from meritfair.reproduction.budgets import BUDGETS, BudgetCurve, budget_curve, draw_budgets
from meritfair.reproduction.figures import add_legend
from meritfair.reproduction.growth import LINEAR, SUBLINEAR, is_linear, is_sublinear
from meritfair.reproduction.panels import USUAL, Panel, draw_panel, fit_heights, growth_rows, make_panel
from meritfair.reproduction.prose import compose
from meritfair.simulation.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from meritfair.lab.spec import Spec
    from meritfair.reproduction.artefact import Findings, Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["FIGURE_2", "FIGURE_3", "FIGURE_4", "RegretFigure"]

_CALM = "cpap:reseed=false"  # whose arms differ least, so the variance of others is compared with it


@dataclass(frozen=True)
class RegretFigure:
    """What is drawn: a panel for each size, and regret by K/N."""

    panels: tuple[Panel, ...]
    budgets: BudgetCurve


def _specs(scale: Scale, dataset: str) -> tuple[Spec, ...]:
    calm = scale.spec(datasets=(_CALM,), sizes=SIZES, policies=("merit-fair",))
    return (
        scale.spec(datasets=(dataset,), sizes=SIZES, policies=("merit-fair", "optimal")),
        scale.spec(datasets=(dataset,), sizes=BUDGETS, policies=("merit-fair",)),
        *((calm,) if dataset != _CALM else ()),
    )


def _analyse(results: Results, scale: Scale, dataset: str, number: int, claimed: float) -> Findings:
    panels = tuple(make_panel(results, scale, dataset, size) for size in SIZES)
    curve = budget_curve(results, scale, dataset, claimed)
    growth = {name: [panel.lines[name].growth for panel in panels] for name in USUAL}
    spreads = _spreads(results, scale, dataset)
    larger = {kind: [above(each, 1.0) for each in found] for kind, found in spreads.items()}
    verdicts = {
        "sublinear": is_sublinear(growth["merit_fair"]),
        "linear": is_linear(growth["optimal"]),
        **({"variance": every(larger["absolute"])} if dataset != _CALM else {}),
        "least": curve.is_near,
        "more": above(curve.most, 1.0),
    }
    return compose(
        "figures-2-to-4",
        scale,
        RegretFigure(panels, curve),
        verdicts=verdicts,
        long_run=verdicts,
        tables={f"figure-{number}-regret": growth_rows(panels), f"figure-{number}-budgets": curve.rows},
        number=number,
        label=DATASETS[dataset],
        growth=growth,
        bars={"sublinear": SUBLINEAR, "linear": LINEAR},
        spreads=spreads,
        larger=larger,
    )


def _spreads(results: Results, scale: Scale, dataset: str) -> dict[str, list[Interval]]:
    """Return, for each size, how many times as much the runs of a data set vary as those of CPAP, whose arms differ less.

    By the standard deviation of the regret (absolute), and by that as a multiple of the mean (relative).
    """
    found: dict[str, list[Interval]] = {"absolute": [], "relative": []}
    for size in SIZES:
        own, calm = (outcome_of(results, scale, each, size).measures["fairness_regret"] for each in (dataset, _CALM))
        first, second = (weights(len(runs), scale.seed, k) for k, runs in enumerate((own, calm)))
        absolute = ratio(spread(own, first), spread(calm, second))
        found["absolute"].append(interval_of(absolute))
        found["relative"].append(interval_of(ratio(absolute, ratio(first @ own, second @ calm))))
    return found


def _draw(numbers: RegretFigure) -> Figure:
    with new_figure(6.4) as figure:
        grid = figure.subplots(2, 3)
        for axes, panel in zip(grid.flat, numbers.panels, strict=False):
            lines, labels = draw_panel(axes, panel)
            axes.set_title(panel.size)
        fit_heights(grid.flat[: len(numbers.panels)], numbers.panels)
        for row in grid:
            row[0].set_ylabel("regret, added up")
        draw_budgets(grid[1, 2], numbers.budgets)
        add_legend(figure, lines, labels)
    return figure


def _artefact(number: int, dataset: str, claimed: float) -> Artefact:
    return Artefact(
        name=f"figure-{number}",
        title=f"Figure {number}: regret on {DATASETS[dataset]}",
        specs=partial(_specs, dataset=dataset),
        analyse=partial(_analyse, dataset=dataset, number=number, claimed=claimed),
        draw=_draw,
    )


FIGURE_2 = _artefact(2, "synthetic", 0.3)
FIGURE_3 = _artefact(3, "synthetic-alternate", 0.3)
FIGURE_4 = _artefact(4, "cpap:reseed=false", 0.5)
