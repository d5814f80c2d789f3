"""Records of what was done and what came of it: CSV or Parquet files with the columns arm, round, state, action.

A row says in which state an arm was in a round, 0 (bad) or 1 (good), and whether it was pulled, 0 (no) or 1 (yes).
What came of it is the state in the arm's row for the next round, so two such rows make one *transition*. Where the
next round is missing there is a *gap*, and nothing is counted across it. Arms may join late and leave early, rows may
come in any order, and other columns are ignored.

The last action before a gap, or of all, has no outcome yet: there the action may be empty.

Rounds are numbers, where the next round is one more, or dates. Then a round is what most often lies between two rows of
an arm: if that is 7 days, 14 days are a gap. Dates that are all of the same day of the month are counted in months.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import AnyArray, BoolArray, DateArray, IntArray, frozen
from meritfair.core.checks import check_dates, float_array
from meritfair.core.errors import InputError, RowError
from meritfair.core.tables import EMPTY, first_duplicate, numbered, read_table
from meritfair.core.texts import several
from meritfair.model.counts import Counts

_COLUMNS = ("arm", "round", "state", "action")
_LARGEST_ROUND = 2**53 - 1  # as a float, no other whole number is rounded to it
_STATES = "must be 0 (bad) or 1 (good), or false or true"
_ACTIONS = "must be 0 (not pulled) or 1 (pulled), or false or true, or empty if the arm has no row for the next round"


class StateLog:
    """What was recorded of each arm in each round, sorted by arm and then by round.

    Parameters
    ----------
    arms : iterable
        The name of the arm, for each row.
    rounds : array_like
        The number of the round, for each row: any whole numbers, where the next round is one more; or dates, as
        datetime64 or as numbers that are all of the form YYYYMMDD.
    states : array_like
        0 (bad) or 1 (good), for each row.
    actions : array_like
        0 (not pulled) or 1 (pulled), for each row; -1, None or NaN where the arm has no row for the next round.

    Attributes
    ----------
    arms : tuple of str
        The names, in order of first appearance.
    arm : ndarray
        Which of them, for each row.
    rounds, states, actions : ndarray
        As above; an empty action is -1, and dates are counted in rounds from the first one, which is 0.
    dates : ndarray of datetime64, or None
        The dates, where there are any, by day or by month.
    round_length : str
        How far apart dates are, such as "7 days"; empty where there are none.

    Examples
    --------
    >>> log = StateLog(["Ada", "Bo", "Ada", "Ada"], rounds=[1, 1, 2, 4], states=[0, 1, 1, 1], actions=[1, 0, 0, None])
    >>> log
    StateLog(4 rows of 2 arms: 1 transition, 1 gap)
    >>> log.counts.visits[0]
    array([[0, 1],
           [0, 0]])
    """

    def __init__(
        self,
        arms: Iterable[object],
        rounds: npt.ArrayLike,
        states: npt.ArrayLike,
        actions: npt.ArrayLike | Sequence[float | None],
    ) -> None:
        self.arms, arm = numbered(arms)
        given = _round_array(rounds)
        columns = [given, _bit_array("states", states), _bit_array("actions", actions)]
        if not len(arm) or any(column.shape != arm.shape for column in columns):
            shapes = ", ".join(str(column.shape) for column in (arm, *columns))
            raise InputError(f"arms, rounds, states and actions must have one value for each row, got shapes {shapes}")
        self.dates, self.round_length = None, ""
        if given.dtype.kind == "M":
            given = _regular(given)
            columns[0], self.round_length = _count_rounds(given, arm, self.arms)
        twice = first_duplicate(columns[0], arm)
        if twice:
            problem = f"the arm {self.arms[arm[twice[1]]]!r} already has round {given[twice[1]]} in"
            raise RowError(twice[1], "round", problem, twice[0])
        order = np.lexsort((columns[0], arm))
        if given.dtype.kind == "M":
            self.dates = frozen(given[order])
        self.arm = frozen(arm[order])
        self.rounds, self.states, self.actions = (frozen(column[order]) for column in columns)
        self._check_actions(order, given)

    def _check_actions(self, order: IntArray, when: AnyArray) -> None:
        """Refuse an empty action before a next round; `order` says where each row stood, `when` is its round."""
        open_ended = np.flatnonzero(self._followed & (self.actions[:-1] < 0))
        if len(open_ended):
            at = open_ended[np.argmin(order[open_ended])]
            row, after = order[at], order[at + 1]
            problem = f"is empty, but the arm {self.arms[self.arm[at]]!r} has its next round, {when[after]}, in"
            raise RowError(row, "action", problem, after)

    def check_transitions(self) -> None:
        """Refuse a log in which arms have several rows, but none for two rounds in a row: they must be misnumbered."""
        if self.gaps and not self.transitions:
            apart = np.gcd.reduce(np.diff(self.rounds)[self._same_arm])
            raise InputError(
                f"the log has no transitions: the next round must be one more, but rounds step by {apart} or more; "
                "number them 1, 2, 3 or write dates such as 2026-03-02"
            )

    @cached_property
    def _same_arm(self) -> BoolArray:
        """Whether the next row is of the same arm; one shorter than the rows."""
        return np.asarray(self.arm[1:] == self.arm[:-1])

    @cached_property
    def _followed(self) -> BoolArray:
        """Whether the next row is of the same arm's next round; one shorter than the rows."""
        return np.asarray(self._same_arm & (self.rounds[1:] - self.rounds[:-1] == 1))

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.arms)

    @property
    def transitions(self) -> int:
        """How many rows have an outcome: the same arm's row for the next round."""
        return int(self._followed.sum())

    @property
    def gaps(self) -> int:
        """How often an arm was lost sight of for a round or more, and then seen again."""
        return int(self._same_arm.sum()) - self.transitions

    @cached_property
    def counts(self) -> Counts:
        """What followed what: counts of the transitions."""
        now = np.flatnonzero(self._followed)
        where = 4 * self.arm[now] + 2 * self.states[now] + self.actions[now]
        visits, good = (
            np.bincount(cells, minlength=4 * self.n_arms).reshape(-1, 2, 2)
            for cells in (where, where[self.states[now + 1] == 1])
        )
        return Counts(visits, good)

    def by_round(self) -> Iterator[tuple[IntArray, IntArray, IntArray, IntArray]]:
        """Yield the transitions of each round, in order: arms, states, actions and next states."""
        now = np.flatnonzero(self._followed)
        now = now[np.argsort(self.rounds[now], kind="stable")]
        for rows in np.split(now, np.flatnonzero(np.diff(self.rounds[now])) + 1):
            yield self.arm[rows], self.states[rows], self.actions[rows], self.states[rows + 1]

    @property
    def first_rounds(self) -> IntArray:
        """The first round of each arm, shape (N,)."""
        return np.asarray(self.rounds[np.r_[True, ~self._same_arm]])

    @property
    def last_rounds(self) -> IntArray:
        """The last round of each arm, shape (N,)."""
        return np.asarray(self.rounds[np.r_[~self._same_arm, True]])

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        rows, arms = several(len(self), "row"), several(self.n_arms, "arm")
        return f"StateLog({rows} of {arms}: {several(self.transitions, 'transition')}, {several(self.gaps, 'gap')})"


