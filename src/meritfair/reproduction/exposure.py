"""Figure 1: who is pulled, under Optimal and under MF-RMAB (Section 6.3).

Exposure is the part of all steps, learning and all, at which an arm was pulled. The K arms with the largest true
benefit are those that Optimal is after; all others are its sub-optimal arms. *Ignored* is an arm that is pulled at
fewer than one in a hundred steps. *Misplaced* is the part of the pulls that would have to go to other arms for every
arm to have its fair exposure, half the L1 distance of exposures in parts of K; for K = 1 fair exposure is in proportion
to merit, Eq. (2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meritfair.core.figures import new_figure
from meritfair.lab.resampling import above, below, interval_columns, percent
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.figures import COLORS
from meritfair.reproduction.panels import add_legend, add_remark, outcome_of, remark, unless_short
from meritfair.simulation.metrics import Interval, interval

if TYPE_CHECKING:
    from typing import Any

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale

__all__ = ["FIGURE_1", "Exposures", "PolicyExposure", "policy_exposure"]

_DATASET, _SIZE = "synthetic", (5, 1)
_LABELS = {"optimal": "Optimal", "merit-fair": "MF-RMAB"}
_MARKS = {"optimal": "x", "merit-fair": "o"}
_WHERE = "Section 6.3, Figure 1"
_IGNORED = 0.01  # of the steps
_TENDS = 0.5  # of the sub-optimal arms have to be ignored
_MISPLACED = 0.05  # of the pulls


@dataclass(frozen=True)
class PolicyExposure:
    """What one policy gave, arms in order of their true benefit in each run.

    ``exposure`` and ``fair`` have shape (runs, N); ``by_rank`` has rows mean, low and high, shape (3, N).
    ``suboptimal`` is the part of the pulls that sub-optimal arms had, ``ignored`` the part of these arms that is
    ignored.
    """

    exposure: FloatArray
    fair: FloatArray
    by_rank: FloatArray
    misplaced: Interval
    suboptimal: Interval
    ignored: Interval


@dataclass(frozen=True)
class Exposures:
    """What is drawn: each policy by name, and a remark."""

    policies: dict[str, PolicyExposure]
    remark: str


def policy_exposure(outcome: Outcome, seed: int = 0) -> PolicyExposure:
    """Return what a policy gave, with intervals over runs."""
    order, budget = np.argsort(outcome.by_arm["benefit"], axis=1, kind="stable"), outcome.setting.budget
    given, fair = (np.take_along_axis(outcome.by_arm[name], order, axis=1) for name in ("exposure", "fair_exposure"))
    others = given[:, :-budget]
    return PolicyExposure(
        exposure=given,
        fair=fair,
        by_rank=np.array([interval(column, seed) for column in given.T]).T,
        misplaced=interval(np.abs(given - fair).sum(axis=1) / (2 * budget), seed),
        suboptimal=interval(others.sum(axis=1) / budget, seed),
        ignored=interval((others < _IGNORED).mean(axis=1), seed),
    )


def _specs(scale: Scale) -> tuple[Spec, ...]:
    return (scale.spec(datasets=(_DATASET,), sizes=(_SIZE,), policies=tuple(_LABELS)),)


def _analyse(results: Results, scale: Scale) -> Findings:
    found = {name: policy_exposure(outcome_of(results, scale, _DATASET, _SIZE, name), scale.seed) for name in _LABELS}
    ours, theirs = found["merit-fair"], found["optimal"]
    due = interval(theirs.fair[:, : -_SIZE[1]].sum(axis=1) / _SIZE[1], scale.seed)
    verdicts = (
        Verdict(
            "Optimal tends to ignore sub-optimal arms completely.",
            _WHERE,
            above(theirs.ignored, _TENDS),
            f"{_percent(theirs.ignored)} of the sub-optimal arms are pulled at fewer than one in {1 / _IGNORED:.0f} "
            f"steps (MF-RMAB: {_percent(ours.ignored)}). Together they have {_percent(theirs.suboptimal)} of the "
            f"pulls, where {_percent(due)} are due to them. Tends to, if more than half are ignored.",
        ),
        Verdict(
            "MF-RMAB gives exposure in proportion to merit, and so is fair.",
            _WHERE,
            below(ours.misplaced, _MISPLACED),
            f"{_percent(ours.misplaced)} of its pulls over the whole run would have to go to other arms, of Optimal's "
            f"{_percent(theirs.misplaced)}. In proportion, if fewer than {percent(_MISPLACED)} would.",
        ),
    )
    return Findings(
        numbers=Exposures(found, _remark(scale)),
        caption=(
            f"Exposure on {DATASETS[_DATASET]}, N = {_SIZE[0]}, K = {_SIZE[1]}: the part of all steps at which an arm "
            "was pulled. Left: arms in order of their true benefit in each run, means of the runs with 95 % "
            "intervals; black lines are what merit entitles them to. Right: each arm of each run by what it is "
            "entitled to; on the diagonal an arm has just that."
        ),
        tables=(_table(found),),
        verdicts=unless_short(verdicts, scale),
        headline=(
            f"{percent(theirs.misplaced.mean)} of Optimal's pulls go to other arms than merit says, of MF-RMAB's "
            f"{percent(ours.misplaced.mean, 1)}."
        ),
    )


def _remark(scale: Scale) -> str:
    played = remark(scale, f"{DATASETS[_DATASET]}, N = {_SIZE[0]}, K = {_SIZE[1]}").partition("\n")[0]
    return f"{played} Thin lines on the bars: 95 % intervals."


def _percent(value: Interval) -> str:
    ends = "" if np.isnan(value.low) else f" ({100 * value.low:.1f} to {100 * value.high:.1f})"
    return percent(value.mean, 1) + ends


def _table(found: dict[str, PolicyExposure]) -> PaperTable:
    """Return the exposure of each rank, and what it is entitled to."""
    fair = next(iter(found.values())).fair.mean(axis=0)
    ranks = range(1, len(fair) + 1)
    columns: dict[str, list[Any]] = {"rank": list(ranks), "fair_exposure": fair.tolist()}
    cells = [[str(rank), percent(due, 1)] for rank, due in zip(ranks, fair, strict=True)]
    for name, each in found.items():
        given = [Interval(*value) for value in each.by_rank.T.tolist()]
        columns |= interval_columns(name.replace("-", "_"), given)
        for row, value in zip(cells, given, strict=True):
            row.append(_percent(value))
    headings = ["arm, from least to most benefit", "fair exposure", *(_LABELS[name] for name in found)]
    return PaperTable("figure-1-exposure", "Exposure by rank of the true benefit", headings, cells, columns)


def _draw(numbers: Exposures) -> Figure:
    with new_figure(4.4) as figure:
        left, right = figure.subplots(1, 2)
        marks = _draw_ranks(left, numbers.policies)
        _draw_arms(right, numbers.policies)
        add_legend(figure, marks, [*(_LABELS[name] for name in numbers.policies), "fair exposure"])
        add_remark(figure, numbers.remark)
    return figure


def _draw_ranks(axes: Axes, policies: dict[str, PolicyExposure]) -> list[Any]:
    """Draw bars by rank, with intervals and fair exposures; return a mark of each kind."""
    marks: list[Any] = []
    for number, (name, each) in enumerate(policies.items()):
        mean, low, high = each.by_rank
        beside = np.arange(1, len(mean) + 1) + 0.4 * (number - 0.5)
        hatch = "//" * (name == "optimal")
        marks.append(axes.bar(beside, mean, 0.4, color=COLORS[name], hatch=hatch, edgecolor="white"))
        axes.vlines(beside, low, high, color="#444444", linewidth=1.2)
    fair = next(iter(policies.values())).fair.mean(axis=0)
    place = np.arange(1, len(fair) + 1)
    marks.append(axes.hlines(fair, place - 0.45, place + 0.45, color="black", linewidth=1.6, zorder=3))
    axes.set(title="By rank", xlabel="arms, from least to most benefit", ylabel="exposure: part of the steps pulled")
    axes.set(xticks=place, ylim=(0, 1))
    axes.grid(visible=False, axis="x")
    return marks


def _draw_arms(axes: Axes, policies: dict[str, PolicyExposure]) -> None:
    """Draw each arm of each run by what it is entitled to."""
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle=":")
    for name, each in policies.items():
        points = each.fair.ravel(), each.exposure.ravel()
        axes.plot(*points, _MARKS[name], color=COLORS[name], alpha=0.7, markersize=4)
    axes.set(title="Each arm of each run", xlabel="fair exposure", ylabel="exposure", xlim=(0, 1), ylim=(-0.02, 1.02))


FIGURE_1 = Artefact(
    name="figure-1",
    title="Figure 1: exposure under Optimal and MF-RMAB",
    about=(
        'Who is pulled, and how often? "Optimal", the paper\'s baseline, always pulls the arm with the largest '
        "estimated benefit, which may leave nothing for the others. MF-RMAB draws an arm with a chance in proportion "
        "to its estimated merit. Both learn as they go, on the authors' own instances."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
