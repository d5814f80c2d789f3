"""A log of draws: who took part in which round, with which stated exposure, and who was drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import frozen
from meritfair.core.checks import check_dates, float_array
from meritfair.core.errors import FileError, InputError
from meritfair.core.tables import Table, numbered, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import numpy.typing as npt

    from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray

__all__ = ["DrawLog", "read_draws"]


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

    Examples
    --------
    >>> log = DrawLog([1, 1, 2, 2], ["Ada", "Bo", "Ada", "Bo"], [0.7, 0.3, 0.6, 0.4], [1, 0, 0, 1])
    >>> log
    DrawLog of 2 arms in 2 rounds, 4 rows
    >>> DrawLog([1, 1], ["Ada", "Ada"], [0.7, 0.3], [1, 0])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: the arm 'Ada' has two rows for round 1
    """

    def __init__(
        self,
        rounds: npt.ArrayLike,
        arms: Sequence[Any] | AnyArray,
        exposure: npt.ArrayLike,
        drawn: npt.ArrayLike,
        group: Sequence[Any] | AnyArray | None = None,
    ) -> None:
        labels, chance = float_array("rounds", _as_numbers(rounds)), float_array("exposure", exposure)
        hit = float_array("drawn", drawn)
        self.names, arm = numbered(arms)
        self.group_names, row_group = numbered(() if group is None else group)
        columns = [labels, arm, chance, hit, *([] if group is None else [row_group])]
        if any(column.shape != (len(labels),) for column in columns):
            raise InputError("rounds, arms, exposure, drawn and group must be lists of the same length")
        if len(labels) == 0:
            raise InputError("the log has no rows")
        _check_all("rounds must be whole numbers", labels, (labels == np.round(labels)) & (np.abs(labels) < 2**53))
        _check_all("exposure must lie between 0 and 1", chance, (chance >= 0) & (chance <= 1))
        _check_all("drawn must be 0 or 1", hit, (hit == 0) | (hit == 1))
        self.rounds, place = np.unique(labels.astype(np.int64), return_inverse=True)
        self.arm, self.round = frozen(arm), frozen(place.astype(np.int64))
        self.exposure, self.drawn = frozen(chance), frozen(hit)
        twice = _first_twice(arm, place)
        if twice:
            row = twice[1]
            raise InputError(f"the arm {self.names[arm[row]]!r} has two rows for round {labels[row]:.0f}")
        self.group = None if group is None else self._group_of_arms(row_group)

    def _group_of_arms(self, row_group: IntArray) -> IntArray:
        moved = _first_move(self.arm, row_group)
        if moved:
            before, after = (self.group_names[row_group[row]] for row in moved)
            raise InputError(f"the arm {self.names[self.arm[moved[1]]]!r} is in two groups, {before!r} and {after!r}")
        of_arm = np.zeros(len(self.names), np.int64)
        of_arm[self.arm] = row_group
        return frozen(of_arm)

    def __len__(self) -> int:
        return len(self.round)

    def __repr__(self) -> str:
        return f"DrawLog of {len(self.names):,} arms in {len(self.rounds):,} rounds, {len(self):,} rows"


def read_draws(path: str | PathLike[str], group: str | None = None) -> DrawLog:
    r"""Read a log from a .csv or .parquet file with the columns round, arm, exposure, drawn.

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
    table = read_table(path, "draws", ["round", "arm", "exposure", "drawn", *([group] if group is not None else [])])
    rounds, arms = _as_numbers(table.rounds("round", 0)), table.text("arm")
    exposure = table.numbers("exposure", 0, 1)
    drawn = table.bits("drawn")
    groups = table.text(group) if group is not None else None
    try:
        return DrawLog(rounds, arms, exposure, drawn, groups)
    except InputError as error:
        raise _in_file(table, numbered(arms)[1], rounds, group) or error from None


def _in_file(table: Table, arm: IntArray, rounds: IntArray, group: str | None) -> FileError | None:
    """Return the error that says where rows contradict each other, or None if they do not."""
    arms = table.text("arm")
    twice = _first_twice(arm, rounds)
    if twice:
        first, row = twice
        problem = f"the arm {arms[row]!r} of round {rounds[row]} stands in line {table.lines[first]} already"
        return table.error(row, "arm", problem)
    if group is None:
        return None
    groups = table.text(group)
    moved = _first_move(arm, numbered(groups)[1])
    if moved is None:
        return None
    first, row = moved
    problem = f"the arm {arms[row]!r} is {groups[row]!r} here and {groups[first]!r} in line {table.lines[first]}"
    return table.error(row, group, problem)


def _as_numbers(rounds: npt.ArrayLike) -> AnyArray:
    """Return rounds with dates as the numbers that people write: 20260302."""
    given = np.asarray(rounds)
    if given.dtype.kind != "M":
        return given
    return np.char.replace(check_dates("rounds", given).astype(np.str_), "-", "").astype(np.int64)


def _check_all(rule: str, values: FloatArray, right: BoolArray) -> None:
    if not right.all():
        raise InputError(f"{rule}, got {values[~right][0]:g}")


def _first_twice(arm: IntArray, rounds: IntArray) -> tuple[int, int] | None:
    """Return the first row whose arm and round were there before, after the row where they were."""
    order = np.lexsort((rounds, arm))  # stable: rows that agree stay in order
    same = (np.diff(arm[order]) == 0) & (np.diff(rounds[order]) == 0)
    if not same.any():
        return None
    at = np.flatnonzero(same)
    at = at[np.argmin(order[at + 1])]
    return int(order[at]), int(order[at + 1])


def _first_move(arm: IntArray, group: IntArray) -> tuple[int, int] | None:
    """Return the first row whose group is not that of the arm's first row, after that row."""
    _, first, inverse = np.unique(arm, return_index=True, return_inverse=True)
    moved = np.flatnonzero(group != group[first[inverse]])
    return (int(first[inverse[moved[0]]]), int(moved[0])) if len(moved) else None
