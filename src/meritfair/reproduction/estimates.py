r"""What to believe of an arm: the posterior mean instead of the paper's upper corner of the ball.

The paper's theorem holds for every point of the confidence ball. Its policy believes the upper corner; `MeritFair` can
also believe the posterior mean (``estimate="mean"``). Both are played in the paper's experiment, on the same arms, and
held against the information limit (:func:`meritfair.model.theory.information_limit`), about the least regret that an
unbiased estimate can have.

Ratios are those of means over the same runs, with 95 % bootstrap intervals. A claim of a range ("7 to 16 times") holds
if every mean, rounded as in the claim, lies in it, does not if a whole interval lies outside, and cannot be told
otherwise. The claims are about 10,000 episodes, so a quick look never says that one fails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import draw_band, new_figure
from meritfair.lab.resampling import every, interval_columns, shown, span
from meritfair.model.theory import information_limit
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.figures import BAND, COLORS, band, label_steps
from meritfair.reproduction.panels import add_legend, add_remark, outcome_of, remark
from meritfair.simulation.metrics import interval, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.core.figures import Band
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["BELIEFS", "ESTIMATES", "WHERE", "Belief", "Case", "Curves", "Numbers", "draw_curves", "limits", "within"]

_SIZES = ((5, 1), (20, 4), (100, 20))
_SHOWN = 20  # the number of arms whose curves are drawn
_EPISODES = 10_000  # what the claims are about
_TIMES_LESS, _OF_LIMIT = (7, 16), (0.97, 1.08)
_MARKERS = dict(zip(DATASETS.values(), ("o", "s", "^"), strict=True))
_RATIOS = {"times_less": 1, "of_limit": 2}  # with how many digits
WHERE = "docs/settings.md, estimate"


@dataclass(frozen=True)
class Belief:
    """An estimate: what it is called, which policy has it, and how it is drawn."""

    label: str
    policy: str
    style: Mapping[str, Any]


BELIEFS = {
    "optimistic": Belief("optimistic, as in the paper", "merit-fair", {"color": COLORS["merit-fair"]}),
    "mean": Belief("posterior mean", "merit-fair:estimate=mean", {"color": COLORS["mean"], "linestyle": "--"}),
    "pooled": Belief("pooled mean", "merit-fair:estimate=pooled", {"color": COLORS["pooled"], "linestyle": "-."}),
}
_PLAYED = ("optimistic", "mean")


@dataclass(frozen=True)
class Case:
    """The regrets on one data set and size at the end, with the limit, and their ratios."""

    dataset: str
    n_arms: int
    budget: int
    optimistic: Interval
    mean: Interval
    limit: Interval
    times_less: Interval
    of_limit: Interval


@dataclass(frozen=True)
class Curves:
    """Regret over time: a band for each estimate, and a limit if there is one."""

    title: str
    bands: Mapping[str, Band]
    limit: FloatArray | None = None


@dataclass(frozen=True)
class Numbers:
    """What the figure shows: curves of one size, and the ratios at the end of all."""

    curves: tuple[Curves, ...]
    cases: tuple[Case, ...]
    remark: str


def within(value: Interval, low: float, high: float) -> bool | None:
    """Return whether a value lies in a range, None if only its interval reaches it, or there is none.

    Examples
    --------
    >>> from meritfair.simulation.metrics import Interval
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


def _specs(scale: Scale) -> tuple[Spec, ...]:
    policies = tuple(BELIEFS[name].policy for name in _PLAYED)
    return (scale.spec(datasets=tuple(DATASETS), sizes=_SIZES, policies=policies),)


def _case(dataset: str, optimistic: Outcome, mean: Outcome, limit: FloatArray, seed: int) -> Case:
    setting = mean.setting
    upper, middle = (each.measures["fairness_regret"] for each in (optimistic, mean))
    return Case(
        dataset=dataset,
        n_arms=setting.n_arms,
        budget=setting.budget,
        optimistic=interval(upper, seed),
        mean=interval(middle, seed),
        limit=interval(limit, seed),
        times_less=ratio_interval(upper, middle, seed),
        of_limit=ratio_interval(middle, limit, seed),
    )


def _analyse(results: Results, scale: Scale) -> Findings:
    cases, curves = [], []
    for dataset, label in DATASETS.items():
        for size in _SIZES:
            found = {name: outcome_of(results, scale, dataset, size, BELIEFS[name].policy) for name in _PLAYED}
            limit = limits(found["mean"])
            cases.append(_case(label, **found, limit=limit[:, -1], seed=scale.seed))
            if size[0] == _SHOWN:
                title = f"{label}, N = {_SHOWN}"
                curves.append(Curves(title, {name: band(each) for name, each in found.items()}, limit.mean(axis=0)))
    return Findings(
        Numbers(
            tuple(curves), tuple(cases), remark(scale, "K = N/5", more="Bars: 95 % intervals; grey: what is claimed.")
        ),
        "Above: fairness regret added up over steps, both axes logarithmic. "
        f"{BAND} The dotted line is the information limit, about the least regret that any unbiased estimate can "
        "have. Below, at the end: the regret of the paper's estimate, as a multiple of that of the posterior mean, and "
        "that of the mean, as a multiple of the limit. Bars: 95 % bootstrap intervals; grey: what is claimed.",
        (_table(cases),),
        _verdicts(cases, scale),
        f"The posterior mean in place of the paper's optimistic estimate has {_spanned(cases, 'times_less', 0)} times "
        f"less fairness regret: {_spanned(cases, 'of_limit', 2)} of the least possible.",
    )


def _spanned(cases: Sequence[Case], name: str, digits: int) -> str:
    return span((getattr(each, name).mean for each in cases), digits)


