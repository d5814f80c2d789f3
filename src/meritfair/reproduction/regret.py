"""Figures 2 to 4: regret against steps on each data set, and against the part of the arms that is pulled (Section 6.3).

The paper shows three sizes for each data set, on linear axes; here are all five of its Table 1, on logarithmic ones,
where how fast a curve grows can be read off. On linear axes they are in `meritfair.reproduction.both_ways`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from meritfair.core.figures import new_figure
from meritfair.lab.resampling import above, every, interval_of, ratio, shown, span, spread, tally, weights
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, Verdict
from meritfair.reproduction.budgets import (
    BUDGETS,
    BudgetCurve,
    budget_curve,
    budget_table,
    budget_verdicts,
    draw_budgets,
)
from meritfair.reproduction.growth import LINEAR, SUBLINEAR, is_linear, is_sublinear
from meritfair.reproduction.panels import (
    EXPONENTS,
    USUAL,
    Panel,
    add_legend,
    add_remark,
    draw_panel,
    fit_heights,
    growth_table,
    make_panel,
    outcome_of,
    remark,
    unless_short,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure

    from meritfair.lab.spec import Spec
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["FIGURE_2", "FIGURE_3", "FIGURE_4", "RegretFigure"]

_CALM = "cpap:reseed=false"  # whose arms differ least, so the variance of others is held against it
_ABOUT = """\
An episode's fairness regret is how far the shares with which arms are drawn are from those that their true merit
entitles them to: 0 if they are the same, 2 at most. Added up over episodes it says how unfair a policy has been so far.
A policy that learns to be fair adds less and less, and its curve flattens out: it is sublinear. One that never learns
it adds as much in every episode: it is linear. MF-RMAB draws arms in proportion to estimated merit; "Optimal", the
paper's baseline, always pulls the K arms with the largest estimated benefit. Played on the authors' own instances of
{label}, for five sizes, and for N = 10
arms with every K from 1 to 9."""


@dataclass(frozen=True)
class RegretFigure:
    """What is drawn: a panel for each size, regret by K/N, and a remark."""

    panels: tuple[Panel, ...]
    budgets: BudgetCurve
    remark: str


def _specs(scale: Scale, dataset: str) -> tuple[Spec, ...]:
    calm = scale.spec(datasets=(_CALM,), sizes=SIZES, policies=("merit-fair",))
    return (
        scale.spec(datasets=(dataset,), sizes=SIZES, policies=("merit-fair", "optimal")),
        scale.spec(datasets=(dataset,), sizes=BUDGETS, policies=("merit-fair",)),
        *((calm,) if dataset != _CALM else ()),
    )


def _analyse(results: Results, scale: Scale, dataset: str, number: int, claimed: float) -> Findings:
    label, where = DATASETS[dataset], f"Section 6.3, Figure {number}"
    panels = tuple(make_panel(results, scale, dataset, size) for size in SIZES)
    curve = budget_curve(results, scale, dataset, claimed)
    variance = (_variance_verdict(results, scale, dataset, where),) if dataset != _CALM else ()
    verdicts = (*growth_verdicts(panels, where), *variance, *budget_verdicts(curve, where))
    names = f"figure-{number}-regret", f"figure-{number}-budgets"
    return Findings(
        numbers=RegretFigure(panels, curve, remark(scale, label, more=f"{EXPONENTS} By K/N: 95 % intervals.")),
        caption=_caption(panels, curve, label),
        tables=(
            growth_table(names[0], f"Regret after {scale.episodes:,} episodes, and how it grows, on {label}", panels),
            budget_table(names[1], f"Regret by K/N on {label}, N = 10", curve),
        ),
        verdicts=unless_short(verdicts, scale),
        headline=_headline(panels, label),
    )


def growth_verdicts(panels: Iterable[Panel], where: str) -> tuple[Verdict, ...]:
    """Return whether MF-RMAB's regret is sublinear and Optimal's linear, by the definition and as the paper drew it."""
    found = {name: [panel.lines[name].growth for panel in panels] for name in USUAL}
    ours, own, drawn = (found[name] for name in USUAL)
    return (
        Verdict(
            "MF-RMAB has sublinear regret.",
            where,
            is_sublinear(ours),
            f"Exponents {_exponents(ours)}, below {SUBLINEAR:g} is sublinear.",
        ),
        Verdict(
            "Optimal does not learn a fair policy and has linear regret.",
            where,
            is_linear(own),
            f"Exponents {_exponents(own)} by the definition, above {LINEAR:g} is linear; as the paper drew it "
            f"{_exponents(drawn)}.",
        ),
    )


def _exponents(found: Iterable[Interval]) -> str:
    """Return several exponents as text: from the least to the largest, and how far their intervals reach."""
    known = list(found)
    means, ends = span(each.mean for each in known), span(end for each in known for end in each[1:])
    return means if ends in ("–", means) else f"{means} (intervals from {ends})"


def _variance_verdict(results: Results, scale: Scale, dataset: str, where: str) -> Verdict:
    """Return whether the runs of a data set vary more than those of CPAP, whose arms differ less."""
    found = []
    for size in SIZES:
        own, calm = (outcome_of(results, scale, each, size).measures["fairness_regret"] for each in (dataset, _CALM))
        first, second = (weights(len(runs), scale.seed, k) for k, runs in enumerate((own, calm)))
        absolute = ratio(spread(own, first), spread(calm, second))
        relative = ratio(absolute, ratio(first @ own, second @ calm))
        found.append((interval_of(absolute), interval_of(relative)))
    answers = [above(each, 1.0) for each, _ in found]
    return Verdict(
        "The variance of the transition probabilities is large, and so is that of the regret (taken as: larger than on "
        "CPAP).",
        where,
        every(answers),
        f"The standard deviation of MF-RMAB's regret over runs is {span((each.mean for each, _ in found), 1)} times "
        f"that on CPAP (larger {tally(answers)}); in parts of the mean regret it is "
        f"{span((each.mean for _, each in found), 1)} times that (larger "
        f"{tally(above(each, 1.0) for _, each in found)}).",
    )


def _caption(panels: tuple[Panel, ...], curve: BudgetCurve, label: str) -> str:
    first = panels[0].lines["merit_fair"].regret
    return (
        f"Fairness regret on {label}, added up over episodes, against steps, on logarithmic axes: there a straight "
        "line of slope 1 is linear growth, and a flatter one sublinear. The numbers at the upper left are the "
        "exponents by which the means grow over the last nine tenths of the run. Lines are means of the runs, bands "
        f"the middle 80 % of runs. MF-RMAB ends at {shown(first, 0)} for N = {panels[0].n_arms}, K = "
        f"{panels[0].budget}. Last panel: MF-RMAB's regret at the end by K/N, means with 95 % intervals; the filled "
        f"point is the least, the dotted line is where the paper has it, {curve.claimed:g}."
    )


def _headline(panels: tuple[Panel, ...], label: str) -> str:
    ours, theirs = (panels[0].lines[name].growth for name in ("merit_fair", "optimal"))
    return f"On {label} (N = 5, K = 1), MF-RMAB's regret grows as T^{shown(ours)}, Optimal's as T^{shown(theirs)}."


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
        add_remark(figure, numbers.remark)
    return figure


def _artefact(number: int, dataset: str, claimed: float) -> Artefact:
    return Artefact(
        name=f"figure-{number}",
        title=f"Figure {number}: regret on {DATASETS[dataset]}",
        about=_ABOUT.format(label=DATASETS[dataset]).replace("\n", " "),
        specs=partial(_specs, dataset=dataset),
        analyse=partial(_analyse, dataset=dataset, number=number, claimed=claimed),
        draw=_draw,
    )


FIGURE_2 = _artefact(2, "synthetic", 0.3)
FIGURE_3 = _artefact(3, "synthetic-alternate", 0.3)
FIGURE_4 = _artefact(4, "cpap:reseed=false", 0.5)
