"""What a log says of the effect of a pull: a sentence, tables, and notes on what was left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_choice
from meritfair.core.language import current
from meritfair.core.tables import data_frame, rows_of, write_table
from meritfair.core.texts import several
from meritfair.effects.sensitivity import EffectSensitivity
from meritfair.effects.sequence import LEAST
from meritfair.effects.together import Together
from meritfair.effects.trial import LeftOut, Missing
from meritfair.model.sensitivity import STEP

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEW_CLUSTERS = 5  # competition is then allowed for by so much that intervals are wider than they have to be
_FINE = 0.02  # intervals narrower than this are told to a tenth of a percentage point


@dataclass(frozen=True, eq=False)
class EffectTable:
    """The effect of a pull in each part of the rows. Arrays have an entry for each.

    Attributes
    ----------
    names : tuple of str
    estimate, standard_error : ndarray
        By how much a pull raises the probability of a good next state, on average over the rows.
    low, high : ndarray
        The asymptotic interval, for one look at a time set beforehand; NaN if there are too few rows for one.
    anytime_low, anytime_high : ndarray
        The interval that holds whenever one looks, however often.
    rows, pulled : ndarray
        How many arm-rounds are used, and in how many of them the arm was drawn.
    units_drawn, units_not_drawn : ndarray
        In how many rounds of a unit, an arm or a cluster, an arm of it was drawn, and in how many one was not.
    effective : ndarray
        The effective sample size: as many rounds of a unit with exposures of 1/2 would say as much.
    difference : ndarray
        The plain difference of means: good next states of those drawn less those of the others. Biased if exposures
        follow from anything that matters for the outcome.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray
    anytime_low: FloatArray
    anytime_high: FloatArray
    rows: IntArray
    pulled: IntArray
    units_drawn: IntArray
    units_not_drawn: IntArray
    effective: FloatArray
    difference: FloatArray

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shown(self) -> BoolArray:
        """For each part, whether it has enough rows for an interval."""
        return np.isfinite(self.low)

    def take(self, places: Iterable[int]) -> EffectTable:
        """Return a table of some of the parts."""
        kept = list(places)
        numbers = {name: values[kept] for name, values in self._numbers().items()}
        return EffectTable(tuple(self.names[k] for k in kept), **numbers)

    def columns(self, what: str) -> dict[str, list[Any]]:
        """Return the table as columns of plain values; the first is called `what`."""
        return {what: list(self.names), **{name: values.tolist() for name, values in self._numbers().items()}}

    def records(self, what: str) -> list[dict[str, Any]]:
        """Return the table as rows of plain values."""
        return rows_of(self.columns(what))

    def _numbers(self) -> dict[str, Any]:
        return {name: values for name, values in vars(self).items() if name != "names"}


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """By how much a pull raises the probability of a good next state; made by `effect`.

    Attributes
    ----------
    overall : EffectTable
        With one entry.
    states : EffectTable
        By the state before the draw, bad and good.
    groups : EffectTable or None
        By the values of the feature that was asked for.
    periods : EffectTable
        By rounds, in parts of equal length.
    rounds : EffectTable
        After each round: of all rows up to there.
    left_out : LeftOut
        Rows that are not used.
    overridden : int
        In how many used rows the arm was pulled though not drawn, or drawn and not pulled.
    missing : Missing
        Whether outcomes are missing more often for those drawn.
    together : Together or None
        Which arms were drawn together though `cluster` does not say so; None if draws one by one explain the log.
    sensitivity : EffectSensitivity
        What the next states that were not observed could change.
    settings : dict
        Level, group, cluster, period, size of the log and versions, as plain values.
    """

    overall: EffectTable
    states: EffectTable
    groups: EffectTable | None
    periods: EffectTable
    rounds: EffectTable
    left_out: LeftOut
    overridden: int
    missing: Missing
    together: Together | None
    sensitivity: EffectSensitivity
    settings: dict[str, Any]

    @property
    def estimate(self) -> float:
        """The effect of a pull on the probability of a good next state."""
        return float(self.overall.estimate[0])

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the effect that holds whenever one looks; NaN if there are too few rows."""
        return float(self.overall.anytime_low[0]), float(self.overall.anytime_high[0])

    @property
    def asymptotic(self) -> tuple[float, float]:
        """The asymptotic interval, for one look at a time set beforehand; NaN if there are too few rows."""
        return float(self.overall.low[0]), float(self.overall.high[0])

    @property
    def difference(self) -> float:
        """The plain difference of means, which misleads."""
        return float(self.overall.difference[0])

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return float(self.settings["level"])

    @property
    def parts(self) -> list[tuple[str, EffectTable]]:
        """All tables but that of the rounds, after what their entries are: all, state, the group if any, period."""
        group = [] if self.groups is None else [(str(self.settings["group"]), self.groups)]
        return [("all", self.overall), ("state", self.states), *group, ("period", self.periods)]

    def __str__(self) -> str:
        return verdict(self.estimate, *self.interval, self.level, clusters=self.settings["cluster"] is not None)

    def __repr__(self) -> str:
        return f"Effect({self})"

    def warnings(self) -> list[str]:
        """Return what may make the answer wrong: arms that were drawn together, outcomes that are missing by draw."""
        return [*_about_together(self), *_about_missing(self)]

    def notes(self) -> list[str]:
        """Return what else a reader should know of the rows, and of those that are missing."""
        return [*_about_rows(self), *_about_clusters(self), *_about_override(self), about_unseen(self)]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each part (overall, state, group and period) as plain values."""
        return rows_of(self._columns())

    def table(self, what: Literal["parts", "rounds"] = "parts") -> pd.DataFrame:
        """Return a DataFrame with a row for each part, or for what was known after each round.

        It needs the extra ``lab``.
        """
        chosen = check_choice("what", what, ("parts", "rounds"))
        return data_frame(self._columns() if chosen == "parts" else self.rounds.columns("round"))

    def save(self, path: str | PathLike[str]) -> tuple[Path, ...]:
        """Write the table to a .csv or .parquet file, and that of the rounds beside it; return the files."""
        file = Path(path)
        beside = file.with_name(f"{file.stem}-rounds{file.suffix}")
        settings = {"meritfair": json.dumps(self.settings, sort_keys=True)}
        write_table(file, "effects", self._columns(), settings)
        write_table(beside, "effects", self.rounds.columns("round"), settings)
        return file, beside

    def write_page(self, path: str | PathLike[str]) -> None:
        """Write all of it as one page of HTML that needs nothing beside it; needs the extra ``lab``."""
        from meritfair.effects.page import write_effect_page

        write_effect_page(self, path)

    def plot(self, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the effect after each round, and by state and group, with both intervals; needs the extra ``plots``.

        It is drawn into two Axes that are given, or on a new figure, by default of a size that suits.
        """
        from meritfair.effects.figure import plot_effect

        return plot_effect(self, ax=ax, figsize=figsize)

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"part": [], "value": [], **{name: [] for name in _NUMBERS}}
        for part, table in self.parts:
            columns["part"] += [part] * len(table)
            for name, values in table.columns("value").items():
                columns[name] += values
        return columns


_NUMBERS = tuple(each.name for each in fields(EffectTable) if each.name != "names")


def verdict(estimate: float, low: float, high: float, level: float, *, clusters: bool = False) -> str:
    """Return in a sentence what an estimate and its interval say; draws are those of clusters, or of arms.

    Examples
    --------
    >>> print(verdict(0.12, 0.07, 0.17, 0.95))
    A pull raises the chance of a good next state by 12 percentage points (between 7 and 17, at 95 % confidence).
    >>> print(verdict(0.02, -0.03, 0.07, 0.95))
    It is not clear that a pull makes a difference: the estimate is +2 percentage points, and anything between −3 and \
+7 fits the records, at 95 % confidence.
    """
    if not math.isfinite(low):
        takes = needed(clusters=clusters)
        return f"It cannot be said yet whether a pull makes a difference: that takes at least {takes}."
    digits = 1 if high - low < _FINE else 0
    sure = f"at {100 * level:.6g} % confidence"
    if low <= 0 <= high:
        return (
            "It is not clear that a pull makes a difference: the estimate is "
            f"{signed(estimate, digits)} percentage points, and anything between {signed(low, digits)} and "
            f"{signed(high, digits)} fits the records, {sure}."
        )
    verb, ends = ("raises", (low, high)) if low > 0 else ("lowers", (-high, -low))
    least, most = (f"{100 * end:.{digits}f}" for end in ends)
    size = f"{100 * abs(estimate):.{digits}f} percentage points (between {least} and {most}, {sure})"
    return f"A pull {verb} the chance of a good next state by {size}."


def needed(*, clusters: bool) -> str:
    """Return what an interval takes, in words."""
    if clusters:
        return f"{LEAST} rounds of a cluster in which it was drawn, and {LEAST} in which it was not"
    return f"{LEAST} draws that reached an arm, and {LEAST} that did not"


def counted(found: Effect) -> str:
    """Return what counts as one draw."""
    return "arm-rounds" if found.settings["cluster"] is None else "rounds of a cluster"


def signed(value: float, digits: int = 1) -> str:
    """Return a difference of probabilities in percentage points, with its sign.

    Examples
    --------
    >>> signed(0.123), signed(-0.05, 0), signed(0.0001), signed(math.nan)
    ('+12.3', '−5', '0.0', '–')
    """
    if not math.isfinite(value):
        return "–"
    text = current().decimal(abs(100 * value), digits)
    if round(100 * value, digits) == 0:
        return text
    return f"+{text}" if value > 0 else f"−{text}"


_WHY_IT_MISLEADS = (
    "It misleads because those who are drawn differ from those who are not: exposures follow merit and states, "
    "and so does the outcome."
)


def plain_difference(found: Effect) -> str:
    """Return a sentence on the plain difference of means, and why it misleads."""
    return f"The plain difference of means is {signed(found.difference)} percentage points. {_WHY_IT_MISLEADS}"


def _about_rows(found: Effect) -> list[str]:
    rows, pulled = int(found.overall.rows[0]), int(found.overall.pulled[0])
    used = f"{several(rows, 'arm-round')} used, {pulled:,} of them drawn"
    reasons = [f"{number:,} {reason}" for reason, number in found.left_out.reasons().items()]
    if not reasons:
        return [f"{used}; no row is left out."]
    left = f"{several(found.left_out.total, 'row')} left out: {'; '.join(reasons)}"
    return [f"{used}. {left}."]


def _about_together(found: Effect) -> list[str]:
    if found.together is None:
        return []
    name = found.together.column
    advice = (
        f"Name the column: --cluster {name}, in Python cluster={name!r}."
        if name
        else "Name the column that says who is drawn with whom: --cluster COLUMN, in Python cluster=."
    )
    return [
        f"Warning: {found.together}. The intervals take it that each arm is drawn by a chance of its own, and are too "
        f"narrow here. {advice}"
    ]


def _about_clusters(found: Effect) -> list[str]:
    cluster = found.settings["cluster"]
    if cluster is None:
        return []
    drawn, others = int(found.overall.units_drawn[0]), int(found.overall.units_not_drawn[0])
    number, alone, divided = (int(found.settings[name]) for name in ("clusters", "without_cluster", "divided"))
    those = several(number, "cluster") + (f" and {several(alone, 'arm')} without a value" if alone else "")
    said = [
        f"Arms with the same {cluster} count as drawn together: {those}, drawn {drawn:,} times and {others:,} times "
        "not."
    ]
    if found.settings["largest_cluster"] == 1:
        said.append(f"No two arms have the same {cluster}, so the intervals are those without clusters.")
    elif 1 < number + alone <= _FEW_CLUSTERS:
        said.append("With so few clusters the intervals are wide, and hold more often than they say.")
    if divided:
        said.append(
            f"In {divided:,} of their rounds only some of a cluster were drawn, and both numbers count them. If each "
            "arm was drawn by a chance of its own, no cluster has to be named, and intervals are narrower."
        )
    return [" ".join(said)]


def _about_override(found: Effect) -> list[str]:
    if not found.overridden:
        return []
    rows = several(found.overridden, "arm-round")
    return [
        f"In {rows} the action was not what was drawn. The effect is that of being drawn (intention to treat), "
        "since chance decided only that."
    ]


def _about_missing(found: Effect) -> list[str]:
    if not found.missing.differs:
        return []
    drawn, others = (f"{100 * part:.3g} %" for part in found.missing[:2])
    return [
        f"Warning: the next state is missing for {drawn} of those drawn and {others} of the others, which is more than "
        "chance explains. If it is missing because of what it is, the effect is biased."
    ]


def about_unseen(found: Effect) -> str:
    """Return what next states that were not observed could change."""
    known = found.sensitivity
    if not known.missing:
        return (
            f"Not seen: nothing. The next states of all {several(known.rows, 'arm-round')} were observed, so the "
            "effect does not depend on states that are missing."
        )
    part = 100 * known.missing / known.rows
    said = (
        f"Not seen: the next state of {known.missing:,} of {several(known.rows, 'arm-round')} ({part:.0f} %), "
        f"{known.missing_drawn:,} of them drawn. The effect takes it that these were good as often as those that were "
        "seen, in the same state and after the same draw; no record can show that."
    )
    return f"{said} {_moved(found.estimate, known)} {_tips(known)} {_bounded(known)}"


def _moved(estimate: float, known: EffectSensitivity) -> str:
    """Return what differences of ten points would change, in the direction that brings the effect to 0."""
    step, by = (-STEP if estimate > 0 else STEP), f"{100 * STEP:.0f} percentage points"
    first, second = ("less", "more") if estimate > 0 else ("more", "less")
    drawn, others = (signed(estimate + known.shift(*moved)) for moved in ((step, 0.0), (0.0, -step)))
    return (
        f"If those drawn and not seen had been good {by} {first} often than that, the effect would be {drawn} instead "
        f"of {signed(estimate)}; if those not drawn and not seen had been good {100 * STEP:.0f} points {second} often, "
        f"{others}."
    )


def _tips(known: EffectSensitivity) -> str:
    """Return at which difference the conclusion is another one."""
    low, high = known.interval
    worse, better = (f"{100 * d:.0f}" if math.isfinite(d) else "" for d in known.tipping.values())
    if not math.isfinite(low):
        return "It is too early for a conclusion that they could change."
    if low > 0 or high < 0:
        verb, size = ("helps", worse) if low > 0 else ("harms", better)
        if size:
            return f"With {size} points for both, it would no longer be clear that a pull {verb}."
        return f"Even with 100 points for both, it would still be clear that a pull {verb}."
    clear = [(worse, "less", "more", "harms"), (better, "more", "less", "helps")]
    told = [
        f"that a pull {verb}, if those drawn and not seen had been good {size} points {first} often and the others "
        f"{size} points {second} often"
        for size, first, second, verb in clear
        if size
    ]
    return f"It would be clear {'; or '.join(told)}." if told else "No difference would make it clear what a pull does."


def _bounded(known: EffectSensitivity) -> str:
    (low, high), (least, most) = known.bounds, known.outer
    said = f"Whatever the unseen states were, the effect lies between {signed(low)} and {signed(high)}"
    outer = f", with the uncertainty of the draws between {signed(least)} and {signed(most)}"
    return f"{said}{outer if math.isfinite(least) else ''}."