def read_log(path: str | PathLike[str]) -> StateLog:
    r"""Read what was recorded from a .csv or .parquet file with the columns arm, round, state, action.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "log.csv")
    ...     _ = file.write_text("arm,round,state,action\nAda,1,0,1\nAda,2,1,0\nAda,3,1,\n")
    ...     read_log(file)
    StateLog(3 rows of 1 arm: 2 transitions, 0 gaps)
    """
    table = read_table(path, "observations", _COLUMNS)
    arms = table.text("arm")
    rounds = table.rounds("round", -_LARGEST_ROUND, _LARGEST_ROUND)
    states, actions = table.bits("state", _STATES), table.bits("action", _ACTIONS, may_be_empty=True)
    try:
        return StateLog(arms, rounds, states, actions)
    except RowError as bad:
        raise table.located(bad) from None


def _round_array(rounds: npt.ArrayLike) -> AnyArray:
    """Return rounds as whole numbers or, if they are dates, as datetime64."""
    given = np.asarray(rounds)
    if given.dtype.kind == "M":
        return given
    if given.dtype.kind == "i":
        return _as_days(given.astype(np.int64))
    numbers = float_array("rounds", rounds)
    wrong = numbers[~((np.abs(numbers) <= _LARGEST_ROUND) & (numbers == np.round(numbers)))]
    if wrong.size:
        raise InputError(f"rounds must hold whole numbers below 2^53, got {wrong.flat[0]}")
    return _as_days(numbers.astype(np.int64))


def _as_days(numbers: IntArray) -> AnyArray:
    """Return whole numbers as days if each is one of 1900 to 2099, written YYYYMMDD; otherwise as they are."""
    year, month, day = numbers // 10000, numbers // 100 % 100, numbers % 100
    if not (numbers.size and ((year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1)).all()):
        return numbers
    months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    return days if (days.astype("datetime64[M]") == months).all() else numbers


def _regular(dates: DateArray) -> DateArray:
    """Return dates by day, or by month if all are of the same day of different months."""
    days, months = check_dates("rounds", dates), dates.astype("datetime64[M]")
    same_day = len(np.unique(days - months.astype(days.dtype))) == 1
    return months if same_day and len(np.unique(months)) > 1 else days


def _count_rounds(dates: DateArray, arm: IntArray, names: Sequence[str]) -> tuple[IntArray, str]:
    """Return the rounds of dates, from 0, and how long one is: what most often lies between two rows of an arm."""
    word = {"D": "day", "M": "month"}[np.datetime_data(dates.dtype)[0]]
    place = (dates - dates.min()).astype(np.int64)
    order = np.lexsort((place, arm))
    apart = np.where(np.diff(arm[order]) == 0, np.diff(place[order]), 0)
    lengths, often = np.unique(apart[apart > 0], return_counts=True)
    length = int(lengths[np.argmax(often)]) if len(lengths) else 1
    odd = np.flatnonzero(apart % length)
    if len(odd):
        at = odd[np.argmin(order[odd + 1])]
        mostly = f"mostly {several(length, word)} apart (weeks can be written 2026-W10, months 2026-03)"
        here = f"{names[arm[order[at]]]!r} is here {several(int(apart[at]), word)} after"
        raise RowError(order[at + 1], "round", f"rounds are {mostly}, but {here}", order[at])
    return place // length, several(length, word)


def _bit_array(name: str, values: Any) -> IntArray:
    numbers = float_array(name, values)
    if name == "actions":
        numbers = np.where(np.isnan(numbers), float(EMPTY), numbers)
    wrong = np.flatnonzero(~np.isin(numbers, (EMPTY, 0, 1) if name == "actions" else (0, 1)))
    if len(wrong):
        allowed = "0 or 1, or -1 if not recorded" if name == "actions" else "0 or 1"
        raise InputError(f"{name} must be {allowed}, got {numbers.flat[wrong[0]]:g} in row {wrong[0]}")
    return numbers.astype(np.int64)
