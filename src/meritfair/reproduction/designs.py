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
arms is measured by the exposure regret of `MeritFair` (estimate ``mean``) against :math:`e`: with the exact draw each
episode has less of it, with the sequential one it comes to rest at the part above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.resampling import above, below, every
from meritfair.lab.tasks import Outcome
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend, band, label_steps
from meritfair.reproduction.growth import between, exponent, is_sublinear
from meritfair.reproduction.prose import compose, place
from meritfair.simulation.bootstrap import Interval, interval, ratio_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZES = ((10, 2), (20, 4), (40, 8), (100, 20))
_LEARNED = (20, 4)
_KINDS = ("sequential", "exact")
_EPISODES = 1000
_LEARNING = {kind: f"merit-fair:design={kind},estimate=mean" for kind in _KINDS}
_AGAINST_EXACT: dict[str, Any] = {"design": "exact", "exposure_regret": True}
_PARTS = {"Synthetic": (2, 12), "Synthetic-alternate": (2, 12), "CPAP": (0.5, 1.5)}  # percent
_LARGEST = 0.115
_BY_CHANCE = 1.25  # how many times what chance makes a measured miss may be
_LATE = 0.1  # the last part of a run
_STILL = 0.9
_INSTANCES = 30  # of each size, in the paper
_COLORS = {"sequential": COLORS["merit-fair"], "exact": COLORS["mean"]}
_DASHES, _MARKERS = {"sequential": "-", "exact": "--"}, {"sequential": "o", "exact": "s"}
_HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markersize": 7.5, "markeredgewidth": 1.5, "clip_on": False}


@dataclass(frozen=True, eq=False)
class Drawn:
    """Where the budget went with known merits, in each run: parts of the budget, shape (runs,).

    ``computed`` is what the sequential draw misplaces. By design, ``measured`` is the part of the pulls that was
    misplaced, ``missed`` how far they were from what the design should do, ``chance`` how far chance makes that.
    """

    place: Mapping[str, Any]
    computed: FloatArray
    measured: dict[str, FloatArray]
    missed: dict[str, FloatArray]
    chance: dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Learned:
    """What a policy made of each design that had to learn the arms.

    ``late`` is the part of the budget that was misplaced in the last tenth of the run, shape (runs,), and ``still``
    that of the sequential draw as a multiple of what it would misplace with known merits.
    """

    dataset: str
    bands: dict[str, Band]
    growth: dict[str, Interval]
    late: dict[str, FloatArray]
    still: Interval


class Numbers(NamedTuple):
    """What the figure shows."""

    learned: tuple[Learned, ...]
    drawn: tuple[Drawn, ...]


def misplaced(given: FloatArray, due: FloatArray, budget: int) -> FloatArray:
    """Return the part of the budget that goes to other arms than it should.

    Examples
    --------
    >>> misplaced(np.array([0.81, 0.47, 0.47, 0.25]), np.array([1.0, 0.4, 0.4, 0.2]), budget=2).round(3).item()
    0.095
    """
    return np.asarray(np.abs(given - due).sum(axis=-1) / (2 * budget))


def _specs(scale: Scale) -> Specs:
    same = {"datasets": tuple(DATASETS), "episodes": scale.episodes_of(_EPISODES)}
    known = (scale.spec(sizes=_SIZES, policies=("fair-oracle",), design=kind, **same) for kind in _KINDS)
    return (*known, scale.spec(sizes=(_LEARNED,), policies=tuple(_LEARNING.values()), **_AGAINST_EXACT, **same))


