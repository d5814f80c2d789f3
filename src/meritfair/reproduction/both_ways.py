"""Optimal both ways: its regret by the paper's own definition, and the curve that the paper's figures show for it.

By Eq. (3) a policy's regret is the distance of *its* shares from the fair ones. Optimal pulls K arms and no other, so
its share is 1/K for these and 0 for the rest. The authors' code does not use that. While Optimal plays, it forms from
the counts the shares that MF-RMAB would draw with, and adds up their distance. That curve says how well fair shares
could be *estimated* from what a greedy policy sees, which is a question of its own; it is not how unfair the greedy
policy is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meritfair.core.figures import new_figure
from meritfair.lab.resampling import below, every, percent, span, tally
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, Verdict
from meritfair.reproduction.growth import LINEAR, is_linear
from meritfair.reproduction.panels import (
    Panel,
    add_remark,
    draw_grid,
    growth_table,
    make_panel,
    outcome_of,
    remark,
    unless_short,
)
from meritfair.simulation.metrics import ratio_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from meritfair.lab.spec import Spec
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["OPTIMAL_BOTH_WAYS", "WaysFigure"]

_WHERE = "Section 6.3, Figures 2 to 4"
_AGREE = 0.05  # by how much the two curves may differ and still be the same


@dataclass(frozen=True)
class WaysFigure:
    """What is drawn: a panel for each data set and size, and a remark."""

    panels: tuple[Panel, ...]
    remark: str


def _specs(scale: Scale) -> tuple[Spec, ...]:
    return (scale.spec(datasets=tuple(DATASETS), sizes=SIZES, policies=("merit-fair", "optimal")),)


def _analyse(results: Results, scale: Scale) -> Findings:
    panels = tuple(make_panel(results, scale, dataset, size) for dataset in DATASETS for size in SIZES)
    drawn, ours = _against_own(results, scale)
    growth = [panel.lines["authors"].growth for panel in panels]
    gap = _times(drawn)
    return Findings(
        numbers=WaysFigure(panels, remark(scale, "All data sets", more="")),
        caption=(
            "Fairness regret added up over episodes, on linear axes as in the paper. Dashed: Optimal's own, by the "
            "definition. Dotted: the curve that the paper's figures have for Optimal, made from the shares that "
            "MF-RMAB would form from what Optimal has seen. Lines are means of the runs, bands the middle 80 % of "
            "runs."
        ),
        tables=(growth_table("optimal-both-ways", f"Regret after {scale.episodes:,} episodes, both ways", panels),),
        verdicts=(
            Verdict(
                "The curves of Optimal show its fairness regret.",
                _WHERE,
                every(_same(each) for each in drawn),
                f"As the paper drew it, Optimal's regret is {span(each.mean for each in drawn)} times what it is by "
                f"the definition; it is the same within {percent(_AGREE)} {tally(_same(each) for each in drawn)}.",
            ),
            *unless_short([_linear(growth)], scale),
            Verdict(
                "MF-RMAB has less regret than Optimal.",
                _WHERE,
                every(below(each, 1.0) for each in ours),
                f"It has {span(each.mean for each in ours)} times the regret that Optimal has by the definition; less "
                f"{tally(below(each, 1.0) for each in ours)}.",
            ),
        ),
        headline=f"Optimal is {gap} times as unfair as the paper's figures show it.",
    )


def _linear(growth: Sequence[Interval]) -> Verdict:
    return Verdict(
        "The curves of Optimal, as the paper drew them, are linear.",
        _WHERE,
        is_linear(growth),
        f"Exponents {span(each.mean for each in growth)}, intervals from "
        f"{span(end for each in growth for end in each[1:])}; above {LINEAR:g} is linear.",
    )


def _against_own(results: Results, scale: Scale) -> tuple[list[Interval], list[Interval]]:
    """Return, for each data set and size, Optimal's regret as drawn and MF-RMAB's, in parts of Optimal's own."""
    drawn, ours = [], []
    for dataset in DATASETS:
        for size in SIZES:
            fair, greedy = (
                outcome_of(results, scale, dataset, size, each).measures for each in ("merit-fair", "optimal")
            )
            own = greedy["fairness_regret"]
            drawn.append(ratio_interval(greedy["fairness_regret_authors"], own, scale.seed))
            ours.append(ratio_interval(fair["fairness_regret"], own, scale.seed))
    return drawn, ours


def _same(found: Interval) -> bool | None:
    """Return whether a ratio is 1, near enough."""
    if found.low > 1 - _AGREE and found.high < 1 + _AGREE:
        return True
    return False if found.high < 1 - _AGREE or found.low > 1 + _AGREE else None


def _times(drawn: list[Interval]) -> str:
    return span((1 / each.mean for each in drawn if each.mean > 0), 1)


def _draw(numbers: WaysFigure) -> Figure:
    with new_figure(6.6) as figure:
        draw_grid(figure, numbers.panels, logarithmic=False)
        add_remark(figure, numbers.remark)
    return figure


OPTIMAL_BOTH_WAYS = Artefact(
    name="optimal-both-ways",
    title="Optimal both ways: its own regret, and the curve that the paper shows",
    about=(
        "The paper compares MF-RMAB with a policy that always pulls the K arms with the largest estimated benefit. "
        "The curves of regret that it shows for that policy are not of the policy's own shares, but of those that "
        "MF-RMAB would form from what the policy has seen. Such a curve tells whether fair shares could be learned "
        "from what a greedy policy sees, not how unfair that policy is. Here are both, for all data sets and sizes of "
        "the paper."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
