r"""How to estimate an arm: by the posterior mean instead of the paper's upper corner of the ball.

The paper's theorem holds for every point of the confidence ball. Its policy takes the upper corner; `MeritFair` can
also take the posterior mean (``estimate="mean"``). Both are played in the paper's experiment, on the same arms, and
compared with the information limit (:func:`meritfair.model.theory.information_limit`), about the least regret that an
unbiased estimate can have.

Ratios are those of means over the same runs, with 95 % bootstrap intervals. A claim of a range ("7 to 16 times") holds
if every mean, rounded as in the claim, lies in it, does not if a whole interval lies outside, and is inconclusive
otherwise. The claims are about 10,000 episodes, so a quick look never says that one fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.resampling import every
from meritfair.lab.tasks import Outcome
from meritfair.model.theory import information_limit
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend, band, label_steps
from meritfair.reproduction.prose import Rows, compose, place
from meritfair.simulation.bootstrap import Interval, interval, ratio_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZES = ((5, 1), (20, 4), (100, 20))
_SHOWN = 20  # the number of arms whose curves are drawn
_TIMES_LESS, _OF_LIMIT = (7, 16), (0.97, 1.08)
_MARKERS = dict(zip(DATASETS.values(), ("o", "s", "^"), strict=True))


class Estimator(NamedTuple):
    """An estimate: what it is called, which policy has it, and how it is drawn."""

    label: str
    policy: str
    style: Mapping[str, Any]


ESTIMATORS = {
    "optimistic": Estimator("optimistic, as in the paper", "merit-fair", {"color": COLORS["merit-fair"]}),
    "mean": Estimator("posterior mean", "merit-fair:estimate=mean", {"color": COLORS["mean"], "linestyle": "--"}),
    "pooled": Estimator("pooled mean", "merit-fair:estimate=pooled", {"color": COLORS["pooled"], "linestyle": "-."}),
}
_PLAYED = ("optimistic", "mean")


class Curves(NamedTuple):
    """Regret over time: a band for each estimate, and a limit if there is one."""

    title: str
    bands: Mapping[str, Band]
    limit: FloatArray | None = None


class Numbers(NamedTuple):
    """What the figure shows: curves of one size, and regrets and their ratios at the end of all."""

    curves: tuple[Curves, ...]
    cases: Rows


def within(value: Interval, low: float, high: float) -> bool | None:
    """Return whether a value lies in a range, None if only its interval reaches it, or there is none.

    Examples
    --------
    >>> from meritfair.simulation.bootstrap import Interval
    >>> within(Interval(8.0, 5.0, 20.0), 7, 16), within(Interval(6.0, 5.0, 8.0), 7, 16)
    (True, None)
    >>> within(Interval(5.0, 4.0, 6.0), 7, 16)
    False
    """
    if math.isnan(value.mean + value.low + value.high):
        return None
    return True if low <= value.mean <= high else False if value.high < low or value.low > high else None


def limits(outcome: Outcome) -> FloatArray:
    """Return the information limit of each run at the episodes that are kept, shape (runs, points)."""
    setting, merit = outcome.setting, outcome.setting.criterion.merit
    arms = setting.arms(range(int(outcome.runs[0]), int(outcome.runs[-1]) + 1))
    each = [information_limit(a, setting.budget, outcome.episodes, setting.horizon, merit) for a in arms]
    return np.stack(each)


def _specs(scale: Scale) -> Specs:
    policies = tuple(ESTIMATORS[name].policy for name in _PLAYED)
    return (scale.spec(datasets=tuple(DATASETS), sizes=_SIZES, policies=policies),)


def _case(optimistic: Outcome, mean: Outcome, limit: FloatArray, seed: int) -> Mapping[str, Any]:
    """Return the regrets on one data set and size at the end, with the limit, and their ratios."""
    upper, middle = (each.measures["fairness_regret"] for each in (optimistic, mean))
    return {
        **place(mean.setting),
        "optimistic": interval(upper, seed),
        "mean": interval(middle, seed),
        "limit": interval(limit, seed),
        "times_less": ratio_interval(upper, middle, seed),
        "of_limit": ratio_interval(middle, limit, seed),
    }


def _analyse(results: Results, scale: Scale) -> Findings:
    cases, curves = [], []
    for dataset, label in DATASETS.items():
        for size in _SIZES:
            found = {name: scale.outcome(results, dataset, size, ESTIMATORS[name].policy) for name in _PLAYED}
            limit = limits(found["mean"])
            cases.append(_case(**found, limit=limit[:, -1], seed=scale.seed))
            if size[0] == _SHOWN:
                title = f"{label}, N = {_SHOWN}"
                curves.append(Curves(title, {name: band(each) for name, each in found.items()}, limit.mean(axis=0)))
    (low, high), (least, most) = _TIMES_LESS, _OF_LIMIT
    verdicts = {
        "less": every(within(case["times_less"], low - 0.5, high + 0.5) for case in cases),
        "limit": every(within(case["of_limit"], least - 0.005, most + 0.005) for case in cases),
    }
    return compose(
        "estimates",
        scale,
        Numbers(tuple(curves), cases),
        specs=_specs,
        verdicts=verdicts,
        tables={"estimates": cases},
        claimed={"times_less": _TIMES_LESS, "of_limit": _OF_LIMIT},
        farthest=max((case["of_limit"] for case in cases), key=lambda found: abs(math.log(found.mean))),
        paper=[case["optimistic"].mean / case["limit"].mean for case in cases],
    )


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.2) as figure:
        axes = figure.subplot_mosaic("aabbcc;dddeee", height_ratios=(1.1, 1))
        for letter, curves in zip("abc", numbers.curves, strict=True):
            axes[letter].set(xscale="log", yscale="log")
            lines = draw_curves(axes[letter], curves)
            label_steps(axes[letter])
        axes["a"].set_ylabel("regret, added up over episodes")
        add_legend(figure, lines, [*(ESTIMATORS[name].label for name in _PLAYED), "information limit"])
        _draw_ratios(axes["d"], numbers.cases, [case["times_less"] for case in numbers.cases], _TIMES_LESS)
        axes["d"].set(title="How many times less regret", xlabel="regret of optimistic / regret of mean")
        axes["d"].set_xlim(0, None)
        for row in range(0, len(numbers.cases), len(_SIZES)):  # there is room, as this axis begins at 0
            where, name = axes["d"].get_yaxis_transform(), numbers.cases[row]["dataset"]
            axes["d"].text(0.015, row + 1, name, transform=where, va="center", fontsize=9)
        _draw_ratios(axes["e"], numbers.cases, [case["of_limit"] for case in numbers.cases], _OF_LIMIT)
        axes["e"].axvline(1, color=COLORS["limit"], linestyle=":", linewidth=1.4)
        axes["e"].set(title="How near to the limit", xlabel="regret of mean / information limit")
    return figure


def draw_curves(axes: Axes, curves: Curves) -> list[Any]:
    """Draw the bands of estimates, and the limit if there is one; return their lines."""
    lines = [draw_band(axes, each, **ESTIMATORS[name].style) for name, each in curves.bands.items()]
    if curves.limit is not None:
        steps = next(iter(curves.bands.values())).steps
        lines += axes.plot(steps, curves.limit, color=COLORS["limit"], linestyle=":", linewidth=1.6, zorder=4)
    axes.set_title(curves.title, fontsize=10)
    return lines


def _draw_ratios(axes: Axes, cases: Rows, ratios: Sequence[Interval], claimed: tuple[float, float]) -> None:
    """Draw a row for each case, named at its left, and what is claimed of all as a grey strip."""
    color = COLORS["mean"]
    axes.axvspan(*claimed, color="#E9E9E9", linewidth=0, zorder=0)
    for row, (case, found) in enumerate(zip(cases, ratios, strict=True)):
        axes.plot(found[1:], [row, row], color=color, linewidth=1.4)
        axes.plot(found.mean, row, color=color, marker=_MARKERS[case["dataset"]], markersize=6)
    axes.set_yticks(range(len(cases)), [f"N = {case['n_arms']}" for case in cases])
    axes.set_ylim(len(cases) - 0.5, -0.5)
    for edge in range(len(_SIZES), len(cases), len(_SIZES)):
        axes.axhline(edge - 0.5, color="#CCCCCC", linewidth=0.8)
    axes.grid(visible=False, axis="y")


ESTIMATES = Artefact("estimates", "Beyond the paper: the posterior mean as the estimate", _specs, _analyse, _draw)
