"""What a log of draws proves: the verdict, tables of arms and groups, and how the evidence went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from meritfair.auditing.accounts import TOLERANCE, Accounts, Extreme, Window, verdict
from meritfair.auditing.evidence import rounds_until_found
from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_choice
from meritfair.core.errors import InputError
from meritfair.core.tables import data_frame, rows_of, write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LESS_OFTEN = 0.1  # than stated: a tenth, for which the audit says how soon it would show


class Violation(NamedTuple):
    """A draw that the stated exposure rules out: drawn at exposure 0, or not drawn at exposure 1."""

    round: int
    arm: str
    exposure: float


class Budget(NamedTuple):
    """How many were drawn in a round.

    `uneven` counts rounds in which the stated exposures do not add up to that, `uneven_due` those in which the due
    exposures do not add up to the stated ones (None without any). The first such rounds are named. `variation` is the
    variance of the number drawn about the sum of the exposures, as a part of what it is if each arm is drawn by itself,
    and `variation_error` its standard error then; None where nothing was left to chance.
    """

    smallest: int
    largest: int
    uneven: int
    first_uneven: int | None
    uneven_due: int | None
    first_uneven_due: int | None
    variation: float | None
    variation_error: float | None

    @property
    def by_chance(self) -> tuple[float, float] | None:
        """Between which bounds the variation is if each arm is drawn by itself: three standard errors."""
        error = self.variation_error
        return None if error is None else (max(0.0, 1 - 3 * error), 1 + 3 * error)

    @property
    def within_chance(self) -> bool:
        """Whether the variation is between these bounds. Looked at after every round, it is outside now and then."""
        if self.variation is None or self.by_chance is None:
            return False
        return self.by_chance[0] <= self.variation <= self.by_chance[1]

    @property
    def as_independent(self) -> bool:
        """Whether the number drawn varies as that of independent draws does, and a fixed one would have shown."""
        return self.uneven > 0 and self.within_chance and self.by_chance is not None and self.by_chance[0] > 0


@dataclass(frozen=True)
class Evidence:
    """An e-value now and at its largest, as logarithms since it may exceed all floats; `found` is the round of 1/alpha.

    Examples
    --------
    >>> Evidence(log_e=2.0, log_largest=4.0, found=17, alpha=0.05).violated
    True
    """

    log_e: float
    log_largest: float
    found: int | None
    alpha: float

    @property
    def e_value(self) -> float:
        """The e-value after the last round."""
        return float(_exp(self.log_e))

    @property
    def largest(self) -> float:
        """The largest e-value after any round."""
        return float(_exp(self.log_largest))

    @property
    def p_value(self) -> float:
        """A p-value that may be looked at after every round."""
        return min(1.0, float(_exp(-self.log_largest)))

    @property
    def violated(self) -> bool:
        """Whether the e-value has ever reached 1/alpha."""
        return self.found is not None

    def values(self) -> dict[str, Any]:
        """Return all of it by name, as plain values."""
        derived = {"e_value": self.e_value, "largest": self.largest, "p_value": self.p_value, "violated": self.violated}
        return {**derived, "log_e": self.log_e, "log_largest": self.log_largest, "found": self.found}


@dataclass(frozen=True, eq=False)
class AuditTable:
    """What the log says of each arm, or of each group. Arrays have an entry for each.

    Attributes
    ----------
    names : tuple of str
    members, rounds, turns : ndarray
        Arms; rounds in which any took part; rows of the log, so that rates are by member and round.
    entitled, drawn : ndarray
        The sum of the stated exposures, and how often they were drawn.
    shortfall, low, high : ndarray
        Stated exposure less draws by turn; and bounds on the true value, stated exposure less true probability, which
        hold for the whole table at all times with probability 1 - alpha.
    stake : ndarray
        By which the e-values are multiplied, since there are many; divide to have that of one chosen beforehand.
    log_e, log_largest : ndarray
        Logarithms of the e-value now, and at its largest.
    flagged : ndarray of bool
        Whether the e-value ever reached 1/alpha. Then the overall one has reached it, too.
    account : Accounts
        What was due less what was given; None if the log does not say what was due.
    """

    names: tuple[str, ...]
    members: IntArray
    rounds: IntArray
    turns: IntArray
    entitled: FloatArray
    drawn: FloatArray
    low: FloatArray
    high: FloatArray
    stake: FloatArray
    log_e: FloatArray
    log_largest: FloatArray
    flagged: BoolArray
    account: Accounts | None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shortfall(self) -> FloatArray:
        """Stated exposure less draws, by turn."""
        return (self.entitled - self.drawn) / self.turns

    @property
    def e_value(self) -> FloatArray:
        """The e-values after the last round."""
        return _exp(self.log_e)

    @property
    def largest(self) -> FloatArray:
        """The largest e-values after any round."""
        return _exp(self.log_largest)

    @property
    def p_value(self) -> FloatArray:
        """P-values, allowing for all that was looked at, whenever it was."""
        return np.minimum(1.0, _exp(-self.log_largest))

    def columns(self, what: str) -> dict[str, list[Any]]:
        """Return the table as columns of plain values; the first is called `what`."""
        names = ("members", "rounds", "turns", "entitled", "drawn", "shortfall", "low", "high")
        evidence = ("e_value", "largest", "p_value", "stake", "flagged")
        own = {name: getattr(self, name).tolist() for name in (*names, *evidence)}
        return {what: list(self.names), **own, **({} if self.account is None else self.account.columns())}

    def rows(self, what: str) -> list[dict[str, Any]]:
        """Return the table as rows of plain values."""
        return rows_of(self.columns(what))

    def most_suspicious(self, most: int) -> IntArray:
        """Return the places of those with the largest e-values, the largest first."""
        return np.argsort(-self.log_largest, kind="stable")[:most]


@dataclass(frozen=True, eq=False)
class Course:
    """Logarithms of e-values after each round: overall, the largest of any arm so far, and of each group.

    ``groups`` has shape (groups, rounds) and is NaN before a group first takes part.
    """

    rounds: IntArray
    overall: FloatArray
    arms: FloatArray
    groups: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What a log of draws proves; made by `audit`.

    Attributes
    ----------
    alpha : float
        The probability that fair draws are ever accused of anything: overall, or of any arm or group.
    overall : Evidence
        Against the hypothesis that every arm was drawn with its stated exposures.
    arms, groups : AuditTable
        For single arms and groups; ``groups`` is None if the log has none.
    certain : tuple of Violation
        Draws that the stated exposures rule out.
    budget : Budget
    rounds : ndarray
        The numbers of the rounds.
    slack : float or None
        How far from 0 the account of an arm may be.
    """

    alpha: float
    fixed_budget: bool
    independent: bool
    slack: float | None
    overall: Evidence
    arms: AuditTable
    groups: AuditTable | None
    certain: tuple[Violation, ...]
    budget: Budget
    rounds: IntArray
    _overall: FloatArray
    _largest_arm: FloatArray
    _groups: tuple[tuple[IntArray, FloatArray], ...]

    def __repr__(self) -> str:
        account = self.arms.account
        return self._verdict() + ("" if account is None else f" {verdict(account, self.slack)}")

    @property
    def largest_account(self) -> Extreme | None:
        """The account farthest from 0: its arm, its round and the account; None if the log has no due exposures."""
        return None if self.arms.account is None else self.arms.account.extreme()

    @property
    def worst_window(self) -> Window | None:
        """The run of rounds in which an arm was given least, or most, of what it was due; or None."""
        return None if self.arms.account is None else self.arms.account.worst_window()

    @cached_property
    def rounds_until_found(self) -> float:
        """After about how many of its rounds an arm would be flagged that is drawn a tenth less often than stated.

        The median over arms; infinite if it would never be found.
        """
        table = self.arms
        exposure = table.entitled / table.turns
        known = exposure > 0
        if not known.any():
            return math.inf
        found = rounds_until_found(exposure[known], table.stake[known], self.alpha, LESS_OFTEN)
        return float(np.median(found))

    @property
    def power(self) -> dict[str, float | None]:
        """What is said of the power, as plain values; None for rounds without end."""
        rounds = self.rounds_until_found
        return {"less_often": LESS_OFTEN, "rounds": rounds if math.isfinite(rounds) else None}

    @property
    def within_slack(self) -> bool | None:
        """Whether every arm's account stayed within the slack, up to rounding; None without slack."""
        if self.arms.account is None or self.slack is None:
            return None
        return bool((self.arms.account.farthest <= self.slack + TOLERANCE).all())

    def _verdict(self) -> str:
        """Return what the draws prove, in words."""
        o, need = self.overall, readable(-math.log(self.alpha))
        if not o.violated:
            return (
                f"The draws are compatible with the stated exposures: e-value {readable(o.log_e)}, at most "
                f"{readable(o.log_largest)} so far; {need} would be needed at level {self.alpha:g}."
            )
        if self.certain:
            count, first = len(self.certain), self.certain[0]
            did = "was drawn" if first.exposure == 0 else "was not drawn"
            return (
                f"The draws did not follow the stated exposures: {count:,} of them {'is' if count == 1 else 'are'} "
                f"impossible, first in round {first.round}, where {first.arm} {did} at exposure {first.exposure:g}."
            )
        return (
            f"The draws did not follow the stated exposures: the e-value passed {need} in round {o.found} and reached "
            f"{readable(o.log_largest)}. Fair draws ever pass {need} with probability at most {self.alpha:g}."
        )

    @cached_property
    def course(self) -> Course:
        """How the e-values went, round by round."""
        return self.course_at(np.arange(len(self.rounds)))

    def course_at(self, looks: IntArray) -> Course:
        """Return the e-values after some of the rounds, which are counted from 0."""
        groups = np.full((len(self._groups), len(looks)), np.nan)
        for values, (when, log_e) in zip(groups, self._groups, strict=True):
            last = np.searchsorted(when, looks, side="right") - 1
            values[last >= 0] = log_e[last[last >= 0]]
        return Course(self.rounds[looks], self._overall[looks], self._largest_arm[looks], groups)

    def save(self, path: str | PathLike[str]) -> tuple[Path, ...]:
        """Write the table of arms to a .csv or .parquet file, and that of groups beside it; return the files."""
        file = Path(path)
        write_table(file, "audits", self.arms.columns("arm"))
        if self.groups is None:
            return (file,)
        beside = file.with_name(f"{file.stem}-groups{file.suffix}")
        write_table(beside, "audits", self.groups.columns("group"))
        return file, beside

    def table(self, what: Literal["arms", "groups"] = "arms") -> pd.DataFrame:
        """Return a DataFrame with a row for each arm or for each group; needs the extra ``lab``."""
        table = self.arms if check_choice("what", what, ("arms", "groups")) == "arms" else self.groups
        if table is None:
            raise InputError("there is no table of groups, as the log has none")
        return data_frame(table.columns(what.removesuffix("s")))

    def plot(self, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the evidence over the rounds, and the shortfall of each group, or of the most suspicious arms.

        A log with due exposures has a third panel, the accounts over the rounds. It is drawn into two Axes that are
        given, or three if there are accounts, or on a new figure, by default of a size that suits.
        """
        from meritfair.auditing.figure import plot_audit

        return plot_audit(self, ax=ax, figsize=figsize)


def _exp(power: npt.ArrayLike) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(power))


def in_two_digits(count: float) -> int:
    """Return a count that is known only roughly with two digits.

    Examples
    --------
    >>> in_two_digits(1234.5), in_two_digits(7.2)
    (1200, 7)
    """
    return int(round(count, min(0, 1 - math.floor(math.log10(max(1.0, count))))))


def readable(log_e: float) -> str:
    """Return an e-value in few digits, from its logarithm.

    Examples
    --------
    >>> readable(math.log(0.412)), readable(math.log(20)), readable(1000.0), readable(math.inf)
    ('0.41', '20', '2e+434', 'infinite')
    """
    if math.isinf(log_e):
        return "infinite" if log_e > 0 else "0"
    if log_e < math.log(1e5):
        return f"{math.exp(log_e):.2g}" if log_e < math.log(99) else f"{math.exp(log_e):,.0f}"
    power = log_e / math.log(10)
    return f"{10 ** (power % 1):.0f}e+{math.floor(power)}"
