"""The figure of an answer: the share in the good state by what varies, and fairness beside it.

Shares are drawn as differences, since what is not known of the chains is common to all policies and cancels in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import panels
from meritfair.core.texts import for_figure
from meritfair.scenarios.answer import Outlook, WhatIf

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {"budget": "pulls in a round", "slack": "slack, in pulls", "floor": "floor: least exposure of any arm"}
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")  # of the style, in order
_LOGGED = "#333333"
_LONGEST_LABEL = 60


@dataclass(frozen=True, eq=False)
class Line:
    """What a figure shows of one policy, by what varies: differences with intervals, and a measure of fairness.

    `points` are percentage points, (3, k), with rows mean, low and high, NaN where there is no answer; `places` and
    `fairness` have shape (k,), and `sure` says whether the log can check each.
    """

    label: str
    places: FloatArray
    points: FloatArray
    fairness: FloatArray
    sure: tuple[bool, ...]


def axis_of(found: WhatIf) -> str:
    """Return what varies along the axis: budget, slack or floor; empty if none of them has several values.

    Examples
    --------
    >>> "budget" in _AXES
    True
    """
    for name in _AXES:
        values = {_value(each, name) for each in found.asked} - {None}
        if len(values) > 1 and math.inf not in values:
            return name
    return ""


def _value(of: Outlook, name: str) -> float | None:
    if name == "budget":
        return of.budget or None  # a policy that pulls nobody has no place there
    return float(of.varied[name]) if name in of.varied else None


def fairness_of(axis: str) -> tuple[str, str]:
    """Return which measure of fairness is shown beside it: the name of the attribute, and its label."""
    if axis == "floor":
        return "smallest_exposure", "least exposure of any arm, %"
    return "misplaced", "pulls that merit would place elsewhere, %"


def lines_of(found: WhatIf, axis: str) -> list[Line]:
    """Return the lines of a figure, one for all scenarios that differ along the axis alone."""
    alike: dict[str, list[tuple[float, Outlook]]] = {}
    for each in found.asked:
        place = _value(each, axis)
        if place is not None:
            alike.setdefault(_label(each, axis), []).append((place, each))
    return [_line(label, sorted(members, key=lambda pair: pair[0]), axis) for label, members in alike.items()]


def _line(label: str, members: Sequence[tuple[float, Outlook]], axis: str) -> Line:
    outlooks = [each for _, each in members]
    fairness = [100 * vars(each)[fairness_of(axis)[0]] for each in outlooks]
    points, sure = np.array([points_of(each) for each in outlooks]).T, tuple(not o.check.refusal for o in outlooks)
    return Line(label, np.array([place for place, _ in members]), points, np.array(fairness), sure)


def points_of(of: Outlook) -> tuple[float, ...]:
    """Return the difference and its interval in percentage points; NaN where there is no answer."""
    return tuple(100 * value for value in of.difference) if of.answered else (math.nan,) * 3


def _label(of: Outlook, axis: str) -> str:
    budget = [f"budget {of.budget:g}"] if axis != "budget" and of.budget else []
    others = [f"{name} {value}" for name, value in of.varied.items() if name != axis]
    return ", ".join([of.policy, *budget, *others])


def plot_whatif(
    found: WhatIf, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Draw an answer into two Axes that are given, or on a new figure."""
    axis = axis_of(found)
    height = 4.4 if axis else 1.9 + 0.42 * len(found.outlooks)
    with panels(2, found.description, height, ax, figsize, sharey=not axis) as (figure, (left, right)):
        if axis:
            _draw_lines(left, right, found, axis)
        else:
            _draw_rows(left, right, found)
        left.set_title("Share in the good state")
        right.set_title("Fairness")
    return figure


def _level(found: WhatIf) -> str:
    """Return what the difference of 0 stands for."""
    base = found[found.against]
    mean, low, high = (f"{100 * value:.1f}" for value in base.share)
    return _short(f"{base.name}: {mean} % ({low} to {high})")


def _draw_lines(left: Axes, right: Axes, found: WhatIf, axis: str) -> None:
    """Draw a line with a band for each policy, and the log as a point or a level."""
    lines, measure = lines_of(found, axis), fairness_of(axis)[0]
    left.axhline(0, color=_LOGGED, linestyle="--", linewidth=1.2, label=_level(found))
    for line, color in zip(lines, _cycle(len(lines)), strict=True):
        left.plot(line.places, line.points[0], "-", color=color, label=_short(line.label))
        left.fill_between(line.places, line.points[1], line.points[2], color=color, alpha=0.15, linewidth=0)
        for place, points, sure in zip(line.places, line.points[0], line.sure, strict=True):
            left.plot(place, points, "o", color=color, markerfacecolor=color if sure else "white")
        right.plot(line.places, line.fairness, "o-", color=color)
    refused = [
        place for line in lines for place, points in zip(line.places, line.points[0], strict=True) if points != points
    ]
    if refused:
        left.plot(refused, np.zeros(len(refused)), "x", color="#888888", label="no answer")
    logged = 100 * vars(found.logged)[measure]
    if axis == "budget":
        right.plot(found.logged.budget, logged, "D", color=_LOGGED, markersize=6, label="as logged")
    else:
        right.axhline(logged, color=_LOGGED, linestyle="--", linewidth=1.2, label="as logged")
    left.set(xlabel=_AXES[axis], ylabel="difference, percentage points")
    right.set(xlabel=_AXES[axis], ylabel=fairness_of(axis)[1], ylim=(0, None))
    left.set_xlim(right.get_xlim())
    left.legend(loc="best", fontsize=7.5)
    right.legend(loc="best", fontsize=7.5)


def _draw_rows(left: Axes, right: Axes, found: WhatIf) -> None:
    """Draw a point with its interval for each scenario, one below the other."""
    place = -np.arange(len(found.outlooks), dtype=float)
    left.axvline(0, color=_LOGGED, linestyle="--", linewidth=1)
    for y, each, color in zip(place, found.outlooks, [_LOGGED, *_cycle(len(found.asked))], strict=True):
        mean, low, high = points_of(each)
        left.hlines(y, low, high, color=color, alpha=0.5, linewidth=3.5)
        left.plot(mean, y, "o", color=color, markerfacecolor="white" if each.check.refusal else color)
        if not each.answered:
            left.plot(0, y, "x", color="#888888")
        right.plot(100 * each.misplaced, y, "o", color=color)
    left.set_yticks(place, [_short(each.name) for each in found.outlooks])
    left.set(xlabel=f"difference, percentage points\n0: {_level(found)}", ylim=(place[-1] - 0.6, 0.6))
    right.set(xlabel=fairness_of("")[1].replace(" merit", "\nmerit"), xlim=(0, None))


def _cycle(number: int) -> list[Any]:
    return [_COLORS[i % len(_COLORS)] for i in range(number)]


def _short(label: str) -> str:
    kept = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    return for_figure(kept)
