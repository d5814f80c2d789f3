"""Figures of runs and comparisons: first numbers, by pure functions, then the drawing. Needs the extra ``plots``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.figures import Band, draw_band, evenly, panels, thousands, two_panels
from meritfair.core.texts import for_figure
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.comparison import Comparison
from meritfair.simulation.labels import place_labels
from meritfair.simulation.run import Run
from meritfair.simulation.slack import SlackCurve, SlackLines, slack_curves, slack_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TICKS = 20
_MOST_BARS = 100
_STYLE_COLORS = 7  # that the style has, before they repeat
_LABEL_SIZE = 8.0  # points, as all that places labels
_FAR = 9.0  # from where on a line joins the two
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#B0568C", "#A67300", "#000000")  # those of the style that can be read


@dataclass(frozen=True)
class ExposureBars:
    """Exposure by arm, arms in order of benefit in each run, then averaged over runs.

    ``given`` has a row for each policy, shape (policies, N); ``fair`` is the same for all, shape (N,).
    """

    given: FloatArray
    fair: FloatArray


def regret_curve(run: Run) -> Band:
    """Return what the regret panel shows of a run: fairness regret, added up over episodes."""
    keep = evenly(run.episodes)
    steps = np.asarray((keep + 1.0) * run.horizon)
    return Band.of_runs(steps, np.cumsum(run.fairness_regret, axis=1)[:, keep])


def exposure_bars(runs: Sequence[Run]) -> ExposureBars:
    """Return what the exposure panel shows of runs, whose fair exposures are those of the first."""
    given = np.stack([_by_benefit(run, run.exposure) for run in runs])
    return ExposureBars(given, _by_benefit(runs[0], runs[0].fair_exposure))


def _by_benefit(run: Run, exposure: FloatArray) -> FloatArray:
    order = np.argsort(run.fair_merit, axis=1, kind="stable")
    return np.asarray(np.take_along_axis(exposure, order, axis=1).mean(axis=0))


@dataclass(frozen=True)
class TradeOff:
    """Reward against unfairness, a point for each policy; those of which one is not a number are left out.

    ``fairness`` and ``reward`` have rows mean, low and high, shape (3, points). ``front`` has the numbers of the points
    than which none is both fairer and more rewarding, from the fairest to the most rewarding.
    """

    labels: tuple[str, ...]
    fairness: FloatArray
    reward: FloatArray
    front: IntArray


def trade_off(measures: Mapping[str, Mapping[str, Interval]], fairness: str, reward: str) -> TradeOff:
    """Return what a panel shows of a comparison: two measures of each policy, the first of which is best if small."""
    known = [label for label, found in measures.items() if not np.isnan(found[fairness].mean + found[reward].mean)]
    x, y = (np.array([measures[label][name] for label in known]).reshape(-1, 3).T for name in (fairness, reward))
    order = np.lexsort((-y[0], x[0]))  # the more rewarding first where two are equally fair
    best = np.maximum.accumulate(np.concatenate([[-np.inf], y[0][order]]))
    return TradeOff(tuple(known), x, y, order[y[0][order] > best[:-1]])


def plot_runs(
    runs: Sequence[Run],
    labels: Sequence[str] | None = None,
    *,
    ax: Sequence[Axes] | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Draw runs of one problem beside each other: regret over time, and exposure by arm.

    Parameters
    ----------
    runs : sequence of Run
        One for each policy, with the same number of arms and budget.
    labels : sequence of str, optional
        What to call them; by default the names of their policies.
    ax : two Axes, optional
        Where to draw, as from ``plt.subplots(1, 2)``; by default on a new figure, which has a caption too. All
        functions that plot take these two, and return the figure.
    figsize : tuple, optional
        Width and height of a new figure in inches.
    """
    if not runs or len({(run.n_arms, run.budgets) for run in runs}) != 1:
        raise InputError("runs must be one or more runs with the same number of arms and budget")
    names = [for_figure(name) for name in ([run.policy for run in runs] if labels is None else labels)]
    caption = runs[0].description + ". Means of the runs; bands: the middle 80 % of them." * (runs[0].runs > 1)
    with two_panels(caption, 4.4, ax, figsize) as (figure, left, right):
        lines = _draw_regret(left, runs)
        fair = _draw_exposure(right, runs)
        marks = [*lines, fair], [*names, "fair exposure"]
        if ax is None:
            figure.legend(*marks, loc="outside upper left", ncols=4 if sum(map(len, names)) < 90 else 2)
        else:
            left.legend(*marks)
    return figure


