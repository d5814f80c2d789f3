r"""Table 1 of the paper: t0 and G, published and measured.

How long is :math:`t_0`, after which every eta is below 1 (Assumption 4.1), and how long :math:`G`, the longest wait of
an arm for an episode that visits all its (s, a) (Lemma 5.1)? Each is measured twice: as the authors' code has it, which
can be compared with their table, and by the definition, which claims are about (see `metrics`).

The table's two columns are swapped: what it prints under G fits the measured t0, and what it prints under t0 fits G. So
each quantity is compared twice, as printed and crosswise. `published` says when two means are
within sampling error of each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import new_figure
from meritfair.lab.resampling import above, below, every, shown
from meritfair.lab.tasks import Outcome
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend
from meritfair.reproduction.prose import Rows, compose
from meritfair.reproduction.published import ALPHA, COMPARISONS, EPISODES, MEASURES, RUNS, Cell, make_cell, printed
from meritfair.simulation.bootstrap import Interval, interval_of, ratio, weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOW = 40  # what the text says t0 stays below
_MARKERS = dict(zip(DATASETS.values(), "os^", strict=True))
_QUANTITY_COLORS = {"t0": COLORS["merit-fair"], "G": COLORS["mean"]}


def factor(means: Sequence[FloatArray]) -> FloatArray:
    """Return by which factor the largest mean is above the smallest, in each resample; NaN if that is not positive.

    Examples
    --------
    >>> factor([np.array([2.0, 1.0]), np.array([5.0, 4.0]), np.array([1.0, 8.0])])
    array([5., 8.])
    """
    return ratio(np.max(means, axis=0), np.min(means, axis=0))


def _specs(scale: Scale) -> Specs:
    return (scale.spec(datasets=tuple(DATASETS), sizes=SIZES, policies=("merit-fair",)),)


def _analyse(results: Results, scale: Scale) -> Findings:
    outcomes = {(DATASETS[name], size): scale.outcome(results, name, size) for name, size in product(DATASETS, SIZES)}
    rows = printed()
    cells = tuple(
        make_cell(outcome, quantity, rows[title, n_arms], scale.seed)
        for (title, (n_arms, _)), outcome in outcomes.items()
        for quantity in MEASURES
    )
    sizes = _over_sizes(outcomes, scale)
    reached = not any(each.censored for each in cells if each.quantity == "t0")
    t0 = np.concatenate([each.measures["first_valid_episode"] for each in outcomes.values()])
    return compose(
        "table-1",
        scale,
        cells,
        verdicts={
            "as_printed": _is_as_printed(cells),
            "swapped": every(each.fits_crosswise for each in cells),
            "low": every(_is_low(each) for each in cells if each.quantity == "t0"),
            "steadier": every(each.below(1.0) for each in sizes.t0_to_g.values()),
            "grows": every(each.above(1.0) for each in sizes.growth.values()),
            "uniform": every(each.below(1.0) for of in sizes.cpap_to.values() for each in of.values()),
            "reached": reached,
        },
        specs=_specs,
        at_any_length=("as_printed", "swapped", "low"),  # the first two look at the length themselves
        tables={"table-1": _comparison_rows(cells), "table-1-definitions": _definition_rows(cells)},
        nearer=_nearer_crosswise(cells),
        factors={"straight": _distance(cells, swapped=False), "crosswise": _distance(cells, swapped=True)},
        bar=_LOW,
        reached=reached,
        sizes=sizes,
        longest=max(t0[t0 < scale.episodes], default=0.0),
        paper={"runs": RUNS, "episodes": EPISODES, "comparisons": COMPARISONS, "alpha": ALPHA},
    )


def _pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return t0 and G of each data set and size."""
    return list(zip(cells[::2], cells[1::2], strict=True))


def _is_low(cell: Cell) -> bool | None:
    """Return whether t0 is low; a lower bound can say that it is not, but not that it is."""
    answer = below(cell.defined, _LOW)
    return None if answer and cell.censored else answer


