"""Figures of runs and comparisons: first numbers, by pure functions, then the drawing. Needs the extra ``plots``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.figures import Band, draw_band, evenly, thousands, two_panels
from meritfair.core.texts import for_figure
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.comparison import Comparison
from meritfair.simulation.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TICKS = 20
_MOST_BARS = 100
_LABEL_SIZE = 8.0  # points, as all that places labels
_REACH = 5.0 * 1.5 ** np.arange(9)  # how far from its point a label may go
_FAR = 9.0  # from where on a line joins the two
_TURN = np.deg2rad(np.arange(0, 360, 22.5))
_AROUND = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=-1)
_MOST_ROUNDS = 8
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


def place_labels(points: FloatArray, sizes: FloatArray, frame: FloatArray, avoid: FloatArray) -> FloatArray:
    """Return the centres of labels, each near its point, off other labels, points and lines as far as that goes.

    Each label in turn takes the best of some places around its point, given all others, until none moves.

    Parameters
    ----------
    points, sizes : ndarray, shape (n, 2)
        Where the points are, and how wide and high their labels.
    frame : ndarray, shape (2, 2)
        Lower left and upper right corner of where labels may be.
    avoid : ndarray, shape (m, 2)
        Further places that are better left free.
    """
    centres = np.full(points.shape, np.inf)  # not yet placed
    for _ in range(_MOST_ROUNDS):
        before = centres.copy()
        for i in range(len(points)):
            others = np.arange(len(points)) != i
            tries = (points[i] + _AROUND * (sizes[i] / 2 + _REACH[:, None, None])).reshape(-1, 2)
            costs = _label_costs(tries, sizes[i], points[i], (points, avoid), (centres[others], sizes[others]), frame)
            centres[i] = tries[np.argmin(costs)]
        if np.array_equal(before, centres):
            break
    return centres


def _label_costs(
    tries: FloatArray,
    size: FloatArray,
    point: FloatArray,
    free: tuple[FloatArray, FloatArray],
    others: tuple[FloatArray, FloatArray],
    frame: FloatArray,
) -> FloatArray:
    """Return how bad each place for a label is."""
    half, (centres, sizes) = size / 2 + 1, others

    def within(places: FloatArray, about: FloatArray, halves: FloatArray) -> FloatArray:
        return np.asarray((np.abs(places - about) < halves).all(axis=-1).sum(axis=-1), dtype=np.float64)

    outside = np.maximum(0, np.maximum(frame[0] - (tries - half), tries + half - frame[1])).sum(axis=-1)
    labels = within(tries[:, None], centres, half + sizes / 2)
    dots, lines = (within(places, tries[:, None], half + 2) for places in free)
    edge = np.clip(point, tries - half, tries + half)  # where the line to the point ends
    along = (edge[:, None] + np.linspace(0.0, 0.8, 9)[:, None] * (point - edge)[:, None])[:, :, None]
    foreign = free[0][(free[0] != point).any(axis=-1)]
    crossed = within(along, centres, sizes / 2).sum(axis=-1) + within(along, foreign, np.array(3.0)).sum(axis=-1)
    far = np.hypot(*(edge - point).T)
    return np.asarray(10 * outside + 100 * labels + 30 * dots + 0.5 * lines + 5 * crossed + 0.2 * far)


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
    if not runs or len({(run.n_arms, run.budget) for run in runs}) != 1:
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
    """Draw reward against fairness, a point for each policy: by merit at the left, by equality at the right.

    Up is more rewarding, left is fairer. A thin line joins the policies than which none is both. Where it is not sure
    that the best policy wins anything, no part of that is shown, but how many arms are in the good state.
    """
    measures = comparison.measures
    benefits = [found["intervention_benefit"] for found in measures.values()]
    part = not any(np.isnan(each.mean) or np.isinf(each.low) for each in benefits)
    reward = "intervention_benefit" if part else "good_state"
    by_merit, by_equality = (trade_off(measures, name, reward) for name in ("fairness_regret", "gini"))
    colors = dict(zip(measures, cycle(_COLORS)))
    remarks = ["Grey line: no policy is both fairer and more rewarding."]
    remarks += ["Hollow: knows the true arms."] * bool(comparison.oracles)
    remarks += ["Bars: 95 % intervals."] * (comparison.none.runs > 1)
    remarks += ["No Gini where nobody is pulled."] * (len(by_equality.labels) < len(measures))
    caption, height = f"{comparison.description}\n{' '.join(remarks)}", 4.4 + 0.12 * max(0, len(measures) - 6)
    with two_panels(caption, height, ax, figsize, sharey=True) as (figure, left, right):
        panels = [(left, by_merit, comparison.none.episodes), (right, by_equality, 1)]
        for axes, shown, scale in panels:
            _draw_points(axes, shown, scale, colors, comparison.oracles)
        left.set(title="Reward and fairness by merit", xlabel="← fairer · fairness regret of an episode")
        right.set(title="Reward and equality", xlabel="← more equal · Gini of the pulls")
        left.set_ylabel("intervention benefit: none is 0, whittle is 1" if part else "share of arms in the good state")
        figure.draw_without_rendering()  # only now is it known where points are
        for axes, shown, scale in panels:
            _draw_labels(axes, shown, scale, colors)
    return figure


def _draw_points(axes: Axes, shown: TradeOff, scale: float, colors: Mapping[str, str], oracles: Sequence[str]) -> None:
    """Draw the points with their intervals, and the line of those that are on the front."""
    x, y = shown.fairness / scale, shown.reward
    axes.plot(x[0][shown.front], y[0][shown.front], color="#999999", linewidth=1, drawstyle="steps-post", zorder=1)
    for i, label in enumerate(shown.labels):
        color = colors[label]
        axes.plot(x[1:, i], y[[0, 0], i], x[[0, 0], i], y[1:, i], color=color, alpha=0.5, linewidth=1.2, zorder=2)
        inside = "white" if label in oracles else color
        axes.plot(x[0, i], y[0, i], "o", markersize=5.5, color=color, markerfacecolor=inside, zorder=3)
    axes.margins(0.12, 0.08)


def _draw_labels(axes: Axes, shown: TradeOff, scale: float, colors: Mapping[str, str]) -> None:
    """Write each policy's name beside its point, with a line to it where that is not near."""
    from matplotlib.patheffects import withStroke
    from matplotlib.textpath import TextPath

    x, y = shown.fairness / scale, shown.reward
    t, front = np.linspace(0, 1, 12)[:, None], shown.front

    def on_paper(across: FloatArray, up: FloatArray) -> FloatArray:
        pairs = np.stack([each.ravel() for each in np.broadcast_arrays(across, up)], axis=-1)
        return np.asarray(axes.transData.transform(pairs) * 72 / axes.figure.dpi)

    points = on_paper(x[0], y[0])
    bars = [on_paper(x[1] + t * (x[2] - x[1]), y[0]), on_paper(x[0], y[1] + t * (y[2] - y[1]))]
    stairs = [
        on_paper(x[0, front[:-1]] + t * np.diff(x[0, front]), y[0, front[:-1]]),
        on_paper(x[0, front[1:]], y[0, front[:-1]] + t * np.diff(y[0, front])),
    ]
    names = [for_figure(label) for label in shown.labels]
    widths = [TextPath((0, 0), name, size=_LABEL_SIZE).get_extents().width for name in names]
    boxes = np.stack([np.array(widths), np.full(len(points), _LABEL_SIZE)], axis=-1)
    frame = np.asarray(axes.get_window_extent().get_points() * 72 / axes.figure.dpi)
    places = place_labels(points, boxes, frame, np.concatenate([*bars, *stairs]))
    ends = (np.clip(points, places - boxes / 2, places + boxes / 2) - places) / boxes + 0.5  # of lines, in the box
    far = np.hypot(*(places + (ends - 0.5) * boxes - points).T) > _FAR
    for i, label in enumerate(shown.labels):
        line = {"arrowstyle": "-", "color": colors[label], "linewidth": 0.8, "shrinkA": 0, "shrinkB": 3}
        text = axes.annotate(
            names[i],
            (x[0, i], y[0, i]),
            places[i] - points[i],
            textcoords="offset points",
            fontsize=_LABEL_SIZE,
            color=colors[label],
            ha="center",
            va="center",
            arrowprops=line | {"relpos": tuple(ends[i])} if far[i] else None,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )
        text.set_in_layout(False)


