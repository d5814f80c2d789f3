r"""How K arms are drawn: one after another by merit, as in the paper, or with exposures in proportion to merit.

For K > 1, arms drawn one after another (design ``sequential``) have exposures :math:`s_i` that are not in proportion to
merit; :func:`meritfair.fair_exposure` computes them by an integral. The design ``exact`` has
:math:`e_i = \min(1, \lambda g_i)`, which is. The part of the budget that goes to other arms than merit says is

.. math:: \frac{1}{2K} \sum_i |s_i - e_i| .

It is computed, and it is measured from the pulls of `FairOracle`, which knows the arms, so that nothing but the draw
can be wrong. Pulls are counted over n steps, so even a perfect draw misses by chance; as an arm's pulls are independent
between steps, by about

.. math:: \frac{1}{2K} \sum_i \sqrt{\frac{2}{\pi} \, \frac{p_i (1 - p_i)}{n}}

on average, where :math:`p_i` is the exposure that the draw should have. What a policy makes of it that has to learn the
arms is told by the regret on exposures of `MeritFair` (estimate ``mean``) against :math:`e`: with the exact draw each
episode has less of it, with the sequential one it comes to rest at the part above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import draw_band, new_figure
from meritfair.core.texts import several
from meritfair.lab.resampling import above, below, every, interval_columns, percent, shown, span
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.figures import BAND, COLORS, band, label_steps
from meritfair.reproduction.growth import SUBLINEAR, exponent
from meritfair.reproduction.panels import add_legend, add_remark
from meritfair.simulation.metrics import interval, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.core.figures import Band
    from meritfair.lab.spec import Setting, Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["DESIGNS", "Drawn", "Learned", "Numbers", "misplaced"]

_SIZES = ((10, 2), (20, 4), (40, 8), (100, 20))
_LEARNED = (20, 4)
_KINDS = ("sequential", "exact")
_SYNTHETIC, _CPAP, _LARGEST = (0.02, 0.12), (0.005, 0.015), 0.115
_BY_CHANCE = 1.25  # a measured miss of up to so many times what chance makes
_LATE = 0.1  # the last part of a run
_STILL = 0.9
_INSTANCES = 30  # of each size, in the paper
_WHERE = "docs/settings.md, design"
_STYLES: dict[str, dict[str, Any]] = {
    "sequential": {"color": COLORS["merit-fair"]},
    "exact": {"color": COLORS["mean"], "linestyle": "--"},
}
_MARKERS = {"sequential": "o", "exact": "s"}
_HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markersize": 7.5, "markeredgewidth": 1.5, "clip_on": False}


@dataclass(frozen=True, eq=False)
class Drawn:
    """Where the budget went with known merits, in each run: parts of the budget, shape (runs,).

    ``computed`` is what the sequential draw misplaces. By design, ``measured`` is the part of the pulls that was
    misplaced, ``missed`` how far they were from what the design should do, ``chance`` how far chance makes that.
    """

    dataset: str
    n_arms: int
    budget: int
    computed: FloatArray
    measured: dict[str, FloatArray]
    missed: dict[str, FloatArray]
    chance: dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Learned:
    """What a policy made of each design that had to learn the arms.

    ``late`` is the part of the budget that was misplaced in the last tenth of the run, and ``computed`` what the
    sequential draw would misplace with known merits; shape (runs,).
    """

    dataset: str
    bands: dict[str, Band]
    growth: dict[str, Interval]
    late: dict[str, FloatArray]
    computed: FloatArray


@dataclass(frozen=True)
class Numbers:
    """What the figure shows."""

    learned: tuple[Learned, ...]
    drawn: tuple[Drawn, ...]
    remark: str


def misplaced(given: FloatArray, due: FloatArray, budget: int) -> FloatArray:
    """Return the part of the budget that goes to other arms than it should.

    Examples
    --------
    >>> misplaced(np.array([0.81, 0.47, 0.47, 0.25]), np.array([1.0, 0.4, 0.4, 0.2]), budget=2).round(3).item()
    0.095
    """
    return np.asarray(np.abs(given - due).sum(axis=-1) / (2 * budget))


def _specs(scale: Scale) -> tuple[Spec, ...]:
    same = {"datasets": tuple(DATASETS), "episodes": scale.episodes_of(1000)}
    known = (scale.spec(sizes=_SIZES, policies=("fair-oracle",), design=kind, **same) for kind in _KINDS)
    learning = tuple(f"merit-fair:design={kind},estimate=mean" for kind in _KINDS)
    sizes = (_LEARNED,)
    return (*known, scale.spec(sizes=sizes, policies=learning, design="exact", exposure_regret=True, **same))


def _drawn(dataset: str, outcomes: Mapping[str, Outcome]) -> Drawn:
    setting = outcomes["exact"].setting
    budget, steps = setting.budget, setting.episodes * setting.horizon
    given = {kind: each.by_arm["exposure"] for kind, each in outcomes.items()}
    should = {kind: each.by_arm["fair_exposure"] for kind, each in outcomes.items()}  # each by its own design
    spread = {kind: np.sqrt(2 / np.pi * p * (1 - p) / steps) for kind, p in should.items()}
    return Drawn(
        dataset,
        setting.n_arms,
        budget,
        computed=misplaced(should["sequential"], should["exact"], budget),
        measured={kind: misplaced(given[kind], should["exact"], budget) for kind in _KINDS},
        missed={kind: misplaced(given[kind], should[kind], budget) for kind in _KINDS},
        chance={kind: each.sum(axis=1) / (2 * budget) for kind, each in spread.items()},
    )


def _late(outcome: Outcome) -> FloatArray:
    """Return the part of the budget that was misplaced in the last tenth of the run, of each run."""
    total, episodes = outcome.curves["exposure_regret"], outcome.episodes
    start = min(int(np.searchsorted(episodes, (1 - _LATE) * episodes[-1])), len(episodes) - 2)
    each = (total[:, -1] - total[:, start]) / (episodes[-1] - episodes[start])
    return np.asarray(each / (2 * outcome.setting.budget))


def _learned(dataset: str, outcomes: Mapping[str, Outcome], computed: FloatArray, seed: int) -> Learned:
    return Learned(
        dataset,
        {kind: band(each, "exposure_regret") for kind, each in outcomes.items()},
        {kind: exponent(each, seed, "exposure_regret") for kind, each in outcomes.items()},
        {kind: _late(each) for kind, each in outcomes.items()},
        computed,
    )


def _analyse(results: Results, scale: Scale) -> Findings:
    *known, learning = _specs(scale)
    drawn, learned = [], []
    for dataset, label in DATASETS.items():
        for size in _SIZES:
            of = [next(s for s in spec.settings() if _place(s) == (dataset, *size)) for spec in known]
            drawn.append(_drawn(label, {kind: results[s] for kind, s in zip(_KINDS, of, strict=True)}))
            if size == _LEARNED:
                of = [s for s in learning.settings() if s.dataset == dataset]
                outcomes = {kind: results[s] for kind, s in zip(_KINDS, of, strict=True)}
                learned.append(_learned(label, outcomes, drawn[-1].computed, scale.seed))
    parts = span((100 * each.computed.mean() for each in drawn), 1)
    beyond = max(0.0, *(float((each.missed["exact"] - each.chance["exact"]).mean()) for each in drawn))
    remark = (
        f"The authors' instances · {learning.episodes:,} episodes of 200 steps · "
        f"{several(learning.runs, 'run')} · merit exp(3 · benefit) · seed {learning.seed}.\n"
        f"{BAND} Below: means of the instances, with lines from the least to the largest."
    )
    return Findings(
        Numbers(tuple(learned), tuple(drawn), remark),
        "Above: how far a policy that learns (estimate mean) is from exposures in proportion to merit, added up over "
        f"episodes. {BAND} Below: the part of the budget that goes to other arms than merit says when merits are "
        "known, measured from pulls: means over instances, with lines from the least to the largest; crosses are "
        "computed. A perfect draw would not measure 0 either, as pulls are counted over a limited time; the table says "
        "what chance makes.",
        (_table(drawn, scale.seed),),
        (*_drawn_verdicts(drawn, scale.seed), *_learned_verdicts(learned, scale.seed)),
        f"Drawing several arms one after another sends {parts} % of the budget to other arms than merit says; the "
        f"exact design at most {percent(beyond, 2)} beyond chance.",
    )


def _place(setting: Setting) -> tuple[str, int, int]:
    return setting.dataset, setting.n_arms, setting.budget


def _drawn_verdicts(drawn: Sequence[Drawn], seed: int) -> tuple[Verdict, ...]:
    parts = {label: [interval(e.computed, seed) for e in drawn if e.dataset == label] for label in DATASETS.values()}
    bounds = {label: _CPAP if label == "CPAP" else _SYNTHETIC for label in parts}
    largest = max(float(each.computed.max()) for each in drawn)
    ratios = {kind: [ratio_interval(each.missed[kind], each.chance[kind], seed) for each in drawn] for kind in _KINDS}
    each = "; ".join(f"{label} {span((100 * part.mean for part in of), 1)} %" for label, of in parts.items())
    worst = max(float(each.measured["exact"].mean()) for each in drawn)
    return (
        Verdict(
            "Drawn one after another, 2 to 12 % of the budget goes to other arms than merit says on the two Synthetic "
            "data sets, and about 1 % on CPAP.",
            _WHERE,
            every(
                answer
                for label, of in parts.items()
                for part in of
                for answer in (above(part, bounds[label][0]), below(part, bounds[label][1]))
            ),
            f"Means over instances, for N = {', '.join(str(n) for n, _ in _SIZES)}, computed: {each}.",
        ),
        Verdict(
            "On no instance of the paper is that more than 11 %.",
            "docs/theory.md, Section 1",
            False if largest >= _LARGEST else True if len(drawn[0].computed) >= _INSTANCES else None,
            f"At most {percent(largest, 1)} on {sum(len(each.computed) for each in drawn)} instances.",
        ),
        Verdict(
            "The exact design sends nothing to other arms.",
            _WHERE,
            every(below(found, _BY_CHANCE) for found in ratios["exact"]),
            f"Measured from pulls, at most {percent(worst, 2)} on average, which is {_times(ratios['exact'])} times "
            "what chance makes of a perfect draw.",
        ),
        Verdict(
            "The exposures of a sequential draw are computed exactly.",
            "docs/paper.md, Pr(K)",
            every(below(found, _BY_CHANCE) for found in ratios["sequential"]),
            f"Pulls are {_times(ratios['sequential'])} times as far from them as chance makes them.",
        ),
    )


def _times(ratios: Sequence[Interval]) -> str:
    return span((each.mean for each in ratios), 2)


def _learned_verdicts(learned: Sequence[Learned], seed: int) -> tuple[Verdict, ...]:
    still = {each.dataset: ratio_interval(each.late["sequential"], each.computed, seed) for each in learned}
    late = "; ".join(
        f"{each.dataset} {percent(each.late['sequential'].mean(), 1)}, exact {percent(each.late['exact'].mean(), 1)}"
        for each in learned
    )
    growth = "; ".join(f"{each.dataset} {shown(each.growth['exact'])}" for each in learned)
    return (
        Verdict(
            "Learning does not mend the sequential draw: what it misplaces with known merits it goes on misplacing.",
            _WHERE,
            every(above(each, _STILL) for each in still.values()),
            f"Part of the budget that is misplaced in the last tenth of the run: {late}.",
        ),
        Verdict(
            "With the exact design, regret on exposures grows more slowly than T, for K > 1 too.",
            "docs/theory.md, Section 4",
            every(below(each.growth["exact"], SUBLINEAR) for each in learned),
            f"It grows as T to the power of {growth}; holds if that is below {SUBLINEAR}.",
        ),
    )


def _table(drawn: Sequence[Drawn], seed: int) -> PaperTable:
    measures = {
        "computed": [interval(100 * each.computed, seed) for each in drawn],
        "measured_sequential": [interval(100 * each.measured["sequential"], seed) for each in drawn],
        "measured_exact": [interval(100 * each.measured["exact"], seed) for each in drawn],
        "chance": [interval(100 * each.chance["exact"], seed) for each in drawn],
    }
    largest = [100 * float(each.computed.max()) for each in drawn]
    cells = [
        [each.dataset, f"{each.n_arms}, {each.budget}", *(shown(column[i]) for column in measures.values())]
        for i, each in enumerate(drawn)
    ]
    cells = [[*row, f"{most:.2f}"] for row, most in zip(cells, largest, strict=True)]
    columns: dict[str, Sequence[Any]] = {
        name: [getattr(each, name) for each in drawn] for name in ("dataset", "n_arms", "budget")
    }
    for name, column in measures.items():
        columns |= interval_columns(name, column)
    columns["largest_computed"] = largest
    headings = ["data set", "N, K", "sequential, computed", "sequential, measured", "exact, measured", "by chance"]
    title = "Percent of the budget that goes to other arms than merit says, with 95 % intervals"
    return PaperTable("designs", title, [*headings, "sequential, largest"], cells, columns)


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.0) as figure:
        axes = figure.subplot_mosaic("abc;ddd", height_ratios=(1.1, 1))
        for place, each in zip("abc", numbers.learned, strict=True):
            lines = [draw_band(axes[place], each.bands[kind], **_STYLES[kind]) for kind in _KINDS]
            axes[place].set_title(f"{each.dataset}, N = {_LEARNED[0]}, K = {_LEARNED[1]}", fontsize=9.5)
            axes[place].set(xlim=(0, None), ylim=(0, None))
            label_steps(axes[place])
        axes["a"].set_ylabel("regret on exposures, added up")
        marks = _draw_parts(axes["d"], numbers.drawn)
        names = ["sequential, as in the paper", "exact", "sequential, computed"]
        add_legend(figure, [*lines, marks], names)
        add_remark(figure, numbers.remark)
    return figure


def _draw_parts(axes: Axes, drawn: Sequence[Drawn]) -> Any:
    """Draw the parts of the budget that are misplaced, a group for each data set; return the mark of computed ones."""
    place = np.arange(len(drawn)) + 0.7 * (np.arange(len(drawn)) // len(_SIZES))
    for kind, shift in zip(_KINDS, (-0.12, 0.12), strict=True):
        color = _STYLES[kind]["color"]
        parts = [100 * each.measured[kind] for each in drawn]
        axes.vlines(
            place + shift, [p.min() for p in parts], [p.max() for p in parts], color=color, linewidth=1.4, zorder=2
        )
        means = [p.mean() for p in parts]
        axes.plot(place + shift, means, _MARKERS[kind], color=color, **_HOLLOW)
    computed = [100 * each.computed.mean() for each in drawn]
    (mark,) = axes.plot(place - 0.12, computed, "x", color=COLORS["limit"], markersize=5, zorder=4)
    axes.set_xticks(place, [f"{each.n_arms}, {each.budget}" for each in drawn])
    for first in range(0, len(drawn), len(_SIZES)):
        middle = place[first : first + len(_SIZES)].mean()
        axes.text(middle, 0.97, drawn[first].dataset, transform=axes.get_xaxis_transform(), ha="center", va="top")
    axes.set(title="Budget that goes to other arms than merit says", xlabel="N, K", ylabel="% of the budget")
    axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    axes.grid(visible=False, axis="x")
    return mark


DESIGNS = Artefact(
    name="designs",
    title="Ours: exposures in proportion to merit for several pulls",
    about=(
        "For one pull at a step, drawing by merit gives each arm a chance in proportion to its merit. For several, "
        "drawing them one after another does not: the strong get less and the weak more than merit says. The exact "
        "design does, up to arms that are pulled always. Here both are played with known merits, to see where the "
        "budget goes, and by a policy that has to learn them."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
