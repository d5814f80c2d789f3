"""A log of draws: who took part in which round, with which stated exposure, and who was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray, frozen
from meritfair.core.checks import check_dates, float_array
from meritfair.core.errors import InputError, RowError
from meritfair.core.tables import Labels, column_names, first_duplicate, numbered, read_table
from meritfair.core.texts import several


class DrawLog:
    """What was stated and what was drawn: a row for each arm that took part in a round, in any order.

    Parameters
    ----------
    rounds : array_like of int or datetime64
        The round of each row. Rounds happened in the order of their numbers, which may have gaps. Dates become numbers
        such as 20260302, months such as 202603.
    arms : sequence
        The name of each row's arm.
    exposure : array_like
        The probability with which the arm was to be drawn in that round.
    drawn : array_like of 0 and 1
        Whether it was.
    group : sequence, optional
        The group of each row's arm, always the same for an arm.
    due : array_like, optional
        The exposure that the arm was due in that round, where it may differ from the one it was given: see `Accounts`.
        Who is due something without taking part has a row with an exposure of 0.

    Attributes
    ----------
    names, group_names : tuple of str
        The arms and the groups, in order of appearance.
    arm, round : ndarray of int
        For each row the place of its arm in ``names``, and of its round in ``rounds``.
    exposure, drawn : ndarray
        For each row.
    rounds : ndarray of int
        The numbers of the rounds, in order.
    group : ndarray of int, or None
        For each arm the place of its group in ``group_names``.
    due : ndarray, or None
        For each row.

    Examples
    --------
    >>> log = DrawLog([1, 1, 2, 2], ["Ada", "Bo", "Ada", "Bo"], [0.7, 0.3, 0.6, 0.4], [1, 0, 0, 1])
    >>> log
    DrawLog(4 rows of 2 arms: 2 rounds)
    >>> DrawLog([1, 1], ["Ada", "Ada"], [0.7, 0.3], [1, 0])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.RowError: row 1, round: the arm 'Ada' already has round 1 in row 0
    """

    def __init__(
        self,
        rounds: npt.ArrayLike,
        arms: Sequence[Any] | AnyArray | Labels,
        exposure: npt.ArrayLike,
        drawn: npt.ArrayLike,
        group: Sequence[Any] | AnyArray | Labels | None = None,
        due: npt.ArrayLike | None = None,
    ) -> None:
        labels, stated = float_array("rounds", _as_numbers(rounds)), float_array("exposure", exposure)
        hit, owed = float_array("drawn", drawn), None if due is None else float_array("due", due)
        self.names, arm = numbered(arms)
        self.group_names, row_group = numbered(() if group is None else group)
        columns = [labels, arm, stated, hit, *([] if group is None else [row_group]), *([] if owed is None else [owed])]
        if any(column.shape != (len(labels),) for column in columns):
            raise InputError("rounds, arms, exposure, drawn, group and due must be lists of the same length")
        if len(labels) == 0:
            raise InputError("the log has no rows")
        _check_all("rounds must be whole numbers", labels, (labels == np.round(labels)) & (np.abs(labels) < 2**53))
        _check_all("exposure must lie between 0 and 1", stated, (stated >= 0) & (stated <= 1))
        _check_all("drawn must be 0 or 1", hit, (hit == 0) | (hit == 1))
        if owed is not None:
            _check_all("due must lie between 0 and 1", owed, (owed >= 0) & (owed <= 1))
        self.rounds, place = np.unique(labels.astype(np.int64), return_inverse=True)
        self.arm, self.round = frozen(arm), frozen(place.astype(np.int64))
        self.exposure, self.drawn = frozen(stated), frozen(hit)
        self.due = None if owed is None else frozen(owed)
        twice = first_duplicate(place, arm)
        if twice:
            first, row = twice
            problem = f"the arm {self.names[arm[row]]!r} already has round {labels[row]:.0f} in"
            raise RowError(row, "round", problem, first)
        self.group = None if group is None else self._group_of_arms(row_group)

    def _group_of_arms(self, row_group: IntArray) -> IntArray:
        """Return the group of each arm; refuse an arm whose group is not that of its first row."""
        _, first = np.unique(self.arm, return_index=True)
        of_arm = row_group[first]
        moved = np.flatnonzero(row_group != of_arm[self.arm])
        if len(moved):
            row = moved[0]
            arm, names = self.arm[row], self.group_names
            problem = f"the arm {self.names[arm]!r} is in {names[row_group[row]]!r}, but in {names[of_arm[arm]]!r} in"
            raise RowError(row, "group", problem, first[arm])
        return frozen(of_arm)

    def __len__(self) -> int:
        return len(self.round)

    def __repr__(self) -> str:
        rows, arms = several(len(self), "row"), several(len(self.names), "arm")
        return f"DrawLog({rows} of {arms}: {several(len(self.rounds), 'round')})"


def read_draws(path: str | PathLike[str], group: str | None = None) -> DrawLog:
    r"""Read a log from a .csv or .parquet file with the columns round, arm, exposure, drawn, and due if it is there.

    The columns are those of all logs (:mod:`meritfair.datasets.logs`). Without `drawn`, what was done is what was
    drawn, and `action` is read. Rows without an exposure were not in the draw, and are left out.

    Parameters
    ----------
    path : path
    group : str, optional
        A further column that says to which group the row's arm belongs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "draws.csv")
    ...     _ = file.write_text("round,arm,exposure,drawn,sex\n1,Ada,0.6,1,f\n1,Bo,0.4,0,m\n")
    ...     read_draws(file, group="sex").group_names
    ('f', 'm')
    """
    table = read_table(path, "draws", _required(path, group), [] if group == "due" else ["due"])
    stated = np.flatnonzero(~np.isnan(table.numbers("exposure", 0, 1, may_be_empty=True)))
    if not len(stated):
        raise table.error(0, "exposure", "the cell is empty, and so are all others of the column")
    table = table.only(stated)
    rounds, arms = _as_numbers(table.rounds("round", 0)), table.text("arm")
    exposure = table.numbers("exposure", 0, 1)
    drawn = table.bits("drawn" if "drawn" in table.columns else "action")
    groups = table.text(group) if group is not None else None
    due = None if group == "due" else table.all_or_none("due", 0, 1)
    try:
        return DrawLog(rounds, arms, exposure, drawn, groups, due)
    except RowError as bad:
        raise table.located(bad, group if bad.column == "group" else None) from None


def _required(path: str | PathLike[str], group: str | None) -> list[str]:
    """Return the columns that a log needs: drawn, or where there is none, action."""
    there = column_names(path, "draws")
    hit = "action" if "drawn" not in there and "action" in there else "drawn"
    return ["round", "arm", "exposure", hit, *([group] if group is not None else [])]


def _as_numbers(rounds: npt.ArrayLike) -> AnyArray:
    """Return rounds with dates as the numbers that people write: 20260302."""
    given = np.asarray(rounds)
    if given.dtype.kind != "M":
        return given
    return np.char.replace(check_dates("rounds", given).astype(np.str_), "-", "").astype(np.int64)


def _check_all(rule: str, values: FloatArray, right: BoolArray) -> None:
    if not right.all():
        raise InputError(f"{rule}, got {values[~right][0]:g}")
