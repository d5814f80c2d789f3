"""Figures of runs: first the numbers, by pure functions, then the drawing. Needs the extra ``plots``."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.arrays import FloatArray
    from meritfair.run import Run

__all__ = ["ExposureBars", "RegretCurve", "exposure_bars", "new_figure", "plot_runs", "regret_curve"]

_MOST_POINTS = 1000  # more than a figure can show
_MOST_TICKS = 20
_MOST_BARS = 100


@dataclass(frozen=True)
class RegretCurve:
    """Fairness regret added up over time: the mean over runs, and the middle 80 % of runs."""

    steps: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class ExposureBars:
    """Exposure by arm, arms in order of benefit in each run, then averaged over runs.

    ``given`` has a row for each policy, shape (policies, N); ``fair`` is the same for all, shape (N,).
    """

    given: FloatArray
    fair: FloatArray


def regret_curve(run: Run) -> RegretCurve:
    """Return what the regret panel shows of a run."""
    total = np.cumsum(run.fairness_regret, axis=1)
    keep = np.unique(np.linspace(0, run.episodes - 1, min(run.episodes, _MOST_POINTS)).round().astype(int))
    low, high = np.quantile(total[:, keep], [0.1, 0.9], axis=0)
    return RegretCurve((keep + 1.0) * run.horizon, total[:, keep].mean(axis=0), low, high)


def exposure_bars(runs: Sequence[Run]) -> ExposureBars:
    """Return what the exposure panel shows of runs, whose fair exposures are those of the first."""
    given = np.stack([_by_benefit(run, run.exposure) for run in runs])
    return ExposureBars(given, _by_benefit(runs[0], runs[0].fair_exposure))


def _by_benefit(run: Run, exposure: FloatArray) -> FloatArray:
    order = np.argsort(run.fair_merit, axis=1, kind="stable")
    return np.asarray(np.take_along_axis(exposure, order, axis=1).mean(axis=0))


def plot_runs(runs: Sequence[Run], labels: Sequence[str] | None = None) -> Figure:
    """Draw runs of one problem beside each other: regret over time, and exposure by arm.

    Parameters
    ----------
    runs : sequence of Run
        One for each policy, with the same number of arms and budget.
    labels : sequence of str, optional
        What to call them; by default the names of their policies.
    """
    if not runs or len({(run.n_arms, run.budget) for run in runs}) != 1:
        raise InputError("runs must be one or more runs with the same number of arms and budget")
    names = [run.policy for run in runs] if labels is None else list(labels)
    with new_figure(4.4) as figure:
        left, right = figure.subplots(1, 2)
        lines = _draw_regret(left, runs)
        fair = _draw_exposure(right, runs)
        columns = 4 if sum(map(len, names)) < 90 else 2
        figure.legend([*lines, fair], [*names, "fair exposure"], loc="outside upper left", ncols=columns)
        figure.supxlabel(_caption(runs[0]), fontsize=8.5, color="#444444", x=0.01, ha="left")
    return figure


@contextmanager
def new_figure(height: float) -> Iterator[Figure]:
    """Give a figure of this height in the style of all figures, to be drawn while that is in force."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "plots") from None
    with matplotlib.style.context(str(files("meritfair") / "meritfair.mplstyle")):
        yield Figure(figsize=(10, height), layout="constrained")


def _draw_regret(axes: Axes, runs: Sequence[Run]) -> list[Any]:
    """Draw a line for each run, with its band; return the lines."""
    lines = []
    for run in runs:
        curve = regret_curve(run)
        (line,) = axes.plot(curve.steps, curve.mean)
        lines.append(line)
        if run.runs > 1:
            axes.fill_between(curve.steps, curve.low, curve.high, color=line.get_color(), alpha=0.18, linewidth=0)
    axes.set(title="Fairness regret", xlabel="steps", ylabel="regret, added up over episodes", ylim=(0, None))
    axes.set_xlim(0, max(run.episodes * run.horizon for run in runs))
    axes.xaxis.set_major_formatter(_thousands)
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
    axes.set(title="Exposure", xlabel="arms, from least to most benefit", ylabel="chance of a pull at a step")
    axes.set_ylim(0, 1.05 * max(float(bars.given.max()), float(bars.fair.max())))
    axes.set_xticks(place if n_arms <= _MOST_TICKS else np.linspace(1, n_arms, 5).round())
    axes.grid(visible=False, axis="x")
    return mark


def _caption(run: Run) -> str:
    return run.description + (". Means of the runs; bands: the middle 80 % of them." if run.runs > 1 else "")


def _thousands(value: float, _: Any) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