def _drawn(outcomes: Mapping[str, Outcome]) -> Drawn:
    setting = outcomes["exact"].setting
    budget, steps = setting.budget, setting.episodes * setting.horizon
    given = {kind: each.by_arm["exposure"] for kind, each in outcomes.items()}
    should = {kind: each.by_arm["fair_exposure"] for kind, each in outcomes.items()}  # each by its own design
    spread = {kind: np.sqrt(2 / np.pi * p * (1 - p) / steps) for kind, p in should.items()}
    return Drawn(
        place(setting),
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


def _learned(outcomes: Mapping[str, Outcome], known: Drawn, seed: int) -> Learned:
    late = {kind: _late(each) for kind, each in outcomes.items()}
    return Learned(
        known.place["dataset"],
        {kind: band(each, "exposure_regret") for kind, each in outcomes.items()},
        {kind: exponent(each, seed, "exposure_regret") for kind, each in outcomes.items()},
        late,
        ratio_interval(late["sequential"], known.computed, seed),
    )


def _analyse(results: Results, scale: Scale) -> Findings:
    drawn, learned = [], []
    episodes = scale.episodes_of(_EPISODES)
    for dataset, size in product(DATASETS, _SIZES):
        of = partial(scale.outcome, results, dataset, size, episodes=episodes)
        drawn.append(_drawn({kind: of(policy="fair-oracle", design=kind) for kind in _KINDS}))
        if size == _LEARNED:
            own = {kind: of(policy=policy, **_AGAINST_EXACT) for kind, policy in _LEARNING.items()}
            learned.append(_learned(own, drawn[-1], scale.seed))
    rows = [_row(each, scale.seed) for each in drawn]
    largest = max(float(each.computed.max()) for each in drawn)
    ratios = {kind: [ratio_interval(of.missed[kind], of.chance[kind], scale.seed) for of in drawn] for kind in _KINDS}
    return compose(
        "designs",
        scale,
        Numbers(tuple(learned), tuple(drawn)),
        specs=_specs,
        at_any_length=("parts", "largest", *_KINDS),
        verdicts={
            "parts": every(between(row["computed"], *_PARTS[row["dataset"]]) for row in rows),
            "largest": False if largest >= _LARGEST else True if scale.runs >= _INSTANCES else None,
            **{kind: every(below(each, _BY_CHANCE) for each in ratios[kind]) for kind in ("exact", "sequential")},
            "learning": every(above(each.still, _STILL) for each in learned),
            "sublinear": is_sublinear(each.growth["exact"] for each in learned),
        },
        tables={"designs": rows},
        sizes=_SIZES,
        episodes=episodes,
        ratios=ratios,
        beyond=max(0.0, *(float((each.missed["exact"] - each.chance["exact"]).mean()) for each in drawn)),
        bars={"parts": _PARTS, "largest": _LARGEST, "chance": _BY_CHANCE, "still": _STILL, "instances": _INSTANCES},
    )


def _row(drawn: Drawn, seed: int) -> Mapping[str, Any]:
    """Return a row of the table, in percent."""
    measured = {f"measured_{kind}": drawn.measured[kind] for kind in _KINDS}
    parts = {"computed": drawn.computed, **measured, "chance": drawn.chance["exact"]}
    means = {name: interval(100 * each, seed) for name, each in parts.items()}
    return {**drawn.place, **means, "largest_computed": 100 * float(drawn.computed.max())}


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.0) as figure:
        axes = figure.subplot_mosaic("abc;ddd", height_ratios=(1.1, 1))
        for name, each in zip("abc", numbers.learned, strict=True):
            lines = [draw_band(axes[name], each.bands[kind], _COLORS[kind], linestyle=_DASHES[kind]) for kind in _KINDS]
            axes[name].set_title(f"{each.dataset}, N = {_LEARNED[0]}, K = {_LEARNED[1]}", fontsize=9.5)
            axes[name].set(xlim=(0, None), ylim=(0, None))
            label_steps(axes[name])
        axes["a"].set_ylabel("exposure regret, added up")
        marks = _draw_parts(axes["d"], numbers.drawn)
        names = ["sequential, as in the paper", "exact", "sequential, computed"]
        add_legend(figure, [*lines, marks], names)
    return figure


def _draw_parts(axes: Axes, drawn: Sequence[Drawn]) -> Any:
    """Draw the parts of the budget that are misplaced, a group for each data set; return the mark of computed ones."""
    at = np.arange(len(drawn)) + 0.7 * (np.arange(len(drawn)) // len(_SIZES))
    for kind, shift in zip(_KINDS, (-0.12, 0.12), strict=True):
        color = _COLORS[kind]
        parts = [100 * each.measured[kind] for each in drawn]
        ends = [p.min() for p in parts], [p.max() for p in parts]
        axes.vlines(at + shift, *ends, color=color, linewidth=1.4, zorder=2)
        axes.plot(at + shift, [p.mean() for p in parts], _MARKERS[kind], color=color, **_HOLLOW)
    computed = [100 * each.computed.mean() for each in drawn]
    (mark,) = axes.plot(at - 0.12, computed, "x", color=COLORS["limit"], markersize=5, zorder=4)
    axes.set_xticks(at, ["{n_arms}, {budget}".format(**each.place) for each in drawn])
    for first in range(0, len(drawn), len(_SIZES)):
        middle, where = at[first : first + len(_SIZES)].mean(), axes.get_xaxis_transform()
        axes.text(middle, 0.97, drawn[first].place["dataset"], transform=where, ha="center", va="top")
    axes.set(title="Budget that goes to other arms than merit says", xlabel="N, K", ylabel="% of the budget")
    axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    axes.grid(visible=False, axis="x")
    return mark


DESIGNS = Artefact("designs", "Beyond the paper: exact exposures for several pulls", _specs, _analyse, _draw)