def _draw_regret(axes: Axes, runs: Sequence[Run]) -> list[Any]:
    """Draw a line for each run, with its band; return the lines."""
    lines = [draw_band(axes, regret_curve(run)) for run in runs]
    axes.set(title="Fairness regret", xlabel="steps", ylabel="regret, added up over episodes", ylim=(0, None))
    axes.set_xlim(0, max(run.episodes * run.horizon for run in runs))
    axes.xaxis.set_major_formatter(thousands)
    return lines


def _draw_exposure(axes: Axes, runs: Sequence[Run]) -> Any:
    """Draw the exposure of each arm, as bars or for many as dots, and the fair ones; return their mark."""
    n_arms = runs[0].n_arms
    place, width = np.arange(1, n_arms + 1), 0.8 / len(runs)
    bars = exposure_bars(runs)
    for number, heights in enumerate(bars.given):
        if n_arms * len(runs) <= _MOST_BARS:
            axes.bar(place + (number - (len(runs) - 1) / 2) * width, heights, width)
        else:
            axes.plot(place, heights, ".", markersize=5)
    mark = axes.hlines(bars.fair, place - 0.45, place + 0.45, color="black", linewidth=1.4, zorder=3)
    axes.set(title="Exposure", xlabel="arms, from least to most benefit", ylabel="probability of a pull at a step")
    axes.set_ylim(0, 1.05 * max(float(bars.given.max()), float(bars.fair.max())))
    axes.set_xticks(place if n_arms <= _MOST_TICKS else np.linspace(1, n_arms, 5).round())
    axes.grid(visible=False, axis="x")
    return mark
