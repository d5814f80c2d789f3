"""The figure of an effect: after each round, and by state and group, each with both intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import evenly, two_panels
from meritfair.core.language import _
from meritfair.core.texts import for_figure, several
from meritfair.effects.report import Effect, EffectTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#888888"
_MOST_GROUPS = 30
_LONGEST_NAME = 24
_MOST_TICKS, _MOST_LONG_TICKS, _LONG_TICK = 8, 4, 7
_POINTS = 100  # percentage points in 1


def plot_effect(
    found: Effect, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Draw the effect after each round, and overall, by state and by group."""
    parts = shown_parts(found)
    rows, arms = several(int(found.overall.rows[0]), "arm-round"), several(found.settings["arms"], "arm")
    caption = (
        f"{rows} of {arms}. Dark: {100 * found.level:g} % interval for one look at a time set beforehand. "
        "Pale: the interval that holds whenever one looks."
    )
    with two_panels(caption, max(4.4, 1.8 + 0.32 * len(parts)), ax, figsize) as (figure, left, right):
        _draw_course(left, found.rounds)
        _draw_parts(right, found, parts)
    return figure


def shown_parts(found: Effect) -> EffectTable:
    """Return the parts that are drawn: overall, by state, and the largest groups.

    The names say what they are of.
    """
    tables = [("", found.overall), (_("state") + " ", found.states)]
    if found.groups is not None:
        largest = np.sort(np.argsort(-found.groups.rows, kind="stable")[:_MOST_GROUPS])
        tables.append((f"{found.settings['group']} ", found.groups.take(largest)))
    names = [prefix + name for prefix, table in tables for name in table.names]
    columns = [table.columns("names") for _prefix, table in tables]
    merged = {key: np.concatenate([each[key] for each in columns]) for key in columns[0] if key != "names"}
    return EffectTable(tuple(names), **merged)


def limits(course: EffectTable) -> tuple[float, float]:
    """Return the range that is drawn: 0, and the intervals after the first third of the rounds."""
    late = len(course) // 3
    ends = np.r_[course.anytime_low[late:], course.anytime_high[late:], course.estimate[late:], 0.0]
    low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    room = 0.08 * max(high - low, 0.02)
    return low - room, high + room


def _draw_course(axes: Axes, course: EffectTable) -> None:
    looks = evenly(len(course))
    shown = course.take(looks)
    low, high = limits(course)
    band: dict[str, Any] = {"color": _BLUE, "linewidth": 0}
    axes.fill_between(looks, _clipped(shown.anytime_low, low), _clipped(shown.anytime_high, high), alpha=0.15, **band)
    axes.fill_between(looks, _POINTS * shown.low, _POINTS * shown.high, alpha=0.35, **band)
    axes.plot(looks, _POINTS * np.where(shown.shown, shown.estimate, np.nan), color=_BLUE)
    axes.axhline(0, color="black", linewidth=1, linestyle=":")
    most = _MOST_TICKS if max(map(len, course.names)) < _LONG_TICK else _MOST_LONG_TICKS
    ticks = np.unique(np.linspace(0, len(course) - 1, min(most, len(course))).round().astype(int))
    axes.set_xticks(ticks, [for_figure(course.names[k]) for k in ticks])
    axes.set(title=_("Effect of a pull, after each round"), xlabel=_("round"), ylabel=_("percentage points"))
    axes.set_ylim(_POINTS * low, _POINTS * high)


def _clipped(end: FloatArray, limit: float) -> FloatArray:
    """Return an end in percentage points; where nothing is known yet, that of the panel."""
    return np.asarray(_POINTS * np.where(np.isfinite(end), end, limit))


def _draw_parts(axes: Axes, found: Effect, parts: EffectTable) -> None:
    for place, k in enumerate(reversed(range(len(parts)))):
        axes.hlines(
            place, _POINTS * parts.anytime_low[k], _POINTS * parts.anytime_high[k], _BLUE, alpha=0.25, linewidth=5
        )
        axes.hlines(place, _POINTS * parts.low[k], _POINTS * parts.high[k], _BLUE, alpha=0.6, linewidth=5)
        if parts.shown[k]:
            axes.plot(_POINTS * parts.estimate[k], place, "o", color=_ORANGE, markersize=5, zorder=3)
    plain = _POINTS * found.difference
    axes.plot(plain, len(parts) - 1, "x", color=_GREY, markersize=7, zorder=3, label=_("plain difference of means"))
    axes.axvline(0, color="black", linewidth=1, linestyle=":")
    names = [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in parts.names]
    axes.set_yticks(range(len(parts)), [for_figure(name) for name in reversed(names)])
    axes.set_ylim(-0.8, len(parts) - 0.2)
    title = _("By state") if found.groups is None else _("By state and group")
    axes.set(title=title, xlabel=_("percentage points"))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="best")
