"""The figure of an audit: evidence over the rounds, and shortfalls with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from meritfair.auditing.report import Audit
from meritfair.core.figures import evenly, two_panels
from meritfair.core.texts import for_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS = 40
_MOST_LINES = 5  # groups in the panel of evidence


def plot_audit(
    report: Audit, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Draw the evidence over the rounds, and the shortfall of each group, or of the most suspicious arms."""
    shown = min(_MOST_BARS, len(report.groups or report.arms))
    caption = (
        f"{len(report.arms):,} arms in {len(report.rounds):,} rounds. At the right: dots are the draws; lines hold "
        f"the truth, all at all times with probability {1 - report.alpha:g}; black is flagged."
    )
    with two_panels(caption, max(4.4, 1.6 + 0.17 * shown), ax, figsize) as (figure, left, right):
        _draw_course(left, report)
        _draw_shortfall(right, report)
    return figure


def _draw_course(axes: Axes, report: Audit) -> None:
    from matplotlib.ticker import MaxNLocator

    course = report.course_at(evenly(len(report.rounds)))
    lines = [("overall", "black", course.overall), ("largest of any arm so far", "#999999", course.arms)]
    if report.groups is not None:
        shown = report.groups.most_suspicious(_MOST_LINES)
        lines += [(f"group {for_figure(report.groups.names[k])}", "", course.groups[k]) for k in shown]
    values = np.array([line for _, _, line in lines]) / math.log(10)
    need = -math.log10(report.alpha)
    top = 1.05 * max(need + 1, values[np.isfinite(values)].max(initial=0.0))
    for (name, color, _), powers in zip(lines, values.clip(max=top), strict=True):
        axes.plot(course.rounds, powers, label=name, color=color or None)
    label = f"{1 / report.alpha:.3g}, needed at level {report.alpha:g}"
    axes.axhline(need, color="black", linewidth=1, linestyle=":", label=label)
    axes.set(title="Evidence against the stated exposures", xlabel="round", ylabel="e-value", ylim=(None, top))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda power, _: f"$10^{{{power:g}}}$")
    axes.legend(loc="upper left")


def _draw_shortfall(axes: Axes, report: Audit) -> None:
    table, what = (report.arms, "arms") if report.groups is None else (report.groups, "groups")
    shown = np.sort(table.most_suspicious(_MOST_BARS))[::-1]
    for place, k in enumerate(shown):
        color = "black" if table.flagged[k] else "#999999"
        axes.plot([table.low[k], table.high[k]], [place, place], color=color, linewidth=1.4)
        axes.plot(table.shortfall[k], place, "o", color=color, markersize=4)
    axes.axvline(0, color="black", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(shown)), [for_figure(table.names[k]) for k in shown])
    axes.set_ylim(-0.8, len(shown) - 0.2)
    some = f" of {len(shown)} of {len(table):,} {what}" if len(shown) < len(table) else f" of {what}"
    axes.set(title=f"Shortfall{some}", xlabel="← drawn too often · stated exposure less probability · too seldom →")
    axes.grid(visible=False, axis="y")
