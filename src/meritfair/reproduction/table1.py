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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import new_figure
from meritfair.core.texts import several
from meritfair.lab.resampling import above, below, every, interval_of, ratio, shown, span, weights
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.figures import COLORS
from meritfair.reproduction.panels import add_remark, outcome_of, played
from meritfair.reproduction.published import (
    ALPHA,
    COMPARISONS,
    EPISODES,
    MEASURES,
    RUNS,
    make_cell,
    printed,
    unreached,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.reproduction.published import Cell
    from meritfair.simulation.metrics import Interval

__all__ = ["TABLE_1", "Table1", "factor"]

_LOW = 40  # what the text says t0 stays below
_HORIZON = 200
_MARKERS = dict(zip(DATASETS.values(), "os^", strict=True))
_QUANTITY_COLORS = {"t0": COLORS["merit-fair"], "G": COLORS["mean"]}


@dataclass(frozen=True)
class Table1:
    """What is drawn: the cells, and a remark on how they were played."""

    cells: tuple[Cell, ...]
    remark: str

    @property
    def compared(self) -> bool:
        """Whether each cell has a range in which a published mean could be."""
        return not any(math.isnan(each.range[0]) for each in self.cells)


def factor(means: Sequence[FloatArray]) -> FloatArray:
    """Return by which factor the largest mean is above the smallest, in each resample; NaN if that is not positive.

    Examples
    --------
    >>> factor([np.array([2.0, 1.0]), np.array([5.0, 4.0]), np.array([1.0, 8.0])])
    array([5., 8.])
    """
    return ratio(np.max(means, axis=0), np.min(means, axis=0))


def _specs(scale: Scale) -> tuple[Spec, ...]:
    return (scale.spec(datasets=tuple(DATASETS), sizes=SIZES, policies=("merit-fair",)),)


def _analyse(results: Results, scale: Scale) -> Findings:
    rows = printed()
    cells = tuple(
        make_cell(outcome_of(results, scale, name, size), quantity, rows[title, size[0]], scale.seed)
        for name, title in DATASETS.items()
        for size in SIZES
        for quantity in MEASURES
    )
    verdicts = (
        _as_printed(cells),
        _crosswise(cells),
        _stays_low(cells),
        *_over_sizes(results, scale, cells),
        _is_reached(results, scale),
    )
    return Findings(
        numbers=Table1(cells, played(scale, "MF-RMAB")),
        caption=_caption(cells),
        tables=(_comparison_table(cells), _definitions_table(cells)),
        verdicts=verdicts,
        headline=_headline(cells),
    )


def _distance(cells: Iterable[Cell], column: str) -> float:
    """Return the typical factor between measured and published numbers, whichever is larger."""
    return math.exp(np.mean([abs(math.log(each.authors.mean / getattr(each, column))) for each in cells]))


def _fitting(cells: Sequence[Cell], column: str) -> list[bool | None]:
    return [each.fits(getattr(each, column)) for each in cells]


def _nearer_crosswise(cells: Sequence[Cell]) -> tuple[int, int]:
    """Return in how many rows t0 and G together are nearer to the published numbers crosswise, and of how many."""
    pairs = list(zip(cells[::2], cells[1::2], strict=True))
    nearer = [_distance(pair, "crosswise") < _distance(pair, "straight") for pair in pairs]
    return sum(nearer), len(pairs)


def _as_printed(cells: Sequence[Cell]) -> Verdict:
    """Judge the columns by a sign test: were they right, no more than half of the rows would be nearer crosswise."""
    nearer, rows = _nearer_crosswise(cells)
    chance = sum(math.comb(rows, k) for k in range(nearer, rows + 1)) / 2**rows
    fits = _fitting(cells, "straight")
    found = (
        f"t0 and G are nearer to the published numbers with the columns swapped in {nearer} of {rows} rows; "
        f"measured and published differ by a factor of {_distance(cells, 'straight'):.1f} as printed, "
        f"of {_distance(cells, 'crosswise'):.2f} crosswise (geometric means)"
    )
    if None not in fits:
        found += f"; within sampling error as printed: {fits.count(True)} of {len(fits)}"
    holds = False if chance < ALPHA else every(fits)
    return Verdict("G and t0 have the values printed under their names.", "Table 1", holds, found)


def _crosswise(cells: Sequence[Cell]) -> Verdict:
    fits = _fitting(cells, "crosswise")
    known = [fit for fit in fits if fit is not None]
    found = f"{known.count(True)} of {len(known)} within sampling error" if known else "none can be compared"
    if len(known) < len(cells):
        found += f"; {len(cells) - len(known)} of {len(cells)} need {RUNS} runs of {EPISODES:,} episodes"
    misses = [each for each, fit in zip(cells, fits, strict=True) if fit is False]
    if misses:
        found += "; outside: " + "; ".join(
            f"{each}: {_short(each.authors)}, published {each.crosswise}, could be {_range(each)}" for each in misses
        )
    claim = "With its two columns swapped, every number of the table is within sampling error of what is measured here."
    return Verdict(claim, "Table 1, read crosswise", every(fits), found)


def _stays_low(cells: Sequence[Cell]) -> Verdict:
    t0, G = ([each for each in cells if each.quantity == quantity] for quantity in MEASURES)
    answers = [below(each.defined, _LOW) for each in t0]
    found = (
        f"t0 is {span((each.defined.mean for each in t0), 0)} on average over runs, below {_LOW} for sure in "
        f"{answers.count(True)} of {len(t0)} settings and above in {answers.count(False)}; "
        f"G is {span((each.defined.mean for each in G), 0)}, and {span((each.authors.mean for each in G), 0)} "
        f"as the authors measure it"
    )
    return Verdict(f"t0 remains low (< {_LOW}).", "Section 4.2", every(answers), found)


def _over_sizes(results: Results, scale: Scale, cells: Sequence[Cell]) -> tuple[Verdict, ...]:
    """Judge how t0 and G, by their definitions, vary with N and K; runs of one number are drawn together."""
    weight = [weights(scale.runs, scale.seed, number) for number in range(len(SIZES))]
    means = {
        (title, quantity): [
            each @ outcome_of(results, scale, name, size).measures[measure]
            for each, size in zip(weight, SIZES, strict=True)
        ]
        for name, title in DATASETS.items()
        for quantity, measure in MEASURES.items()
    }
    factors = {key: factor(values) for key, values in means.items()}
    short = sum(each.unreached for each in cells)
    note = f" (t0 was not reached in {several(short, 'run')}, where it counts as T)" if short else ""
    return (
        _steadier(factors, note),
        _grows({title: ratio(means[title, "G"][-1], means[title, "G"][0]) for title in DATASETS.values()}),
        _most_uniform(factors, note),
    )


def _steadier(factors: dict[tuple[str, str], FloatArray], note: str) -> Verdict:
    answers, found = [], []
    for title in DATASETS.values():
        t0, G = factors[title, "t0"], factors[title, "G"]
        answers.append(below(interval_of(ratio(t0, G)), 1.0))
        found.append(f"{title}: t0 by {shown(interval_of(t0), 1)}, G by {shown(interval_of(G), 1)}")
    text = "largest mean over smallest of the five sizes, " + "; ".join(found) + note
    claim = "t0 is mostly consistent across N and K, while G varies significantly."
    return Verdict(claim, "Section 6.3, Table 1", every(answers), text)


def _grows(growth: dict[str, FloatArray]) -> Verdict:
    found = {title: interval_of(values) for title, values in growth.items()}
    text = "; ".join(f"{title}: {shown(each, 1)}" for title, each in found.items())
    claim = "G gets larger with N even if K grows in proportion, because some arm waits long."
    text = f"mean G with N = {SIZES[-1][0]} over that with N = {SIZES[0][0]}, {text}"
    return Verdict(claim, "Section 6.3, Table 1", every(above(each, 1.0) for each in found.values()), text)


def _most_uniform(factors: dict[tuple[str, str], FloatArray], note: str) -> Verdict:
    *others, cpap = DATASETS.values()
    answers, found = [], []
    for quantity in MEASURES:
        compared = [interval_of(ratio(factors[cpap, quantity], factors[title, quantity])) for title in others]
        answers += [below(each, 1.0) for each in compared]
        texts = " and ".join(f"{shown(each)} of {title}" for each, title in zip(compared, others, strict=True))
        found.append(f"{quantity}: {texts}")
    text = f"largest mean over smallest of the five sizes on {cpap}, as a part of that of others, " + "; ".join(found)
    claim = "On CPAP, t0 and G are more uniform than on the other two data sets."
    return Verdict(claim, "Section 6.3, Table 1", every(answers), text + note)


def _is_reached(results: Results, scale: Scale) -> Verdict:
    """Judge Assumption 4.1; that a run shorter than the paper's does not get there says nothing about the paper."""
    outcomes = {
        (title, size[0]): outcome_of(results, scale, name, size) for name, title in DATASETS.items() for size in SIZES
    }
    runs, short = sum(len(each.runs) for each in outcomes.values()), sum(map(unreached, outcomes.values()))
    missing = {where: unreached(each) for where, each in outcomes.items() if unreached(each)}
    t0 = np.concatenate([each.measures["first_valid_episode"] for each in outcomes.values()])
    longest = max(t0[t0 < scale.episodes], default=0.0)
    found = f"reached in {runs - short} of {runs} runs of {scale.episodes:,} episodes"
    if short:
        where = [f"{number} of {title} with N = {n}" for (title, n), number in missing.items()]
        found += f", not in {' and '.join(where)}, for which the authors' way has {_HORIZON}"
    found += f"; the largest t0 reached is {longest:,.0f}" if longest > 0 else ""
    holds = True if short == 0 else False if scale.episodes >= EPISODES else None
    claim = "There is a t0 < T after which every eta is below 1."
    return Verdict(claim, "Section 4.2, Assumption 4.1", holds, found)


def _headline(cells: Sequence[Cell]) -> str:
    straight, crosswise = (_fitting(cells, column) for column in ("straight", "crosswise"))
    if None in crosswise:
        nearer, rows = _nearer_crosswise(cells)
        return f"Table 1 fits better with its two columns swapped in {nearer} of {rows} rows."
    return (
        f"Table 1: with its two columns swapped, {crosswise.count(True)} of {len(cells)} published numbers are within "
        f"sampling error of ours; as printed, {straight.count(True)}."
    )


def _caption(cells: Sequence[Cell]) -> str:
    meaning = (
        "Each mark is one quantity of one data set and size: how long it is here, as the authors' code measures it "
        "(across), and what the published table says (up). On the line the two are the same. Left: as the table is "
        "printed. Right: with its columns swapped. "
    )
    if any(math.isnan(each.range[0]) for each in cells):
        return meaning + (
            f"Only {RUNS} runs of {EPISODES:,} episodes can be compared number by number: the mean of t0 hangs on a "
            "few of the 30 instances, and the longest wait G is shorter in shorter runs. Where t0 was not reached, the "
            f"authors' way has {_HORIZON} for it."
        )
    return meaning + (
        f"Bars show where the mean of {RUNS} other runs could be: runs are drawn from ours with chances that are "
        f"themselves uncertain, which keeps the heavy tails of t0. The range is so wide that of {COMPARISONS} "
        f"comparisons any would fail by chance about {100 * ALPHA:.0f} times in 100; half a unit more at each end "
        "is for rounding. A number is within sampling error if it lies in that range. As both sets of runs are "
        "on the same instances, the range is wider than it had to be."
    )


def _short(value: Interval) -> str:
    return shown(value, 0 if value.mean >= 100 else 1)


def _range(cell: Cell) -> str:
    low, high = cell.range
    digits = 0 if high >= 100 else 1
    return "–" if math.isnan(low) else f"{max(low, 0.0):,.{digits}f} to {high:,.{digits}f}"


def _rows(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    return list(zip(cells[::2], cells[1::2], strict=True))


def _columns(cells: Sequence[Cell]) -> dict[str, list[Any]]:
    first = cells[::2]
    return {name: [getattr(each, name) for each in first] for name in ("dataset", "n_arms", "budget")}


def _comparison_table(cells: Sequence[Cell]) -> PaperTable:
    """Return published numbers beside those measured the authors' way, crosswise."""
    answer = {True: "yes", False: "no", None: "–"}
    headings = ["data set", "N", "K"]
    headings += ["published “G”", "t0 measured", "a mean of 30 could be", "fits"]
    headings += ["published “t0”", "G measured", "a mean of 30 could be", "fits"]
    rows = []
    for pair in _rows(cells):
        row = [pair[0].dataset, str(pair[0].n_arms), str(pair[0].budget)]
        for each in pair:
            row += [str(each.crosswise), _short(each.authors), _range(each), answer[each.fits(each.crosswise)]]
        rows.append(row)
    columns = _columns(cells)
    for offset, quantity in enumerate(MEASURES):
        own = cells[offset::2]
        columns[f"published_under_{'G' if quantity == 't0' else 't0'}"] = [each.crosswise for each in own]
        columns |= _ends(f"{quantity}_authors", [each.authors for each in own])
        columns[f"{quantity}_could_be_low"] = [each.range[0] for each in own]
        columns[f"{quantity}_could_be_high"] = [each.range[1] for each in own]
        columns[f"{quantity}_fits_crosswise"] = [_bit(each.fits(each.crosswise)) for each in own]
        columns[f"{quantity}_fits_as_printed"] = [_bit(each.fits(each.straight)) for each in own]
    title = "Table 1, columns swapped, beside t0 and G measured as the authors' code does (means, 95 % intervals)"
    return PaperTable("table-1", title, headings, rows, columns)


def _definitions_table(cells: Sequence[Cell]) -> PaperTable:
    """Return both quantities both ways."""
    headings = ["data set", "N", "K"]
    headings += [f"{quantity}, {way}" for quantity in MEASURES for way in ("by the definition", "the authors' way")]
    rows = [
        [pair[0].dataset, str(pair[0].n_arms), str(pair[0].budget)]
        + [_short(value) for each in pair for value in (each.defined, each.authors)]
        for pair in _rows(cells)
    ]
    columns = _columns(cells)
    for offset, quantity in enumerate(MEASURES):
        own = cells[offset::2]
        columns |= _ends(quantity, [each.defined for each in own])
        columns |= _ends(f"{quantity}_authors", [each.authors for each in own])
    columns["t0_unreached"] = [each.unreached for each in cells[::2]]
    title = "t0 and G by their definitions and as the authors' code measures them (means, 95 % intervals)"
    return PaperTable("table-1-definitions", title, headings, rows, columns)


def _ends(name: str, values: Sequence[Interval]) -> dict[str, list[Any]]:
    ends = {"": "mean", "_low": "low", "_high": "high"}
    return {name + end: [getattr(each, field) for each in values] for end, field in ends.items()}


def _bit(answer: bool | None) -> float:
    return math.nan if answer is None else float(answer)


def _draw(numbers: Table1) -> Figure:
    with new_figure(4.8) as figure:
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, column, title in zip(
            panels, ("straight", "crosswise"), ("As printed", "With its columns swapped"), strict=True
        ):
            _draw_panel(axes, numbers, column)
            axes.set(title=title, xlabel="episodes, measured here")
        panels[0].set_ylabel("published number")
        keys = [(title, quantity) for quantity in MEASURES for title in _MARKERS]
        marks = [panels[0].plot([], [], **_mark(*key))[0] for key in keys]
        figure.legend(marks, [f"{quantity}, {title}" for title, quantity in keys], loc="outside upper left", ncols=6)
        add_remark(figure, f"{numbers.remark} {_bars(numbers)}")
    return figure


def _bars(numbers: Table1) -> str:
    """Say what bars are, if there are any: one run has none."""
    if numbers.compared:
        return f"Bars: where the mean of {RUNS} other runs could be."
    return "" if math.isnan(numbers.cells[0].authors.low) else "Bars: 95 % intervals."


def _mark(dataset: str, quantity: str) -> dict[str, Any]:
    """Return how a quantity of a data set is marked: t0 is filled, G is hollow."""
    color = _QUANTITY_COLORS[quantity]
    inside = color if quantity == "t0" else "white"
    return {"marker": _MARKERS[dataset], "color": color, "markerfacecolor": inside, "markersize": 5.5, "linewidth": 0}


def _draw_panel(axes: Axes, numbers: Table1, column: str) -> None:
    """Draw published against measured numbers, with the line on which they are the same."""
    axes.set(xscale="log", yscale="log")
    for each in numbers.cells:
        published, color = getattr(each, column), _QUANTITY_COLORS[each.quantity]
        bar = np.maximum(each.range if numbers.compared else each.authors[1:], 1.0)
        axes.plot(bar, [published] * 2, color=color, alpha=0.4, linewidth=1.4, zorder=2)
        axes.plot(each.authors.mean, published, **_mark(each.dataset, each.quantity), zorder=3)
    axes.axline((10.0, 10.0), (100.0, 100.0), color="#999999", linewidth=1, zorder=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")


TABLE_1 = Artefact(
    name="table-1",
    title="Table 1: t0 and G",
    about=(
        "Two waiting times stand in the paper's bound on regret. t0 is the episode after which the confidence ball of "
        "every arm is small enough for the theory to say anything; G is the longest wait of any arm for an episode "
        "that visits it in both states, pulled and not. The paper lists both for three data sets and five sizes. The "
        "same instances are played again, t0 and G are measured as the authors' code does and as the paper defines "
        "them, and each published number is held against what is measured: as it is printed, and with the table's two "
        "columns swapped."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
