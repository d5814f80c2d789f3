r"""Regret against steps, a panel for each data set and size: what several figures of the paper share.

A panel has curves of `CURVES_SHOWN`, usually three. Two are by the definition, Eq. (3): the regret of the shares with
which MF-RMAB draws arms, and with which Optimal pulls them (1/K for its K arms, 0 for all others). The third is what
the paper has drawn for Optimal: the regret of the shares that MF-RMAB *would* form from what Optimal has seen. Axes of
panels are logarithmic where growth matters: there :math:`T^\alpha` is a straight line with slope :math:`\alpha`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from meritfair.reproduction.artefact import DATASETS, outcome_of
from meritfair.reproduction.figures import COLORS, Band, add_legend, band, draw_band, label_steps
from meritfair.reproduction.growth import exponent
from meritfair.simulation.metrics import interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.reproduction.prose import Rows
    from meritfair.simulation.metrics import Interval

__all__ = [
    "CURVES_SHOWN",
    "USUAL",
    "Line",
    "Panel",
    "draw_grid",
    "draw_panel",
    "fit_heights",
    "growth_rows",
    "make_panel",
]

_DECADES = 1000  # logarithmic axes begin at this part of the run


class _Shown(NamedTuple):
    label: str
    policy: str
    curve: str
    style: dict[str, Any]
    c: int | None = None  # of the merit, if it is not that of the panel


CURVES_SHOWN = {
    "merit_fair": _Shown("MF-RMAB", "merit-fair", "fairness_regret", {"color": COLORS["merit-fair"]}),
    "optimal": _Shown("Optimal", "optimal", "fairness_regret", {"color": COLORS["optimal"], "linestyle": "--"}),
    "authors": _Shown(
        "Optimal, as the paper drew it",
        "optimal",
        "fairness_regret_authors",
        {"color": COLORS["mean"], "linestyle": ":", "linewidth": 2.2},
    ),
    "reference": _Shown(
        "MF-RMAB with c = 3",
        "merit-fair",
        "fairness_regret",
        {"color": "#777777", "linestyle": "-.", "linewidth": 1.2},
        c=3,
    ),
}
USUAL = ("merit_fair", "optimal", "authors")


@dataclass(frozen=True)
class Line:
    """A curve, its last value as a mean over runs, and its exponent."""

    label: str
    band: Band
    regret: Interval
    growth: Interval


@dataclass(frozen=True)
class Panel:
    """The curves of one data set and size, by their names in `CURVES_SHOWN`."""

    dataset: str
    n_arms: int
    budget: int
    lines: dict[str, Line]

    @property
    def size(self) -> str:
        """N and K as a title."""
        return f"N = {self.n_arms}, K = {self.budget}"


def make_panel(
    results: Results,
    scale: Scale,
    dataset: str,
    size: tuple[int, int],
    c: int = 3,
    names: Iterable[str] = USUAL,
) -> Panel:
    """Return what a panel shows."""
    lines = {}
    for name in names:
        kind = CURVES_SHOWN[name]
        outcome = outcome_of(results, scale, dataset, size, kind.policy, kind.c or c)
        total = interval(outcome.measures[kind.curve], scale.seed)
        growth = exponent(outcome, scale.seed, kind.curve)
        lines[name] = Line(kind.label, band(outcome, kind.curve), total, growth)
    return Panel(DATASETS[dataset], *size, lines)


def draw_panel(
    axes: Axes, panel: Panel, names: Iterable[str] = USUAL, *, logarithmic: bool = True
) -> tuple[list[Any], list[str]]:
    """Draw curves of a panel, on logarithmic axes with their exponents; return the lines and their labels."""
    lines = {name: panel.lines[name] for name in names}
    drawn = [draw_band(axes, line.band, **CURVES_SHOWN[name].style) for name, line in lines.items()]
    last = max(float(line.band.steps[-1]) for line in lines.values())
    if logarithmic and _least([panel], lines) > 0:
        axes.set(xscale="log", yscale="log", xlim=(last / _DECADES, last))
        axes.minorticks_off()  # nearly half of the time to draw
        _write_exponents(axes, lines)
    else:
        axes.set_xlim(0, last)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    label_steps(axes)
    return drawn, [line.label for line in lines.values()]


def _least(panels: Iterable[Panel], names: Iterable[str]) -> float:
    """Return the least that logarithmic axes show."""
    bands = [panel.lines[name].band for panel, name in product(panels, names)]
    return min(float(each.low[each.steps >= each.steps[-1] / _DECADES].min()) for each in bands)


def fit_heights(
    many: Iterable[Axes], panels: Sequence[Panel], names: Iterable[str] = USUAL, *, logarithmic: bool = True
) -> None:
    """Give panels that were drawn the same axis of regret, from the least to the largest that is shown."""
    low = _least(panels, names)
    high = max(float(panel.lines[name].band.high[-1]) for panel, name in product(panels, names))
    ends = (low / 1.3, high * 1.3) if logarithmic and low > 0 else (0.0, high * 1.05)
    for axes in many:
        if high > 0:  # else there is nothing to show
            axes.set_ylim(*ends)


def _write_exponents(axes: Axes, lines: Mapping[str, Line]) -> None:
    """Write how each curve grows at the upper left, where no curve goes, in the order of their ends."""
    known = [(name, line) for name, line in lines.items() if not math.isnan(line.growth.mean)]
    for row, (name, line) in enumerate(sorted(known, key=lambda pair: -pair[1].regret.mean)):
        axes.annotate(
            f"$T^{{\\,{line.growth.mean:.2f}}}$",
            (0, 1),
            (4, -1 - 14 * row),
            xycoords="axes fraction",
            textcoords="offset points",
            va="top",
            fontsize=10.5,
            color=CURVES_SHOWN[name].style["color"],
        )


def draw_grid(
    figure: Figure, panels: Sequence[Panel], names: Sequence[str] = USUAL, *, logarithmic: bool = True
) -> None:
    """Draw a row for each data set and a column for each size, in the order of the panels."""
    labels = list(dict.fromkeys(panel.dataset for panel in panels))
    grid = figure.subplots(len(labels), len(panels) // len(labels), squeeze=False, sharex=True, sharey="row")
    for row, (label, axes_of_row) in enumerate(zip(labels, grid, strict=True)):
        shown_here = [panel for panel in panels if panel.dataset == label]
        for axes, panel in zip(axes_of_row, shown_here, strict=True):
            drawn = draw_panel(axes, panel, names, logarithmic=logarithmic)
            axes.set(title="" if row else panel.size, xlabel="steps" if row == len(labels) - 1 else "")
            if not logarithmic:
                axes.locator_params(axis="x", nbins=3)
        fit_heights(axes_of_row, shown_here, names, logarithmic=logarithmic)
        axes_of_row[0].set_ylabel(f"{label}:\nregret, added up")
    add_legend(figure, *drawn)


def growth_rows(panels: Sequence[Panel]) -> Rows:
    """Return regret at the end of the run and exponent of every curve, a row for each panel."""
    return [
        {"dataset": panel.dataset, "n_arms": panel.n_arms, "budget": panel.budget}
        | {
            f"{name}_{kind}": value
            for name, line in panel.lines.items()
            for kind, value in (("regret", line.regret), ("exponent", line.growth))
        }
        for panel in panels
    ]
