"""Charts of pages: the numbers that a browser draws, and the table that says the same.

A chart is made whole on the server, in the reader's language; ``static/charts.js`` draws it with uPlot, in the colours
of the page. Whoever cannot see it, or has no script, reads the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from meritfair.core.json_values import finite


@dataclass(frozen=True)
class Curve:
    """One series of a chart: a line, bars or points.

    Attributes
    ----------
    name : str
    values : sequence of float
        One for each place of the chart's `x`; NaN or None where there is none.
    low, high : sequence of float, optional
        A band around it.
    color : int
        From 1 to 6, as the page has them.
    step, points, dashed : bool
        Whether it changes at its places only, has a point at each, is dashed.
    line : bool
        Whether points are joined.
    """

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    color: int = 1
    step: bool = False
    points: bool = False
    dashed: bool = False
    line: bool = True


@dataclass(frozen=True)
class Chart:
    """A chart with its table.

    Attributes
    ----------
    id, title : str
    x : sequence of float
        Where the values are; for bars of names, 0 and up.
    curves : sequence of Curve
    headings, rows : sequence
        The table: texts as they are shown, the first of each row is its heading.
    x_label, y_label : str
    unit : str
        What follows numbers, such as ``%``.
    kind : {"lines", "bars", "intervals", "histogram"}
        Intervals are points with a bar from low to high.
    names : sequence of str
        What stands below bars and intervals, instead of numbers.
    levels : sequence of (str, float)
        Lines across, such as the slack.
    powers : bool
        Whether values are powers of ten.
    whole : bool
        Whether only whole numbers are below the x axis.
    note : str
        What to look at.
    """

    id: str
    title: str
    x: Sequence[float]
    curves: Sequence[Curve]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    x_label: str = ""
    y_label: str = ""
    unit: str = ""
    kind: str = "lines"
    names: Sequence[str] = ()
    levels: Sequence[tuple[str, float]] = ()
    powers: bool = False
    whole: bool = True
    note: str = ""

    @property
    def data(self) -> str:
        """What is drawn, as JSON."""
        names = ("x", "x_label", "y_label", "unit", "kind", "names", "powers", "whole")
        own = {name: vars(self)[name] for name in names}
        levels = [{"name": name, "value": value} for name, value in self.levels]
        return json.dumps(finite({**own, "levels": levels, "curves": [vars(each) for each in self.curves]}))
