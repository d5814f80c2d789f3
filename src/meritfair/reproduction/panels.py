r"""Regret against steps, a panel for each data set and size: what several figures of the paper share.

A panel usually has three curves. Two are by the definition, Eq. (3): the regret of the shares with which MF-RMAB draws
arms, and with which Optimal pulls them (1/K for its K arms, 0 for all others). The third is what the paper has drawn
for Optimal: the regret of the shares that MF-RMAB *would* form from what Optimal has seen. Axes of panels are
logarithmic where growth matters: there :math:`T^\alpha` is a straight line with slope :math:`\alpha`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.reproduction.artefact import DATASETS, Results, Scale
from meritfair.reproduction.figures import COLORS, add_legend, band, label_steps
from meritfair.reproduction.growth import exponent
from meritfair.reproduction.prose import Rows
from meritfair.simulation.bootstrap import Interval, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DECADES = 1000  # logarithmic axes begin at this part of the run


class _Kind(NamedTuple):
    label: str
    policy: str
    style: dict[str, Any]
    curve: str = "fairness_regret"
    c: int | None = None  # of the merit, if it is not that of the panel


_BLUE, _GREEN, _RED = COLORS["merit-fair"], COLORS["optimal"], COLORS["mean"]
_DOTTED, _GREY = {"linestyle": ":", "linewidth": 2.2}, {"linestyle": "-.", "linewidth": 1.2}
_KINDS = {
    "merit_fair": _Kind("MF-RMAB", "merit-fair", {"color": _BLUE}),
    "optimal": _Kind("Optimal", "optimal", {"color": _GREEN, "linestyle": "--"}),
    "authors": _Kind("Optimal, as the paper drew it", "optimal", {"color": _RED, **_DOTTED}, "fairness_regret_authors"),
    "reference": _Kind("MF-RMAB with c = 3", "merit-fair", {"color": "#777777", **_GREY}, c=3),
}
USUAL = ("merit_fair", "optimal", "authors")


@dataclass(frozen=True)
class Line:
    """A curve and how it is drawn, its last value as a mean over runs, and its exponent."""

    label: str
    style: dict[str, Any]
    band: Band
    regret: Interval
    growth: Interval

    @property
    def least(self) -> float:
        """The least that logarithmic axes show."""
        return float(self.band.low[self.band.steps >= self.band.steps[-1] / _DECADES].min())


@dataclass(frozen=True)
class Panel:
    """The curves of one data set and size, by name."""

    dataset: str
    n_arms: int
    budget: int
    lines: dict[str, Line]

    @property
    def size(self) -> str:
        """N and K as a title."""
        return f"N = {self.n_arms}, K = {self.budget}"


def make_panel(
    results: Results, scale: Scale, dataset: str, size: tuple[int, int], c: int = 3, names: Iterable[str] = USUAL
) -> Panel:
    """Return what a panel shows: curves named ``merit_fair``, ``optimal``, ``authors`` or ``reference``."""
    lines = {}
    for name in names:
        kind = _KINDS[name]
        outcome = scale.outcome(results, dataset, size, kind.policy, kind.c or c)
        total = interval(outcome.measures[kind.curve], scale.seed)
        growth = exponent(outcome, scale.seed, kind.curve)
        lines[name] = Line(kind.label, kind.style, band(outcome, kind.curve), total, growth)
    return Panel(DATASETS[dataset], *size, lines)


def draw_panel(axes: Axes, panel: Panel, *, logarithmic: bool = True) -> tuple[list[Any], list[str]]:
    """Draw a panel, on logarithmic axes with the exponents; return the lines and their labels."""
    lines = panel.lines.values()
    drawn = [draw_band(axes, line.band, **line.style) for line in lines]
    last = max(float(line.band.steps[-1]) for line in lines)
    if logarithmic and min(line.least for line in lines) > 0:
        axes.set(xscale="log", yscale="log", xlim=(last / _DECADES, last))
        axes.minorticks_off()  # nearly half of the time to draw
        _write_exponents(axes, lines)
    else:
        axes.set_xlim(0, last)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    label_steps(axes)
    return drawn, [line.label for line in lines]


def fit_heights(many: Iterable[Axes], panels: Iterable[Panel], *, logarithmic: bool = True) -> None:
    """Give panels that were drawn the same axis of regret, from the least to the largest that is shown."""
    lines = [line for panel in panels for line in panel.lines.values()]
    low, high = min(line.least for line in lines), max(float(line.band.high[-1]) for line in lines)
    ends = (low / 1.3, high * 1.3) if logarithmic and low > 0 else (0.0, high * 1.05)
    for axes in many:
        if high > 0:  # else there is nothing to show
            axes.set_ylim(*ends)


def _write_exponents(axes: Axes, lines: Iterable[Line]) -> None:
    """Write how each curve grows at the upper left, where no curve goes, in the order of their ends."""
    known = [line for line in lines if not math.isnan(line.growth.mean)]
    style: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top", "fontsize": 10.5}
    for row, line in enumerate(sorted(known, key=lambda line: -line.regret.mean)):
        text, place = f"$T^{{\\,{line.growth.mean:.2f}}}$", (4, -1 - 14 * row)
        axes.annotate(text, (0, 1), place, color=line.style["color"], **style)


def draw_grid(panels: Sequence[Panel], height: float, *, logarithmic: bool = True) -> Figure:
    """Draw a row for each data set and a column for each size, in the order of the panels."""
    labels = list(dict.fromkeys(panel.dataset for panel in panels))
    with new_figure(height) as figure:
        grid = figure.subplots(len(labels), len(panels) // len(labels), squeeze=False, sharex=True, sharey="row")
        for row, (label, axes_of_row) in enumerate(zip(labels, grid, strict=True)):
            shown_here = [panel for panel in panels if panel.dataset == label]
            for axes, panel in zip(axes_of_row, shown_here, strict=True):
                drawn = draw_panel(axes, panel, logarithmic=logarithmic)
                axes.set(title="" if row else panel.size, xlabel="steps" if row == len(labels) - 1 else "")
                if not logarithmic:
                    axes.locator_params(axis="x", nbins=3)
            fit_heights(axes_of_row, shown_here, logarithmic=logarithmic)
            axes_of_row[0].set_ylabel(f"{label}:\nregret, added up")
        add_legend(figure, *drawn)
    return figure


def growth_rows(panels: Iterable[Panel]) -> Rows:
    """Return regret at the end of the run and exponent of every curve, a row for each panel."""
    rows = []
    for panel in panels:
        row: dict[str, Any] = {"dataset": panel.dataset, "n_arms": panel.n_arms, "budget": panel.budget}
        for name, line in panel.lines.items():
            row |= {f"{name}_regret": line.regret, f"{name}_exponent": line.growth}
        rows.append(row)
    return rows