def plot_comparison(
    comparison: Comparison, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Draw reward against fairness, a point for each policy: by merit at the left, by equality beside it.

    Up is more rewarding, left is fairer. A thin line joins the policies than which none is both. Where it is not sure
    that the best policy wins anything, no part of that is shown, but how many arms are in the good state. If policies
    were played with several slacks, a third panel has reward against slack.
    """
    measures, curves = comparison.measures, slack_curves(comparison.runs)
    benefits = [found["intervention_benefit"] for found in measures.values()]
    part = not any(np.isnan(each.mean) or np.isinf(each.low) for each in benefits)
    reward = "intervention_benefit" if part else "good_state"
    upward = "intervention benefit: none is 0, whittle is 1" if part else "share of arms in the good state"
    by_merit, by_equality = (trade_off(measures, name, reward) for name in ("fairness_regret", "gini"))
    look = _Look.of(tuple(measures), curves, comparison.oracles)
    remarks = ["Grey line: no policy is both fairer and more rewarding."]
    remarks += ["Dotted: one policy with several slacks."] * bool(curves)
    remarks += ["Hollow: knows the true arms."] * bool(comparison.oracles)
    remarks += ["Bars: 95 % intervals."] * (comparison.none.runs > 1)
    remarks += ["No Gini where nobody is pulled."] * (len(by_equality.labels) < len(measures))
    caption, height = f"{comparison.description}\n{' '.join(remarks)}", 4.4 + 0.12 * max(0, len(measures) - 6)
    with panels(2 + bool(curves), caption, height, ax, figsize, sharey=True) as (figure, (left, right, *more)):
        points = [(left, by_merit, comparison.none.episodes), (right, by_equality, 1)]
        for axes, shown, scale in points:
            _draw_points(axes, shown, scale, look)
        left.set(title="Reward and fairness by merit", xlabel="← fairer · fairness regret of an episode")
        right.set(title="Reward and equality", xlabel="← more equal · Gini of the pulls")
        for axes in more:
            _draw_slacks(axes, slack_lines(measures, curves, reward), look)
        for axes in (left, *more):
            axes.set_ylabel(upward)
        figure.draw_without_rendering()  # only now is it known where points are
        for axes, shown, scale in points:
            _draw_labels(axes, shown, scale, look)
    return figure


@dataclass(frozen=True)
class _Look:
    """How policies look in all panels, by label.

    A policy with several slacks has one color. Where it has several points only two have a name, the first and the
    last, as they are often close together.
    """

    colors: dict[str, str]
    names: dict[str, str]
    curves: tuple[SlackCurve, ...]
    oracles: tuple[str, ...]

    @classmethod
    def of(cls, labels: Sequence[str], curves: tuple[SlackCurve, ...], oracles: tuple[str, ...]) -> _Look:
        first = {label: curve.members[0] for curve in curves for label in curve.members}
        alike = [first.get(label, label) for label in labels]
        palette = dict(zip(dict.fromkeys([*first.values(), *alike]), cycle(_COLORS)))  # curves differ if they can
        between = {label for curve in curves for label in curve.members[1:-1]}
        last = {curve.members[-1]: f"slack {_slack(curve.slacks[-1])}" for curve in curves}
        names = {label: for_figure(last.get(label, label)) for label in labels if label not in between}
        colors = {label: palette[one] for label, one in zip(labels, alike, strict=True)}
        return cls(colors, names, curves, oracles)

    def inside(self, label: str) -> str:
        """Return the color of the inside of a point."""
        return "white" if label in self.oracles else self.colors[label]


def _slack(value: float) -> str:
    return "∞" if np.isinf(value) else f"{value:g}"


def draw_trade_off(axes: Axes, shown: TradeOff) -> None:
    """Draw a point for each policy with its name and intervals, and the line of those than which none is better."""
    look = _Look.of(shown.labels, (), ())
    _draw_points(axes, shown, 1, look)
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    _draw_labels(axes, shown, 1, look)


def _draw_points(axes: Axes, shown: TradeOff, scale: float, look: _Look) -> None:
    """Draw the points with their intervals, the line of those on the front, and one through each policy's slacks."""
    x, y = shown.fairness / scale, shown.reward
    axes.plot(x[0][shown.front], y[0][shown.front], color="#999999", linewidth=1, drawstyle="steps-post", zorder=1)
    for curve in look.curves:
        along = [shown.labels.index(label) for label in curve.members if label in shown.labels]
        axes.plot(x[0, along], y[0, along], color=look.colors[curve.members[0]], linewidth=1, linestyle=":", zorder=2)
    for i, label in enumerate(shown.labels):
        color = look.colors[label]
        axes.plot(x[1:, i], y[[0, 0], i], x[[0, 0], i], y[1:, i], color=color, alpha=0.5, linewidth=1.2, zorder=2)
        axes.plot(x[0, i], y[0, i], "o", markersize=5.5, color=color, markerfacecolor=look.inside(label), zorder=3)
    axes.margins(0.12, 0.08)


def _draw_slacks(axes: Axes, shown: SlackLines, look: _Look) -> None:
    """Draw a line for each policy with several slacks, which are evenly spaced."""
    for number, (curve, place, reward) in enumerate(zip(look.curves, shown.places, shown.rewards, strict=True)):
        x = place + 0.06 * (number - (len(look.curves) - 1) / 2)  # so that intervals do not hide each other
        color, inside = look.colors[curve.members[0]], look.inside(curve.members[0])
        axes.plot(np.stack([x, x]), reward[1:], color=color, alpha=0.5, linewidth=1.2, zorder=2)
        style: Any = {"marker": "o", "markersize": 5.5, "color": color, "markerfacecolor": inside, "linewidth": 1.2}
        axes.plot(x, reward[0], **style, zorder=3, label=for_figure(curve.label))
    axes.set_xticks(np.arange(len(shown.slacks)), [_slack(value) for value in shown.slacks])
    axes.set(title="Reward and slack", xlabel="slack in pulls · 0 is blind to states")
    axes.legend(loc="best", fontsize=_LABEL_SIZE)


def _draw_labels(axes: Axes, shown: TradeOff, scale: float, look: _Look) -> None:
    """Write the names of policies beside their points, with a line to them where that is not near."""
    from matplotlib.patheffects import withStroke
    from matplotlib.textpath import TextPath

    all_points, lines = _on_paper(axes, shown, scale)
    named = [i for i, label in enumerate(shown.labels) if label in look.names]
    points, others = all_points[named], np.delete(all_points, named, axis=0)
    names = [look.names[shown.labels[i]] for i in named]
    widths = [TextPath((0, 0), name, size=_LABEL_SIZE).get_extents().width for name in names]
    boxes = np.stack([np.array(widths), np.full(len(points), _LABEL_SIZE)], axis=-1)
    frame = np.asarray(axes.get_window_extent().get_points() * 72 / axes.figure.dpi)
    places = place_labels(points, boxes, frame, np.concatenate([others, lines]))
    ends = (np.clip(points, places - boxes / 2, places + boxes / 2) - places) / boxes + 0.5  # of lines, in the box
    far = np.hypot(*(places + (ends - 0.5) * boxes - points).T) > _FAR
    for k, i in enumerate(named):
        color = look.colors[shown.labels[i]]
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 3}
        text = axes.annotate(
            names[k],
            (shown.fairness[0, i] / scale, shown.reward[0, i]),
            places[k] - points[k],
            textcoords="offset points",
            fontsize=_LABEL_SIZE,
            color=color,
            ha="center",
            va="center",
            arrowprops=line | {"relpos": tuple(ends[k])} if far[k] else None,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )
        text.set_in_layout(False)