def _distance(cells: Iterable[Cell], *, swapped: bool) -> float:
    """Return the typical factor between measured and published numbers, whichever is larger."""
    ratios = [each.authors.mean / (each.crosswise if swapped else each.straight) for each in cells]
    return math.exp(np.abs(np.log(ratios)).mean())


def _nearer_crosswise(cells: Sequence[Cell]) -> int:
    """Return in how many rows t0 and G together are nearer to the published numbers crosswise."""
    return sum(_distance(pair, swapped=True) < _distance(pair, swapped=False) for pair in _pairs(cells))


def _is_as_printed(cells: Sequence[Cell]) -> bool | None:
    """Judge the columns by a sign test: were they right, no more than half of the rows would be nearer crosswise."""
    nearer, rows = _nearer_crosswise(cells), len(cells) // 2
    chance = sum(math.comb(rows, k) for k in range(nearer, rows + 1)) / 2**rows
    return False if chance < ALPHA else every(each.fits_straight for each in cells)


class Bounded(NamedTuple):
    """A number in each resample, and whether in truth it may be larger, or smaller, as some runs ended too early.

    Examples
    --------
    >>> wait = Bounded(np.array([8.0]), larger=True)
    >>> wait.over(Bounded(np.array([2.0]))).text(1), Bounded(np.array([2.0])).over(wait).text(2)
    ('≥ 4.0', '≤ 0.25')
    """

    values: FloatArray
    larger: bool = False
    smaller: bool = False

    def over(self, other: Bounded) -> Bounded:
        """Return the ratio."""
        larger, smaller = self.larger or other.smaller, self.smaller or other.larger
        return Bounded(ratio(self.values, other.values), larger, smaller)

    @property
    def interval(self) -> Interval:
        """The number as measured, with its 95 % interval."""
        return interval_of(self.values)

    def below(self, bar: float) -> bool | None:
        """Return whether it is below a bar, None if that is not known."""
        answer = below(self.interval, bar)
        return None if (self.smaller if answer is False else self.larger) else answer

    def above(self, bar: float) -> bool | None:
        """Return whether it is above a bar, None if that is not known."""
        answer = above(self.interval, bar)
        return None if (self.larger if answer is False else self.smaller) else answer

    def text(self, digits: int = 2) -> str:
        """Return it as people are shown it: a bound with its sign, "~" if it may be off either way."""
        sign = {(True, False): "≥ ", (False, True): "≤ ", (True, True): "~ "}.get((self.larger, self.smaller), "")
        return sign + shown(self.interval, digits)


@dataclass(frozen=True)
class OverSizes:
    """How t0 and G, by their definitions, vary with N and K.

    Attributes
    ----------
    factors : dict
        Largest mean over smallest of the five sizes, by data set and quantity.
    t0_to_g : dict
        That of t0 as a multiple of that of G, by data set.
    growth : dict
        Mean G of the largest size as a multiple of that of the smallest, by data set.
    cpap_to : dict
        The factor on CPAP as a multiple of that on other data sets, by quantity and data set.
    """

    factors: dict[str, dict[str, Bounded]]
    t0_to_g: dict[str, Bounded]
    growth: dict[str, Bounded]
    cpap_to: dict[str, dict[str, Bounded]]


def _over_sizes(outcomes: Mapping[tuple[str, tuple[int, int]], Outcome], scale: Scale) -> OverSizes:
    """Compare sizes and data sets; runs of one number are resampled together."""
    weight = [weights(scale.runs, scale.seed, number) for number in range(len(SIZES))]
    means = {
        (title, quantity): [
            _mean(outcomes[title, size].measures, measure, each) for each, size in zip(weight, SIZES, strict=True)
        ]
        for title in DATASETS.values()
        for quantity, measure in MEASURES.items()
    }
    by = {key: _factor(values) for key, values in means.items()}
    *others, cpap = titles = tuple(DATASETS.values())
    return OverSizes(
        factors={title: {name: by[title, name] for name in MEASURES} for title in titles},
        t0_to_g={title: by[title, "t0"].over(by[title, "G"]) for title in titles},
        growth={title: means[title, "G"][-1].over(means[title, "G"][0]) for title in titles},
        cpap_to={name: {title: by[cpap, name].over(by[title, name]) for title in others} for name in MEASURES},
    )


