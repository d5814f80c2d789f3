r"""Regret against steps, a panel for each data set and size: what several figures of the paper share.

A panel has curves of `CURVES_SHOWN`, usually three. Two are by the definition, Eq. (3): the regret of the shares with
which MF-RMAB draws arms, and with which Optimal pulls them (1/K for its K arms, 0 for all others). The third is what
the paper has drawn for Optimal: the regret of the shares that MF-RMAB *would* form from what Optimal has seen. Axes of
panels are logarithmic where growth matters: there :math:`T^\alpha` is a straight line with slope :math:`\alpha`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from meritfair.core.figures import Band, draw_band
from meritfair.core.texts import several
from meritfair.lab.resampling import interval_columns, shown
from meritfair.reproduction.artefact import DATASETS, PaperTable
from meritfair.reproduction.figures import BAND, COLORS, band, label_steps
from meritfair.reproduction.growth import exponent
from meritfair.simulation.metrics import interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.lab.spec import Setting
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale, Verdict
    from meritfair.simulation.metrics import Interval

__all__ = [
    "CURVES_SHOWN",
    "EXPONENTS",
    "USUAL",
    "Line",
    "Panel",
    "add_legend",
    "add_remark",
    "draw_grid",
    "draw_panel",
    "fit_heights",
    "growth_table",
    "make_panel",
    "outcome_of",
    "played",
    "remark",
    "setting_of",
    "unless_short",
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
EXPONENTS = "Powers of T, in the order of curves: growth over the last nine tenths."
USUAL = ("merit_fair", "optimal", "authors")


@dataclass(frozen=True)
class Line:
    """A curve, its last value as a mean over runs, and its exponent."""

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


def setting_of(scale: Scale, dataset: str, size: tuple[int, int], policy: str, c: int = 3) -> Setting:
    """Return the setting of a policy on a data set of the paper, with merit exp(c · benefit)."""
    merits = (f"exponential:c={c}",)
    return scale.spec(datasets=(dataset,), sizes=(size,), policies=(policy,), merits=merits).settings()[0]


def outcome_of(
    results: Results, scale: Scale, dataset: str, size: tuple[int, int], policy: str = "merit-fair", c: int = 3
) -> Outcome:
    """Return the outcome of that setting."""
    return results[setting_of(scale, dataset, size, policy, c)]


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
        lines[name] = Line(band(outcome, kind.curve), total, exponent(outcome, scale.seed, kind.curve))
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
    return drawn, [CURVES_SHOWN[name].label for name in lines]


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


def add_legend(figure: Figure, lines: Sequence[Any], labels: Sequence[str]) -> None:
    """Put one legend above all panels."""
    figure.legend(lines, labels, loc="outside upper left", ncols=len(labels))


def add_remark(figure: Figure, text: str) -> None:
    """Put a line with the settings below all panels."""
    figure.supxlabel(text, fontsize=8.5, color="#444444", x=0.01, ha="left")


def played(scale: Scale, what: str, c: int = 3) -> str:
    """Return what was played, in a line."""
    length, runs = f"{scale.episodes:,} episodes of 200 steps", several(scale.runs, "run")
    return f"{what}, the authors' instances · {length} · {runs} · merit exp({c} · benefit) · seed {scale.seed}."


def remark(scale: Scale, what: str, c: int = 3, more: str = EXPONENTS) -> str:
    """Return what was played, in a line, and in another what lines, bands and numbers are."""
    below = " ".join([*[BAND] * (scale.runs > 1), *[more] * bool(more)])
    return f"{played(scale, what, c)}\n{below}".rstrip()


def unless_short(verdicts: Iterable[Verdict], scale: Scale) -> tuple[Verdict, ...]:
    """Return verdicts on claims about the paper's long runs: a quick look can speak for them, but not against."""
    note = f" Too short to tell against it: {scale.episodes:,} episodes, where the paper has 10,000."
    return tuple(
        replace(each, holds=None, found=each.found + note) if scale.quick and each.holds is False else each
        for each in verdicts
    )


def growth_table(name: str, title: str, panels: Sequence[Panel]) -> PaperTable:
    """Return regret at the end of the run and exponent of every curve, a row for each panel."""
    headings, cells = ["data set", "N", "K"], [[each.dataset, str(each.n_arms), str(each.budget)] for each in panels]
    columns: dict[str, list[Any]] = {
        "dataset": [each.dataset for each in panels],
        "n_arms": [each.n_arms for each in panels],
        "budget": [each.budget for each in panels],
    }
    for line in panels[0].lines:
        label = CURVES_SHOWN[line].label
        headings += [f"{label}: regret", f"{label}: exponent"]
        for row, panel in zip(cells, panels, strict=True):
            row += [shown(panel.lines[line].regret, 0), shown(panel.lines[line].growth)]
        columns |= interval_columns(f"{line}_regret", [panel.lines[line].regret for panel in panels])
        columns |= interval_columns(f"{line}_exponent", [panel.lines[line].growth for panel in panels])
    return PaperTable(name, title, headings, cells, columns)
