r"""Accounts: what each arm of a log was due less what it was given, in pulls.

In round t arm i was due the exposure :math:`e_i(t)` and was given the exposure :math:`x_i(t)`, with which it was drawn.
Its account is :math:`d_i(t) = \sum_{\tau \le t} (e_i(\tau) - x_i(\tau))`, from :math:`d_i = 0` before its first round:
above 0 the arm is behind, below 0 ahead. A round without a row changes nothing. Nothing here is statistics: accounts
are sums of stated numbers, whoever was drawn.

**Worst window.** The exposures due in the rounds after s up to t differ from those given by :math:`d_i(t) - d_i(s)`, so
the largest difference over all runs of rounds is the largest account minus the least, the start at 0 included. With
:math:`|d_i| \le B` at all times it is therefore at most :math:`2B`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from meritfair.auditing.evidence import Histories
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.texts import several

_DIGITS = 10  # of accounts, so that rounding errors do not decide between equal ones
TOLERANCE = 1e-6  # pulls: what the rounding of exposures in a file may add up to


class Extreme(NamedTuple):
    """The account that is farthest from 0: of which arm, after which round (None if no account ever changes)."""

    arm: str
    round: int | None
    account: float

    def __str__(self) -> str:
        return f"{self.arm} was {pulls(self.account)} in round {self.round}"


class Window(NamedTuple):
    """The run of rounds over which due and given exposure of an arm differ most; `owed` is due less given."""

    arm: str
    first: int
    last: int
    owed: float

    def __str__(self) -> str:
        when = f"rounds {self.first} to {self.last}" if self.first < self.last else f"round {self.first}"
        word = "less" if self.owed > 0 else "more"
        return f"{when}, in which {self.arm} was given {abs(self.owed):.2f} pulls {word} than due"


@dataclass(frozen=True, eq=False)
class Accounts:
    """The accounts of arms, or of groups, which are the sums of their members'. Arrays have an entry for each.

    Attributes
    ----------
    names : tuple of str
    due, now : ndarray
        The sum of the due exposures, and the account after the last round: due less given, in pulls.
    least, largest : ndarray
        The extremes of the account after any round, and before the first, when it is 0.
    least_round, largest_round : ndarray of int
        When it was there first: numbers of rounds. Where the extreme is 0, the first round of the arm.
    owed : ndarray
        Due less given over the worst window, the run of rounds for which this is largest in size.
    window : ndarray of int, shape (arms, 2)
        The first and the last round of it.

    Examples
    --------
    >>> from meritfair import DrawLog, audit
    >>> log = DrawLog([1, 2, 3], ["Ada"] * 3, exposure=[0.2, 0.9, 0.4], drawn=[0, 1, 0], due=[0.5, 0.5, 0.5])
    >>> account = audit(log).arms.account
    >>> account.least.round(6).tolist(), account.largest.round(6).tolist(), account.window.tolist()
    ([-0.1], [0.3], [[2, 2]])
    """

    names: tuple[str, ...]
    due: FloatArray
    now: FloatArray
    least: FloatArray
    largest: FloatArray
    least_round: IntArray
    largest_round: IntArray
    owed: FloatArray
    window: IntArray
    _round: IntArray
    _account: FloatArray
    _starts: IntArray

    @property
    def farthest(self) -> FloatArray:
        """How far each account ever was from 0."""
        return np.maximum(self.largest, -self.least)

    def farthest_first(self, most: int) -> IntArray:
        """Return the places of those whose accounts were farthest from 0, the farthest first."""
        return np.argsort(-self.farthest, kind="stable")[:most]

    def extreme(self) -> Extreme:
        """Return the account that was ever farthest from 0."""
        k = int(self.farthest.argmax())
        behind = self.largest[k] >= -self.least[k]
        when, account = (self.largest_round, self.largest) if behind else (self.least_round, self.least)
        return Extreme(self.names[k], int(when[k]) if account[k] else None, float(account[k]))

    def worst_window(self) -> Window:
        """Return the worst window of all."""
        k = int(np.abs(self.owed).argmax())
        return Window(self.names[k], int(self.window[k, 0]), int(self.window[k, 1]), float(self.owed[k]))

    def at(self, k: int, looks: IntArray) -> FloatArray:
        """Return one account after some of the rounds of the log, counted from 0; NaN before its first row."""
        mine = slice(self._starts[k], np.append(self._starts, len(self._round))[k + 1])
        last = np.searchsorted(self._round[mine], looks, side="right") - 1
        return np.where(last >= 0, self._account[mine][last], np.nan)

    def envelope(self, looks: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest of the accounts with a row since the look before, for each look."""
        look = np.searchsorted(looks, self._round)
        low, high = np.full(len(looks), np.inf), np.full(len(looks), -np.inf)
        np.minimum.at(low, look, self._account)
        np.maximum.at(high, look, self._account)
        return low, high

    def columns(self) -> dict[str, list[Any]]:
        """Return the accounts as columns of plain values."""
        values = {
            "due": self.due,
            "account": self.now,
            "least_account": self.least,
            "largest_account": self.largest,
            "worst_window": self.owed,
            "window_first": self.window[:, 0],
            "window_last": self.window[:, 1],
        }
        return {name: column.tolist() for name, column in values.items()}