def _on_paper(axes: Axes, shown: TradeOff, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return where the points are, in points of the paper, and places along all lines."""
    x, y, front = shown.fairness / scale, shown.reward, shown.front
    t = np.linspace(0, 1, 12)[:, None]
    places = [
        (x[0], y[0]),
        (x[1] + t * (x[2] - x[1]), y[0]),  # intervals
        (x[0], y[1] + t * (y[2] - y[1])),
        (x[0, front[:-1]] + t * np.diff(x[0, front]), y[0, front[:-1]]),  # stairs
        (x[0, front[1:]], y[0, front[:-1]] + t * np.diff(y[0, front])),
    ]
    pairs = [np.stack(np.broadcast_arrays(*each), axis=-1).reshape(-1, 2) for each in places]
    first, *rest = (np.asarray(axes.transData.transform(each) * 72 / axes.figure.dpi) for each in pairs)
    return first, np.concatenate(rest)


def _draw_regret(axes: Axes, runs: Sequence[Run]) -> list[Any]:
    """Draw a line for each run, with its band; return the lines."""
    lines = [draw_band(axes, regret_curve(run)) for run in runs]
    axes.set(title="Fairness regret", xlabel="steps", ylabel="regret, added up over episodes", ylim=(0, None))
    axes.set_xlim(0, max(run.episodes * run.horizon for run in runs))
    axes.xaxis.set_major_formatter(thousands)
    return lines


def _draw_exposure(axes: Axes, runs: Sequence[Run]) -> Any:
    """Draw the exposure of each arm, as bars or for many as dots, and the fair ones; return their mark."""
    return draw_exposures(axes, exposure_bars(runs))[-1]


def draw_exposures(axes: Axes, bars: ExposureBars) -> list[Any]:
    """Draw the exposures that each policy gave, as bars or for many as dots; return their marks, and the fair ones'."""
    policies, n_arms = bars.given.shape
    place, width, marks = np.arange(1, n_arms + 1), 0.8 / policies, list[Any]()
    for number, heights in enumerate(bars.given):
        if bars.given.size <= _MOST_BARS:
            hatch = "///" * (number // _STYLE_COLORS % 3)
            marks.append(axes.bar(place + (number - (policies - 1) / 2) * width, heights, width, hatch=hatch))
        else:
            marks += axes.plot(place, heights, ".x+"[number // _STYLE_COLORS % 3], markersize=5)
    mark = axes.hlines(bars.fair, place - 0.45, place + 0.45, color="black", linewidth=1.4, zorder=3)
    axes.set(title="Exposure", xlabel="arms, from least to most benefit", ylabel="probability of a pull at a step")
    axes.set_ylim(0, 1.05 * max(float(bars.given.max()), float(bars.fair.max())))
    axes.set_xticks(place if n_arms <= _MOST_TICKS else np.linspace(1, n_arms, 5).round())
    axes.grid(visible=False, axis="x")
    return [*marks, mark]
