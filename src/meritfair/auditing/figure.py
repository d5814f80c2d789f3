"""The figure of an audit: evidence over the rounds, shortfalls with their intervals, and accounts if there are any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from meritfair.auditing.accounts import Accounts
from meritfair.auditing.report import Audit
from meritfair.core.figures import evenly, two_panels, two_panels_and_one_below
from meritfair.core.texts import for_figure, several

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS = 40
_MOST_LINES = 5  # groups in the panel of evidence


def plot_audit(
    report: Audit, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Draw the evidence over the rounds, the shortfall of each group, or of the most suspicious arms, and accounts."""
    shown = min(_MOST_BARS, len(report.groups or report.arms))
    height, account = max(4.4, 1.6 + 0.17 * shown), report.arms.account
    side = "At the right" if account is None else "Top right"
    size = f"{several(len(report.arms), 'arm')} in {several(len(report.rounds), 'round')}"
    caption = (
        f"{size}. {side}: dots are the draws; lines hold the truth, all at all times "
        f"with probability {1 - report.alpha:g}; black is flagged."
    )
    if account is None:
        with two_panels(caption, height, ax, figsize) as (figure, left, right):
            _draw_course(left, report)
            _draw_shortfall(right, report)
        return figure
    with two_panels_and_one_below(caption, (height, 3.2), ax, figsize) as (figure, left, right, below):
        _draw_course(left, report)
        _draw_shortfall(right, report)
        _draw_accounts(below, report, account)
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
    axes.set(title=f"Shortfall{some}", xlabel="← too often · stated less true exposure · too seldom →")
    axes.grid(visible=False, axis="y")


def _draw_accounts(axes: Axes, report: Audit, account: Accounts) -> None:
    """Draw the range of all accounts, the two that went farthest to each side, and the slack."""
    looks = evenly(len(report.rounds))
    rounds, slack = report.rounds[looks], report.slack
    axes.fill_between(rounds, *account.envelope(looks), color="#CCCCCC", linewidth=0, label="all arms of the round")
    for side, farthest in (("behind", account.largest), ("ahead", -account.least)):
        k = int(farthest.argmax())
        if farthest[k] > 0:
            label = f"farthest {side}: {for_figure(account.names[k])}"
            axes.plot(rounds, account.at(k, looks), label=label, linewidth=1.2)
    axes.axhline(0, color="black", linewidth=1, linestyle=":")
    extent = max(float(account.farthest.max()), 1e-3)
    if slack is not None and math.isfinite(slack):
        extent = max(extent, slack)
        for bound, label in ((slack, f"slack of {slack:g}"), (-slack, "")):
            axes.axhline(bound, color="black", linewidth=1, linestyle="--", label=label)
    axes.set_ylim(-1.1 * extent, 1.65 * extent)  # room for the legend
    axes.set(title="Accounts: due less given exposure", xlabel="round", ylabel="← ahead · pulls · behind →")
    axes.legend(loc="upper left", ncols=2)