def accounts(units: Histories, names: tuple[str, ...], rounds: IntArray) -> Accounts | None:
    """Return the accounts of units, if their log says what was due; `rounds` are the numbers of its rounds."""
    if units.due is None:
        return None
    account = _running(units, units.due - units.expected).round(_DIGITS) + 0.0  # and no -0
    least = np.minimum(np.minimum.reduceat(account, units.starts), 0.0)
    largest = np.maximum(np.maximum.reduceat(account, units.starts), 0.0)
    low, high = _first_row(units, account, least), _first_row(units, account, largest)
    end = np.maximum(low, high)
    begin = _last_row(units, account, np.where(low < high, least, largest), end) + 1
    window = np.column_stack([begin, np.maximum(begin, end)])
    number = rounds[units.round]
    return Accounts(
        names=names,
        due=units.total(units.due),
        now=account[units.starts + units.lengths - 1],
        least=least,
        largest=largest,
        least_round=number[np.maximum(low, units.starts)],
        largest_round=number[np.maximum(high, units.starts)],
        owed=np.where(high >= low, 1.0, -1.0) * (largest - least),
        window=number[window],
        _round=units.round,
        _account=account,
        _starts=units.starts,
    )


def _running(units: Histories, values: FloatArray) -> FloatArray:
    """Return the sums over each unit's rounds up to each; each is summed alone, as sums over all would lose digits."""
    sums = np.empty_like(values)
    for length in np.unique(units.lengths):
        rows = units.starts[units.lengths == length][:, None] + np.arange(length)
        sums[rows] = np.cumsum(values[rows], axis=1)
    return sums


def _first_row(units: Histories, account: FloatArray, value: FloatArray) -> IntArray:
    """Return the first row where each unit's account has this value: the one before its first row if that is 0."""
    found = units.starts - 1
    rows = np.flatnonzero((account == value[units.unit]) & (account != 0))
    of_unit, first = np.unique(units.unit[rows], return_index=True)
    found[of_unit] = rows[first]
    return found


def _last_row(units: Histories, account: FloatArray, value: FloatArray, before: IntArray) -> IntArray:
    """Return the last row where each unit's account has this value, before a row; or the one before its first row."""
    found = units.starts - 1
    rows = np.flatnonzero((account == value[units.unit]) & (np.arange(len(account)) < before[units.unit]))
    np.maximum.at(found, units.unit[rows], rows)
    return found


def pulls(account: float) -> str:
    """Return an account in words.

    Examples
    --------
    >>> pulls(1.234), pulls(-0.5)
    ('1.23 pulls behind', '0.50 pulls ahead')
    """
    return f"{abs(account):.2f} pulls {'behind' if account > 0 else 'ahead'}"


def verdict(table: Accounts, slack: float | None) -> str:
    """Return in words how far any account went, and whether that is within the slack, if there is one."""
    worst = table.extreme()
    if abs(worst.account) <= TOLERANCE:
        return "All accounts are 0 at all times: in every round everyone was given what they were due."
    if slack is None:
        return f"The largest account: {worst}."
    beyond = int((table.farthest > slack + TOLERANCE).sum())
    if not beyond:
        return f"Every account stayed within the slack of {slack:g}. The largest: {worst}."
    return (
        f"{several(beyond, 'account')} of {len(table.names):,} went beyond the slack of {slack:g}: {worst}, "
        f"which is {abs(worst.account) - slack:.2g} too much."
    )
