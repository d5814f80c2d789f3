"""Optimal both ways: its regret by the paper's own definition, and the curve that the paper's figures show for it.

By Eq. (3) a policy's regret is the distance of *its* shares from the fair ones. Optimal pulls K arms and no other, so
its share is 1/K for these and 0 for the rest. The authors' code does not use that. While Optimal plays, it forms from
the counts the shares that MF-RMAB would draw with, and adds up their distance. That curve says how well fair shares
could be *estimated* from what a greedy policy sees, which is a question of its own; it is not how unfair the greedy
policy is.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from meritfair.lab.resampling import below, every
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, outcome_of
from meritfair.reproduction.growth import LINEAR, is_linear
from meritfair.reproduction.panels import Panel, draw_grid, growth_rows, make_panel
from meritfair.reproduction.prose import compose
from meritfair.simulation.metrics import ratio_interval
from meritfair.simulation.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from meritfair.lab.spec import Spec
    from meritfair.reproduction.artefact import Findings, Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["OPTIMAL_BOTH_WAYS"]

_AGREE = 0.05  # by how much the two curves may differ and still be the same


def _specs(scale: Scale) -> tuple[Spec, ...]:
    return (scale.spec(datasets=tuple(DATASETS), sizes=SIZES, policies=("merit-fair", "optimal")),)


def _analyse(results: Results, scale: Scale) -> Findings:
    panels = tuple(make_panel(results, scale, *each) for each in product(DATASETS, SIZES))
    drawn, ours = _against_own(results, scale)
    same, less = [_same(each) for each in drawn], [below(each, 1.0) for each in ours]
    growth = [panel.lines["authors"].growth for panel in panels]
    return compose(
        "optimal-both-ways",
        scale,
        panels,
        verdicts={"own": every(same), "linear": is_linear(growth), "less": every(less)},
        long_run=("linear",),
        tables={"optimal-both-ways": growth_rows(panels)},
        drawn=drawn,
        ours=ours,
        same=same,
        less=less,
        growth=growth,
        agree=_AGREE,
        linear=LINEAR,
        unfair=[1 / each.mean for each in drawn if each.mean > 0],
    )


def _against_own(results: Results, scale: Scale) -> tuple[list[Interval], list[Interval]]:
    """Return, for each data set and size, Optimal's regret as drawn and MF-RMAB's, as multiples of Optimal's own."""
    drawn, ours = [], []
    for each in product(DATASETS, SIZES):
        fair, greedy = (outcome_of(results, scale, *each, name).measures for name in ("merit-fair", "optimal"))
        own = greedy["fairness_regret"]
        drawn.append(ratio_interval(greedy["fairness_regret_authors"], own, scale.seed))
        ours.append(ratio_interval(fair["fairness_regret"], own, scale.seed))
    return drawn, ours


def _same(found: Interval) -> bool | None:
    """Return whether a ratio is 1, near enough."""
    if found.low > 1 - _AGREE and found.high < 1 + _AGREE:
        return True
    return False if found.high < 1 - _AGREE or found.low > 1 + _AGREE else None


def _draw(panels: tuple[Panel, ...]) -> Figure:
    with new_figure(6.6) as figure:
        draw_grid(figure, panels, logarithmic=False)
    return figure


OPTIMAL_BOTH_WAYS = Artefact(
    "optimal-both-ways",
    "Optimal both ways: its own regret, and the curve that the paper shows",
    _specs,
    _analyse,
    _draw,
)
