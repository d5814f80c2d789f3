"""Columns that follow from the ledger: a value for each participant, kept so that the ledger need not be read anew.

Each column has a name and, where it is of one round, its number. Everything in them can be made again from the ledger,
and verification compares both. States and actions are small whole numbers; -1 is not known.

===========  ======  ===================================================================================
column       type    is
===========  ======  ===================================================================================
here         u1      whether the participant is enrolled now
away         u1      whether they are away
joined       i4      how many rounds there were before they first joined
part         u1      to which part they belong
account      i8      what they were due less what they were given so far, in units of 2^-40 pulls
group        i4      their group, as a place in the list of groups; -1 not known
feature:NAME i4      their value of a feature, as a place in the list of its values; -1 not known
seen         i1      of one round, four rows: drawn, state before, action, state after
===========  ======  ===================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import AnyArray

if TYPE_CHECKING:
    from meritfair.programme.storage.store import Session

_TYPES = {"here": "u1", "away": "u1", "joined": "<i4", "part": "u1", "account": "<i8", "seen": "i1"}
_FILL = {"group": -1, "seen": -1}
SEEN = ("drawn", "before", "action", "after")  # the rows of what was seen in a round
UNKNOWN = -1


def _kind(name: str) -> str:
    return _TYPES.get(name, "<i4")  # groups and features


class Columns:
    """Columns in memory, as verification has them.

    Examples
    --------
    >>> columns = Columns()
    >>> columns.put("here", np.ones(2, np.uint8))
    >>> columns.grown("here", 4)
    array([1, 1, 0, 0], dtype=uint8)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], AnyArray] = {}

    def get(self, name: str, round_: int = 0) -> AnyArray:
        """Return a column, as it is; empty if there is none."""
        if (name, round_) not in self._known:
            self._known[name, round_] = self._load(name, round_)
        return self._known[name, round_]

    def put(self, name: str, values: AnyArray, round_: int = 0) -> None:
        """Set a column."""
        column = values.astype(_kind(name))
        column.flags.writeable = False  # copies of all columns share it
        self._known[name, round_] = column

    def grown(self, name: str, people: int) -> AnyArray:
        """Return a copy of a column that has a value for this many participants."""
        old = self.get(name)
        made = np.full(people, _FILL.get(name, -1 if name.startswith("feature:") else 0), _kind(name))
        made[: len(old)] = old
        return made

    def seen(self, round_: int, people: int) -> AnyArray:
        """Return what was seen in a round, shape (4, people), to look at; those who joined later have -1."""
        old = self.get("seen", round_).reshape(len(SEEN), -1)
        if old.shape[1] == people:
            return old
        made = np.full((len(SEEN), people), UNKNOWN, np.int8)
        made[:, : old.shape[1]] = old
        return made

    def put_seen(self, round_: int, seen: AnyArray) -> None:
        """Set what was seen in a round."""
        self.put("seen", seen.ravel(), round_)

    def copy(self) -> Columns:
        """Return the columns as they are now; they are replaced and never changed, so their values are shared."""
        made = Columns()
        made._known = dict(self._known)
        return made

    def names(self) -> list[tuple[str, int]]:
        """Return the columns that there are, in order."""
        return sorted(key for key, column in self._known.items() if len(column))

    def _load(self, name: str, round_: int) -> AnyArray:  # noqa: ARG002
        return np.zeros(0, _kind(name))


class StoredColumns(Columns):
    """Columns of a database, read when they are needed; those that were set are written by `save`.

    Those that are `known` already, in memory, are not read; as columns are replaced and never changed, they stay as
    they are there.
    """

    def __init__(self, session: Session, known: Columns | None = None) -> None:
        super().__init__()
        self._known = {} if known is None else dict(known._known)
        self._session, self._changed = session, set[tuple[str, int]]()

    def put(self, name: str, values: AnyArray, round_: int = 0) -> None:
        super().put(name, values, round_)
        self._changed.add((name, round_))

    def save(self) -> None:
        """Write what was set."""
        for name, round_ in sorted(self._changed):
            self._session.put_vector(name, self._known[name, round_].tobytes(), round_)
        self._changed.clear()

    def _load(self, name: str, round_: int) -> AnyArray:
        data = self._session.vector(name, round_)
        return np.frombuffer(data or b"", _kind(name))


def level_column(levels: list[str], values: list[Any]) -> tuple[list[str], list[int]]:
    """Return the list of values with new ones behind it, and the place of each value in it.

    Examples
    --------
    >>> level_column(["north"], ["south", "north"])
    (['north', 'south'], [1, 0])
    """
    places = {level: place for place, level in enumerate(levels)}
    codes = [places.setdefault(str(value), len(places)) for value in values]
    return list(places), codes