def _verdicts(cases: Sequence[Case], scale: Scale) -> tuple[Verdict, ...]:
    short = scale.episodes < _EPISODES
    after = f"after {scale.episodes:,} episodes" + f" (the claim is about {_EPISODES:,})" * short
    by_dataset = [[each for each in cases if each.dataset == label] for label in DATASETS.values()]
    less = "; ".join(f"{each[0].dataset} {_spanned(each, 'times_less', 1)}" for each in by_dataset)
    farthest = max((each.of_limit for each in cases), key=lambda found: abs(math.log(found.mean)))
    paper = span((each.optimistic.mean / each.limit.mean for each in cases), 1)

    def all_in(name: str, low: float, high: float) -> bool | None:
        rounding = 0.5 if name == "times_less" else 0.005
        answer = every(within(getattr(each, name), low - rounding, high + rounding) for each in cases)
        return None if short and answer is False else answer

    return (
        Verdict(
            "The posterior mean has {} to {} times less fairness regret than the paper's estimate.".format(
                *_TIMES_LESS
            ),
            WHERE,
            all_in("times_less", *_TIMES_LESS),
            f"Regret of the paper's estimate over that of the mean {after}: {less}.",
        ),
        Verdict(
            "The posterior mean has {} to {} of the information limit.".format(*_OF_LIMIT),
            WHERE,
            all_in("of_limit", *_OF_LIMIT),
            f"{_spanned(cases, 'of_limit', 2)} of the limit {after}; the farthest from it is {shown(farthest)}. The "
            f"paper's estimate has {paper}.",
        ),
    )


def _table(cases: Sequence[Case]) -> PaperTable:
    digits = {"optimistic": 0, "mean": 1, "limit": 1, **_RATIOS}
    found = {name: [getattr(each, name) for each in cases] for name in digits}
    cells = [
        [each.dataset, f"{each.n_arms}, {each.budget}", *(shown(found[name][i], digits[name]) for name in digits)]
        for i, each in enumerate(cases)
    ]
    columns = {name: [getattr(each, name) for each in cases] for name in ("dataset", "n_arms", "budget")}
    for name, column in found.items():
        columns |= interval_columns(name, column)
    headings = ["data set", "N, K", "optimistic", "mean", "limit", "optimistic / mean", "mean / limit"]
    return PaperTable("estimates", "Fairness regret at the end, with 95 % intervals", headings, cells, columns)


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.2) as figure:
        axes = figure.subplot_mosaic("aabbcc;dddeee", height_ratios=(1.1, 1))
        for place, curves in zip("abc", numbers.curves, strict=True):
            axes[place].set(xscale="log", yscale="log")
            lines = draw_curves(axes[place], curves)
            label_steps(axes[place])
        axes["a"].set_ylabel("regret, added up over episodes")
        add_legend(figure, lines, [*(BELIEFS[name].label for name in numbers.curves[0].bands), "information limit"])
        _draw_ratios(axes["d"], numbers.cases, "times_less", _TIMES_LESS)
        axes["d"].set(title="How many times less regret", xlabel="regret of optimistic / regret of mean")
        axes["d"].set_xlim(0, None)
        _draw_ratios(axes["e"], numbers.cases, "of_limit", _OF_LIMIT)
        axes["e"].axvline(1, color=COLORS["limit"], linestyle=":", linewidth=1.4)
        axes["e"].set(title="How near to the limit", xlabel="regret of mean / information limit")
        add_remark(figure, numbers.remark)
    return figure


def draw_curves(axes: Axes, curves: Curves) -> list[Any]:
    """Draw the bands of estimates, and the limit if there is one; return their lines."""
    lines = [draw_band(axes, each, **BELIEFS[name].style) for name, each in curves.bands.items()]
    if curves.limit is not None:
        steps = next(iter(curves.bands.values())).steps
        lines += axes.plot(steps, curves.limit, color=COLORS["limit"], linestyle=":", linewidth=1.6, zorder=4)
    axes.set_title(curves.title, fontsize=10)
    return lines


def _draw_ratios(axes: Axes, cases: Sequence[Case], name: str, claimed: tuple[float, float]) -> None:
    """Draw a row for each case, named at its left, and what is claimed of all as a grey strip."""
    color = COLORS["mean"]
    axes.axvspan(*claimed, color="#E9E9E9", linewidth=0, zorder=0)
    for row, case in enumerate(cases):
        found: Interval = getattr(case, name)
        axes.plot(found[1:], [row, row], color=color, linewidth=1.4)
        axes.plot(found.mean, row, color=color, marker=_MARKERS[case.dataset], markersize=6, label=case.dataset)
    axes.set_yticks(range(len(cases)), [f"N = {each.n_arms}" for each in cases])
    axes.set_ylim(len(cases) - 0.5, -0.5)
    for edge in range(len(_SIZES), len(cases), len(_SIZES)):
        axes.axhline(edge - 0.5, color="#CCCCCC", linewidth=0.8)
    if name == "times_less":  # where there is room, as this axis begins at 0
        for row in range(0, len(cases), len(_SIZES)):
            axes.text(0.015, row + 1, cases[row].dataset, transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    axes.grid(visible=False, axis="y")


ESTIMATES = Artefact(
    name="estimates",
    title="Ours: the posterior mean instead of the upper corner",
    about=(
        "The paper believes of each arm the most that its confidence ball allows. Its theorem holds for every other "
        "point of the ball as well. Here the same policy believes the posterior mean, on the same arms with the same "
        "budget, and both are held against the information limit: about the least regret that any unbiased estimate "
        "can have."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
