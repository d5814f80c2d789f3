"""The errors that meritfair raises on purpose.

Every message names the thing, its value and its bound, so that a person can act on it. Catch
`MeritfairError` to catch them all; `InputError` is also a `ValueError`.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import Any

from meritfair.core.texts import shortened

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)  # errors of the system that mean that a disk is full
_LONGEST = 4000  # characters of a message


class MeritfairError(Exception):
    """Anything that meritfair refuses or cannot do; whatever it quotes, its message is not longer than a page."""

    def __str__(self) -> str:
        return shortened(super().__str__(), _LONGEST)


class InputError(MeritfairError, ValueError):
    """A value that the caller gave cannot be used."""


class FileError(InputError):
    """A file cannot be read or written, or holds something that cannot be used.

    Examples
    --------
    >>> print(FileError("arms.csv", "must be between 0 and 1, got '1.2'", line=3, column="p01"))
    arms.csv, line 3, column p01: must be between 0 and 1, got '1.2'
    """

    def __init__(self, path: object, problem: str, *, line: int | None = None, column: str | None = None) -> None:
        self._made_from = (path, problem, line, column)
        problem = shortened(problem, _LONGEST)
        self.problem, self.line, self.column = problem, line, column
        at_line = "" if line is None else f", line {line}"
        at_column = "" if column is None else f", column {column}"
        super().__init__(f"{path}{at_line}{at_column}: {problem}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it again from what it was made from, as errors of worker processes are."""
        path, problem, line, column = self._made_from
        return partial(type(self), line=line, column=column), (path, problem)


class RowError(InputError):
    """A row of columns contradicts another row; rows are counted from 0 in the order given.

    Examples
    --------
    >>> print(RowError(3, "round", "the arm 'Ada' already has round 7 in", 1))
    row 3, round: the arm 'Ada' already has round 7 in row 1
    """

    def __init__(self, row: int, column: str, problem: str, other: int) -> None:
        self.row, self.column, self.problem, self.other = int(row), column, problem, int(other)
        super().__init__(f"row {self.row}, {column}: {problem} row {self.other}")


class MissingExtraError(MeritfairError, ImportError):
    """A feature needs an optional part of meritfair that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self._made_from = (feature, extra)
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'meritfair[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it again from what it was made from."""
        return type(self), self._made_from


class BusyError(MeritfairError):
    """Too much is being worked out at the same time.

    Attributes
    ----------
    seconds : int
        After which it is worth asking again.
    """

    def __init__(self, problem: str, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(problem)
