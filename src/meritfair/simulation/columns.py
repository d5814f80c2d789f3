"""How people are shown measures: headings, digits, and what each measure means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # it needs NumPy, which the help of commands does not
    from collections.abc import Iterable, Mapping, Sequence

    from meritfair.simulation.bootstrap import Interval


class Column(NamedTuple):
    """A measure in a table: its heading, how many digits after the point, unless it is large, and what it means."""

    heading: str
    digits: int
    meaning: str
    percent: bool = False

    def number(self, value: float, like: float | None = None) -> str:
        """Return a number as text, a dash if there is none, with as many digits as another has."""
        if math.isnan(value):
            return "–"
        scale = 100 if self.percent else 1
        digits = 0 if abs(scale * (value if like is None else like)) >= 100 else self.digits
        return f"{scale * value:z,.{digits}f}".replace("-", "−").replace("inf", "∞") + " %" * self.percent

    def in_short(self, value: Interval) -> str:
        """Return the mean, and half the width of its interval if there is one."""
        if math.isnan(value.low):
            return self.number(value.mean)
        return f"{self.number(value.mean)} ±{self.number((value.high - value.low) / 2, value.mean)}"

    def in_full(self, value: Interval) -> str:
        """Return the mean, and in a second line its interval if there is one."""
        if math.isnan(value.low):
            return self.number(value.mean)
        low, high = (self.number(end, value.mean) for end in (value.low, value.high))
        return f"{self.number(value.mean)}\n{low.removesuffix(' %')} to {high}"


_BOUND = "≥"
BOUND_MEANING = f"{_BOUND}: a lower bound, as some run ended too early to know the number."


def is_lower_bound(name: str, measures: Mapping[str, Interval]) -> bool:
    """Return whether a measure is only a lower bound, as t0 and G are if some run ended too early (`Run.measures`).

    Examples
    --------
    >>> from meritfair.simulation.bootstrap import Interval
    >>> share = Interval(0.1, 0.0, 0.3)
    >>> found = {"coverage_gap": Interval(7.0, 6.0, 9.0), "coverage_gap_censored": share, "gini": share}
    >>> is_lower_bound("coverage_gap", found), is_lower_bound("gini", found)
    (True, False)
    """
    censored = f"{name}_censored"
    return censored in measures and measures[censored].mean > 0


def marked(text: str, name: str, measures: Mapping[str, Interval]) -> str:
    """Return the text of a measure, with a sign before it if it is only a lower bound."""
    return f"{_BOUND} {text}" if is_lower_bound(name, measures) else text


def has_bounds(cells: Iterable[Iterable[str]]) -> bool:
    """Return whether some cell of a table is only a lower bound."""
    return any(cell.startswith(_BOUND) for row in cells for cell in row)


ACCOUNTS = ("largest_account", "worst_window")  # shown if some policy has accounts
COLUMNS = {
    "intervention_benefit": Column(
        "intervention\nbenefit", 2, "Intervention benefit: reward on a scale where none is 0 and whittle is 1."
    ),
    "price_of_fairness": Column(
        "price of\nfairness", 1, "Price of fairness: share of whittle's reward that is lost.", percent=True
    ),
    "fairness_regret": Column(
        "fairness\nregret",
        1,
        "Fairness regret: L1 distance of the policy's shares from the fair ones, summed over episodes (0 is perfect, "
        "at most 2 per episode).",
    ),
    "exposure_regret": Column(
        "exposure\nregret", 1, "Exposure regret: the same for exposures, which sum to the budget."
    ),
    "good_state": Column("good\nstate", 1, "Good state: share of arms in the good state.", percent=True),
    "jain": Column("Jain", 2, "Jain: evenness of the pulls, 1 if all arms get the same number."),
    "hhi": Column("HHI", 3, "HHI: Herfindahl-Hirschman index of the pulls, 1/N if all arms get the same number."),
    "earth_mover": Column(
        "earth mover's\ndistance",
        2,
        "Earth mover's distance: part of the pulls that are not where round robin has them.",
    ),
    "gini": Column("Gini", 2, "Gini: inequality of the pulls, 0 if all arms get the same number."),
    "smallest_exposure": Column(
        "smallest\nexposure", 3, "Smallest exposure: share of steps at which the least pulled arm was pulled."
    ),
    "longest_wait": Column("longest\nwait", 0, "Longest wait: most steps that any arm went without a pull."),
    "largest_account": Column(
        "largest\naccount",
        2,
        "Largest account: most pulls that any arm was ever ahead of or behind what it was due, if the policy keeps "
        "accounts.",
    ),
    "worst_window": Column(
        "worst\nwindow",
        2,
        "Worst window: most pulls by which what any arm was given and what it was due differed over any run of steps.",
    ),
    "first_valid_episode": Column(
        "t0", 0, "t0: the last episode at which some eta was 1 or more; the paper's bound applies after it."
    ),
    "coverage_gap": Column(
        "G", 0, "G: most episodes between two in which an arm was seen in both states under both actions."
    ),
}


def column_of(measure: str) -> Column:
    """Return how a measure is shown; one that is seldom shown under its own name."""
    return COLUMNS[measure] if measure in COLUMNS else Column(measure.replace("_", " "), 3, "")


def chosen(columns: str | Sequence[str] | None, known: Iterable[str], usual: Sequence[str]) -> tuple[str, ...]:
    """Return which measures a table is to have: those that are asked for, if they are known, or else the usual ones.

    Examples
    --------
    >>> chosen(["gini", "jain"], ["gini", "good_state", "jain"], ["gini"])
    ('gini', 'jain')
    >>> chosen("ginni", ["gini", "good_state", "jain"], ["gini"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: there is no measure 'ginni', did you mean 'gini'?
    """
    from meritfair.core.checks import check_known
    from meritfair.core.errors import InputError

    if columns is None:
        return tuple(usual)
    names = [columns] if isinstance(columns, str) else list(columns)
    there = list(known)
    for name in names:
        check_known("measure", name, there)
    if not names or len(set(names)) < len(names):
        raise InputError(f"columns must be one or more different names, got {columns!r}")
    return tuple(names)
