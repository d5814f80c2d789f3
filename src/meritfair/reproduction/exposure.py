"""Figure 1: who is pulled, under Optimal and under MF-RMAB (Section 6.3).

Exposure is the part of all steps, learning and all, at which an arm was pulled. The K arms with the largest true
benefit are those that Optimal is after; all others are its sub-optimal arms. *Ignored* is an arm that is pulled at
fewer than one in a hundred steps. *Misplaced* is the part of the pulls that would have to go to other arms for every
arm to have its fair exposure, half the L1 distance of exposures in parts of K; for K = 1 fair exposure is in proportion
to merit, Eq. (2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import new_figure
from meritfair.lab.resampling import above, below
from meritfair.lab.tasks import Outcome
from meritfair.reproduction.artefact import Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend
from meritfair.reproduction.prose import compose
from meritfair.simulation.bootstrap import Interval, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DATASET, _SIZE = "synthetic", (5, 1)
_LABELS = {"optimal": "Optimal", "merit-fair": "MF-RMAB"}
_MARKS = {"optimal": "x", "merit-fair": "o"}
_IGNORED = 0.01  # of the steps
_TENDS = 0.5  # of the sub-optimal arms have to be ignored
_MISPLACED = 0.05  # of the pulls


@dataclass(frozen=True)
class PolicyExposure:
    """What one policy gave, arms in order of their true benefit in each run.

    ``exposure`` and ``fair`` have shape (runs, N); ``by_rank`` has the mean exposure of each rank. ``suboptimal`` is
    the part of the pulls that sub-optimal arms had, ``ignored`` the part of these arms that is ignored.
    """

    exposure: FloatArray
    fair: FloatArray
    by_rank: list[Interval]
    misplaced: Interval
    suboptimal: Interval
    ignored: Interval


def policy_exposure(outcome: Outcome, seed: int = 0) -> PolicyExposure:
    """Return what a policy gave, with intervals over runs."""
    order, budget = np.argsort(outcome.by_arm["benefit"], axis=1, kind="stable"), outcome.setting.budget
    given, fair = (np.take_along_axis(outcome.by_arm[name], order, axis=1) for name in ("exposure", "fair_exposure"))
    others = given[:, :-budget]
    return PolicyExposure(
        exposure=given,
        fair=fair,
        by_rank=[interval(column, seed) for column in given.T],
        misplaced=interval(np.abs(given - fair).sum(axis=1) / (2 * budget), seed),
        suboptimal=interval(others.sum(axis=1) / budget, seed),
        ignored=interval((others < _IGNORED).mean(axis=1), seed),
    )


def _specs(scale: Scale) -> Specs:
    return (scale.spec(datasets=(_DATASET,), sizes=(_SIZE,), policies=tuple(_LABELS)),)


def _analyse(results: Results, scale: Scale) -> Findings:
    found = {name: policy_exposure(scale.outcome(results, _DATASET, _SIZE, name), scale.seed) for name in _LABELS}
    theirs, ours = found["optimal"], found["merit-fair"]
    verdicts = {"ignores": above(theirs.ignored, _TENDS), "fair": below(ours.misplaced, _MISPLACED)}
    ranks = [
        {"rank": k + 1, "fair_exposure": due, "optimal": theirs.by_rank[k], "merit_fair": ours.by_rank[k]}
        for k, due in enumerate(theirs.fair.mean(axis=0).tolist())
    ]
    return compose(
        "figure-1",
        scale,
        found,
        specs=_specs,
        verdicts=verdicts,
        tables={"figure-1-exposure": ranks},
        due=interval(theirs.fair[:, : -_SIZE[1]].sum(axis=1) / _SIZE[1], scale.seed),
        ignored=_IGNORED,
        misplaced=_MISPLACED,
    )


def _draw(policies: dict[str, PolicyExposure]) -> Figure:
    with new_figure(4.4) as figure:
        left, right = figure.subplots(1, 2)
        marks = _draw_ranks(left, policies)
        _draw_arms(right, policies)
        add_legend(figure, marks, [*(_LABELS[name] for name in policies), "fair exposure"])
    return figure


def _draw_ranks(axes: Axes, policies: dict[str, PolicyExposure]) -> list[Any]:
    """Draw bars by rank, with intervals and fair exposures; return a mark of each kind."""
    marks: list[Any] = []
    for number, (name, each) in enumerate(policies.items()):
        mean, low, high = np.array(each.by_rank).T
        beside = np.arange(1, len(mean) + 1) + 0.4 * (number - 0.5)
        hatch = "//" * (name == "optimal")
        marks.append(axes.bar(beside, mean, 0.4, color=COLORS[name], hatch=hatch, edgecolor="white"))
        axes.vlines(beside, low, high, color="#444444", linewidth=1.2)
    fair = next(iter(policies.values())).fair.mean(axis=0)
    place = np.arange(1, len(fair) + 1)
    marks.append(axes.hlines(fair, place - 0.45, place + 0.45, color="black", linewidth=1.6, zorder=3))
    axes.set(title="By rank", xlabel="arms, from least to most benefit", ylabel="exposure: share of the steps")
    axes.set(xticks=place, ylim=(0, 1))
    axes.grid(visible=False, axis="x")
    return marks


def _draw_arms(axes: Axes, policies: dict[str, PolicyExposure]) -> None:
    """Draw each arm of each run by its fair exposure."""
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle=":")
    for name, each in policies.items():
        axes.plot(each.fair.ravel(), each.exposure.ravel(), _MARKS[name], color=COLORS[name], alpha=0.7, markersize=4)
    axes.set(title="Each arm of each run", xlabel="fair exposure", ylabel="exposure", xlim=(0, 1), ylim=(-0.02, 1.02))


FIGURE_1 = Artefact("figure-1", "Figure 1: exposure under Optimal and MF-RMAB", _specs, _analyse, _draw)