def _mean(measures: Mapping[str, FloatArray], name: str, weight: FloatArray) -> Bounded:
    """Return the mean of a measure, which in truth is larger if some runs ended too early."""
    return Bounded(weight @ measures[name], larger=bool(measures[f"{name}_censored"].any()))


def _factor(means: Sequence[Bounded]) -> Bounded:
    """Return the `factor` of means; it is a lower bound if one but the smallest is."""
    smallest = min(means, key=lambda each: float(each.values[0]))
    larger = any(each.larger for each in means)
    return Bounded(factor([each.values for each in means]), larger, smallest.larger)


def _comparison_rows(cells: Sequence[Cell]) -> Rows:
    """Return published numbers beside those measured the authors' way, crosswise."""
    return [_place(pair) | _comparison(pair[0], "G") | _comparison(pair[1], "t0") for pair in _pairs(cells)]


def _place(pair: tuple[Cell, Cell]) -> dict[str, Any]:
    return {"dataset": pair[0].dataset, "n_arms": pair[0].n_arms, "budget": pair[0].budget}


def _comparison(cell: Cell, other: str) -> dict[str, Any]:
    return {
        f"published_under_{other}": cell.crosswise,
        f"{cell.quantity}_authors": cell.authors,
        f"{cell.quantity}_could_be_low": cell.range[0],
        f"{cell.quantity}_could_be_high": cell.range[1],
        f"{cell.quantity}_fits_crosswise": _bit(cell.fits_crosswise),
        f"{cell.quantity}_fits_as_printed": _bit(cell.fits_straight),
    }


def _definition_rows(cells: Sequence[Cell]) -> Rows:
    """Return both quantities both ways."""
    return [
        _place((t0, G))
        | {"t0": t0.defined, "t0_authors": t0.authors, "G": G.defined, "G_authors": G.authors}
        | {"t0_censored": t0.censored, "G_censored": G.censored}
        for t0, G in _pairs(cells)
    ]


def _bit(answer: bool | None) -> float:
    return math.nan if answer is None else float(answer)


def _draw(cells: Sequence[Cell]) -> Figure:
    with new_figure(4.8) as figure:
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        _draw_panel(left, cells, [each.straight for each in cells])
        _draw_panel(right, cells, [each.crosswise for each in cells])
        left.set(title="As printed", xlabel="episodes, measured here", ylabel="published number")
        right.set(title="With its columns swapped", xlabel="episodes, measured here")
        keys = [(title, quantity) for quantity in MEASURES for title in _MARKERS]
        marks = [left.plot([], [], **_mark(*key))[0] for key in keys]
        add_legend(figure, marks, [f"{quantity}, {title}" for title, quantity in keys])
    return figure


def _mark(dataset: str, quantity: str) -> dict[str, Any]:
    """Return how a quantity of a data set is marked: t0 is filled, G is hollow."""
    color = _QUANTITY_COLORS[quantity]
    inside = color if quantity == "t0" else "white"
    return {"marker": _MARKERS[dataset], "color": color, "markerfacecolor": inside, "markersize": 5.5, "linewidth": 0}


def _draw_panel(axes: Axes, cells: Sequence[Cell], published: Sequence[int]) -> None:
    """Draw published against measured numbers, with the line on which they are the same."""
    axes.set(xscale="log", yscale="log")
    compared = all(each.compared for each in cells)
    for each, number in zip(cells, published, strict=True):
        bar = np.maximum(each.range if compared else each.authors[1:], 1.0)
        axes.plot(bar, [number] * 2, color=_QUANTITY_COLORS[each.quantity], alpha=0.4, linewidth=1.4, zorder=2)
        axes.plot(each.authors.mean, number, **_mark(each.dataset, each.quantity), zorder=3)
    axes.axline((10.0, 10.0), (100.0, 100.0), color="#999999", linewidth=1, zorder=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")


TABLE_1 = Artefact("table-1", "Table 1: t0 and G", _specs, _analyse, _draw)
