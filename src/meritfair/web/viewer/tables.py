"""Tables of the viewer's pages: results by policy or of everything, sorted; and what figures show, in numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from meritfair.core.language import _
from meritfair.lab.results import Results, Wording
from meritfair.lab.side_by_side import BENEFIT, REGRETS, SideBySide
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.columns import marked
from meritfair.web.rendering import number
from meritfair.web.viewer.wording import field_label, interval_text, measure_label, value_text

_Key = TypeVar("_Key", bound=Hashable)
_MOST_ROWS = 12  # of a table of a curve


@dataclass(frozen=True)
class Cell:
    """A cell: its text, and its interval in smaller letters below."""

    text: str
    below: str = ""


@dataclass(frozen=True)
class Heading:
    """A column: its name, what it is called, whether it has numbers, and how the table is sorted by it, if it is."""

    name: str
    label: str
    numeric: bool
    sorted: str = ""


@dataclass(frozen=True)
class ResultTable:
    """A table of results: what it has, its columns, and its rows."""

    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]


def policy_table(shown: SideBySide, names: Sequence[str], sort: str, *, descending: bool) -> ResultTable:
    """Return a row for each policy on one problem."""
    known = [BENEFIT, *names] if shown.references else list(names)
    texts = {policy: {"policy": policy} for policy in shown.measures}
    runs = {policy: len(found.runs) for policy, found in shown.outcomes.items()}
    caption = _("A row for each policy: means over runs, with 95 % intervals")
    return _table(texts, runs, shown.measures, known, sort, descending=descending, caption=caption)


def setting_table(results: Results, wording: Wording, sort: str, *, descending: bool) -> ResultTable:
    """Return a row for each setting of a sweep."""
    texts = {each: dict(zip(wording.varying, wording.texts(each), strict=True)) for each in results.outcomes}
    runs = {each: len(found.runs) for each, found in results.outcomes.items()}
    caption = _("A row for each setting: means over runs, with 95 % intervals")
    return _table(texts, runs, results.measures, results.shown, sort, descending=descending, caption=caption)


def _table(
    texts: Mapping[_Key, Mapping[str, str]],
    runs: Mapping[_Key, int],
    measures: Mapping[_Key, Mapping[str, Interval]],
    names: Sequence[str],
    sort: str,
    *,
    descending: bool,
    caption: str,
) -> ResultTable:
    """Return a row for each key: its texts, how many runs it has, and its measures of these names."""
    fields: list[str] = list(next(iter(texts.values()), {}))
    columns = [
        *((name, field_label(name), False) for name in fields),
        ("runs", _("Runs"), True),
        *((name, measure_label(name), True) for name in names),
    ]
    keys = list(texts)
    if sort in fields:
        keys = _in_order({key: texts[key][sort] for key in keys}, descending=descending)
    elif sort == "runs":
        keys = _in_order({key: runs[key] for key in keys}, descending=descending)
    elif sort in names:
        keys = _in_order({key: measures[key][sort].mean for key in keys}, descending=descending)
    how = "descending" if descending else "ascending"
    headings = tuple(Heading(name, label, numeric, how if name == sort else "") for name, label, numeric in columns)
    rows = [(*map(Cell, texts[k].values()), Cell(number(runs[k])), *_cells(measures[k], names)) for k in keys]
    return ResultTable(caption, headings, tuple(rows))


def _in_order(values: Mapping[_Key, str | float], *, descending: bool) -> list[_Key]:
    """Return keys by value, texts of numbers as numbers; those of which it is not known come last."""

    def place(key: _Key) -> tuple[float, str]:
        value = values[key]
        if isinstance(value, str):
            return (float(value), "") if value.isdecimal() else (math.inf, value)
        return value, ""

    unknown = [key for key, value in values.items() if isinstance(value, float) and math.isnan(value)]
    known = [key for key in values if key not in set(unknown)]
    return sorted(known, key=place, reverse=descending) + unknown


def _cells(found: Mapping[str, Interval], names: Iterable[str]) -> Iterable[Cell]:
    for name in names:
        text = value_text(name, found[name].mean)
        yield Cell(marked(text, name, found), interval_text(name, found[name]))


@dataclass(frozen=True)
class FigureTable:
    """What a figure shows, in numbers: headings, and rows of text of which the first cell says what a row is about."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def regret_table(shown: SideBySide, regret: str) -> FigureTable:
    """Return a row for some episodes, a column for each policy."""
    bands = shown.curves(regret)
    steps = next(iter(bands.values())).steps
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _MOST_ROWS)).round().astype(int))
    rows = []
    for k in kept.tolist():
        found = [Interval(float(band.mean[k]), float(band.low[k]), float(band.high[k])) for band in bands.values()]
        rows.append((number(steps[k]), *(_in_one_line(regret, each) for each in found)))
    return FigureTable((_("Episode"), *bands), tuple(rows))


def exposure_table(shown: SideBySide) -> FigureTable:
    """Return a row for each rank of benefit, a column for what is fair and one for each policy."""
    bars = shown.exposures
    columns = np.vstack([bars.fair, bars.given])
    rows = ((number(rank), *(number(x, 3) for x in column)) for rank, column in enumerate(columns.T.tolist(), 1))
    return FigureTable((_("Arm, from least to most benefit"), _("Fair exposure"), *shown.outcomes), tuple(rows))


def benefit_table(shown: SideBySide) -> FigureTable:
    """Return a row for each policy: its fairness regret and its reward."""
    names = (REGRETS[0], shown.reward)
    rows = (
        (policy, *(_in_one_line(name, shown.measures[policy][name]) for name in names))
        for policy in shown.trade_off.labels
    )
    return FigureTable((_("Policy"), *map(measure_label, names)), tuple(rows))


def _in_one_line(name: str, found: Interval) -> str:
    below = interval_text(name, found)
    return value_text(name, found.mean) + (f" ({below})" if below else "")
