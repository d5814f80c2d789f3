"""The figures of the audit of a programme; each has its numbers in a table of the page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.core.figures import evenly, new_figure
from meritfair.core.language import _
from meritfair.effects.report import Effect
from meritfair.programme.showing.figure_parts import BLUE, GREEN, GREY, ORANGE, PALE, accounts_axis, short, whole_rounds
from meritfair.programme.showing.learned import LearnedGroup
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.trial_tables import TrialTables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ARMS = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "black", GREY)
_MOST_GROUPS = 12


def shown_groups(report: ProgrammeReport) -> IntArray:
    """Return the groups that are drawn: all, or those that were drawn most often more or less than due."""
    table = report.groups
    rates = np.abs(table.due - table.drawn) / np.maximum(1, table.rounds)
    return np.sort(np.argsort(-rates, kind="stable")[:_MOST_GROUPS])


def plot_groups(report: ProgrammeReport) -> Figure:
    """Draw what each group was due, given, drawn and reached, for 100 rounds of one person."""
    table, places = report.groups, shown_groups(report)
    bars = {
        _("due"): (table.due, GREY),
        _("given"): (table.given, PALE),
        _("drawn"): (table.drawn, BLUE),
        _("reached"): (table.reached, ORANGE),
    }
    with new_figure(1.5 + 0.75 * len(places)) as figure:
        axes = figure.subplots()
        for k, (name, (values, color)) in enumerate(bars.items()):
            rates = 100 * values[places] / np.maximum(1, table.rounds[places])
            axes.barh(np.arange(len(places)) + 0.19 * (k - 1.5), rates, 0.17, color=color, label=name)
        axes.set_yticks(range(len(places)), [short(table.names[k]) for k in places])
        axes.set(xlabel=_("in 100 rounds of one person"), ylim=(len(places) - 0.45, -0.55))
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper left", ncols=4)
    return figure


def plot_evidence(report: ProgrammeReport) -> Figure:
    """Draw how the evidence went, and how far accounts were from 0."""
    with new_figure(3.4) as figure:
        left, right = figure.subplots(1, 2)
        _draw_evidence(left, report)
        _draw_accounts(right, report)
    return figure


def _draw_evidence(axes: Axes, report: ProgrammeReport) -> None:
    from matplotlib.ticker import MaxNLocator

    course = report.audit.course_at(evenly(len(report.audit.rounds)))
    need = -math.log10(report.alpha)
    powers = course.overall / math.log(10)
    top = 1.1 * max(need, float(powers[np.isfinite(powers)].max(initial=0.0)))
    axes.plot(course.rounds, powers.clip(max=top), color=BLUE)
    axes.axhline(need, color="black", linewidth=1, linestyle="--")
    axes.annotate(_("proof of unfair draws"), (course.rounds[0], need), (3, 3), textcoords="offset points", fontsize=9)
    axes.set(
        title=_("Evidence against the draws"),
        xlabel=_("round"),
        ylim=(min(-0.5, float(powers.min()) - 0.1), top * 1.15),
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda power, _place: f"{10**power:,.10g}")
    whole_rounds(axes)


def _draw_accounts(axes: Axes, report: ProgrammeReport) -> None:
    account, looks = report.audit.arms.account, evenly(len(report.audit.rounds))
    assert account is not None
    accounts_axis(axes, float(account.farthest.max()), report.audit.slack)
    low, high = account.envelope(looks)
    axes.fill_between(report.audit.rounds[looks], low, high, color=BLUE, alpha=0.25, linewidth=0, step="mid")
    axes.set_title(_("All accounts"))


def plot_learned(groups: list[LearnedGroup]) -> Figure:
    """Draw the estimated benefits of the people of each group: nine in ten, the middle half, and the median."""
    with new_figure(1.4 + 0.42 * len(groups)) as figure:
        axes = figure.subplots()
        for place, each in enumerate(groups):
            low, quarter, middle, third, high = (100 * end for end in each.quantiles)
            axes.hlines(place, low, high, BLUE, alpha=0.35, linewidth=3)
            axes.hlines(place, quarter, third, BLUE, alpha=0.7, linewidth=8)
            axes.plot(middle, place, "o", color=ORANGE, markersize=6, zorder=3)
        axes.axvline(0, color="black", linewidth=1, linestyle=":")
        axes.set_yticks(range(len(groups)), [short(each.name) for each in groups])
        axes.set(xlabel=_("estimated benefit, percentage points"), ylim=(len(groups) - 0.4, -0.6))
        axes.grid(visible=False, axis="y")
    return figure


def plot_effect(found: Effect) -> Figure:
    """Draw the effect of being drawn up to each round, and in parts."""
    parts = 3 + (0 if found.groups is None else min(30, len(found.groups)))
    with new_figure(max(3.8, 1.6 + 0.32 * parts)) as figure:
        left, right = figure.subplots(1, 2)
        found.plot(ax=[left, right])
        left.set_title(_("Effect of being drawn, up to each round"))
    return figure


def plot_course(trial: TrialTables) -> Figure:
    """Draw the share in the good state after each round, by arm of the trial."""
    with new_figure(3.4) as figure:
        axes = figure.subplots()
        for place, arm in enumerate(row["arm"] for row in trial.arms):
            rows = [row for row in trial.course if row["arm"] == arm and row["people"]]
            rounds, color = [row["round"] for row in rows], _ARMS[place % len(_ARMS)]
            share, low, high = ([100 * row[name] for row in rows] for name in ("share", "low", "high"))
            axes.plot(rounds, share, color=color, label=short(arm))
            axes.fill_between(rounds, low, high, color=color, alpha=0.15, linewidth=0)
        axes.set(xlabel=_("round"), ylabel=_("% in the good state"))
        whole_rounds(axes)
        figure.legend(loc="outside upper left", ncols=4)
    return figure
