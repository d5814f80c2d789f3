"""The people of a programme as a store keeps them: ids, salts, groups and staff.

They are kept out of the ledger, so that they can be erased. A row that was asked for and is there proves itself by its
checksum. That a row is *not* there is believed only after all rows have been read, checked and counted. Made for a
million rows: they go in and out in bulk.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise, repeat
from typing import Any, NamedTuple
from zlib import crc32

import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.programme.storage.schema import PERSON, check_texts
from meritfair.programme.storage.store_errors import damaged

_AT_ONCE = 10_000  # rows or values in one statement
_FEW = 8  # whoever asks for more than one in so many reads all: that is faster than to look each up
_COLUMNS = ("programme", "number", "external_id", "salt", "group_name", "staff", "checksum")
_READ = [PERSON.c[name] for name in _COLUMNS[1:]]
_ON_SQLITE = f"INSERT INTO person ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_ON_POSTGRESQL = f"COPY person ({', '.join(_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_SCAN = f"SELECT {', '.join(_COLUMNS[1:])} FROM person WHERE programme = {{}} ORDER BY number"
_Row = tuple[int, str, bytes, str, str]
_TYPES = ("int4", "int8", "text", "bytea", "text", "text", "int8")


class Person(NamedTuple):
    """Someone in a programme: their number in the ledger, and what is kept outside it."""

    number: int
    id: str
    salt: bytes
    group: str
    staff: str


class PersonTable:
    """The rows of the people of one programme, `programme` by its key; `named` says which in errors."""

    def __init__(self, connection: sa.Connection, programme: int, identity: str, named: str) -> None:
        self._connection, self._programme, self._named = connection, programme, named
        self._start = crc32(identity.encode())

    def add(
        self,
        numbers: list[int],
        ids: Sequence[str],
        salts: Sequence[bytes],
        groups: Sequence[str],
        staff: Sequence[str],
    ) -> None:
        """Add rows, in bulk, from columns."""
        columns: tuple[Sequence[Any], ...] = (numbers, ids, salts, groups, staff)
        if len({len(each) for each in columns}) != 1:
            raise InputError(f"the columns of people must be equally long, got {[len(each) for each in columns]}")
        check_texts([*ids, *groups, *staff])
        start = self._start
        checksums = [_checksum(*row, start) for row in zip(numbers, ids, salts, groups, staff, strict=True)]
        rows = zip(repeat(self._programme), *columns, checksums, strict=False)
        driver: Any = self._connection.connection.driver_connection
        if self._connection.dialect.name == "sqlite":
            driver.execute("PRAGMA cache_size = -65536")  # KiB: the index of ids is filled in no order
            driver.executemany(_ON_SQLITE, rows)
            return
        with driver.cursor() as cursor, cursor.copy(_ON_POSTGRESQL) as copy:
            copy.set_types(_TYPES)
            for row in rows:
                copy.write_row(row)

    def remove(self, numbers: Sequence[int]) -> None:
        """Delete rows."""
        for some in _in_parts(numbers):
            self._connection.execute(sa.delete(PERSON).where(self._ours, PERSON.c.number.in_(some)))

    def all(self, count: int) -> list[Person]:
        """Return everyone by number; there must be `count`."""
        return [Person(*row) for rows in self._scan(count) for row in rows]

    def columns(self, count: int) -> tuple[list[int], list[str]]:
        """Return the numbers and ids of everyone, by number; there must be `count`."""
        numbers, ids = list[int](), list[str]()
        for rows in self._scan(count):
            numbers += [row[0] for row in rows]
            ids += [row[1] for row in rows]
        return numbers, ids

    def by_number(self, numbers: Sequence[int], count: int) -> list[Person]:
        """Return those of these numbers who are there, by number."""
        wanted = set(numbers)
        if len(wanted) * _FEW <= count:
            found = list(map(Person._make, self._among(PERSON.c.number, sorted(wanted))))
            if {person.number for person in found} == wanted:
                return found
        return [Person(*row) for rows in self._scan(count) for row in rows if row[0] in wanted]

    def numbers(self, ids: Sequence[str], count: int) -> dict[str, int]:
        """Return the numbers of those of these external ids who are there."""
        check_texts(ids)
        wanted = set(ids)
        if len(wanted) * _FEW <= count:
            found = {id_: number for number, id_, *_ in self._among(PERSON.c.external_id, sorted(wanted))}
            if found.keys() == wanted:
                return found
        return {id_: number for rows in self._scan(count) for number, id_, *_ in rows if id_ in wanted}

    def _among(self, column: sa.Column[Any], values: list[Any]) -> Iterator[_Row]:
        """Yield the rows with one of these values, ordered by them."""
        ours = sa.select(*_READ).where(self._ours).order_by(column)
        for some in _in_parts(values):
            yield from self._checked([tuple(row) for row in self._connection.execute(ours.where(column.in_(some)))])

    def _scan(self, count: int) -> Iterator[list[_Row]]:
        """Yield all rows in parts, by number; there must be `count`."""
        driver: Any = self._connection.connection.driver_connection
        on_sqlite = self._connection.dialect.name == "sqlite"
        cursor = driver.cursor() if on_sqlite else driver.cursor("people", binary=True)
        seen, last = 0, -1
        with closing(cursor):
            cursor.execute(_SCAN.format("?" if on_sqlite else "%s"), (self._programme,))
            while rows := cursor.fetchmany(_AT_ONCE):
                part = self._checked(rows)
                numbers = [last, *(row[0] for row in part)]
                if any(number >= following for number, following in pairwise(numbers)):
                    raise damaged(self._named, f"the order of its people after number {last}")
                seen, last = seen + len(part), numbers[-1]
                yield part
        if seen != count:
            raise damaged(self._named, f"the list of its people: there are {seen} of {count}, which")

    def _checked(self, rows: list[Any]) -> list[_Row]:
        """Return rows without their checksums, if each is as it was written."""
        intern, start = sys.intern, self._start
        try:
            for number, id_, salt, group, staff, right in rows:
                if _checksum(number, id_, salt, group, staff, start) != right:
                    raise damaged(self._named, f"the row of person number {number}")
            return [(number, id_, salt, intern(group), intern(staff)) for number, id_, salt, group, staff, _ in rows]
        except TypeError:  # a column that is of another type than it was
            raise damaged(self._named, "a row of its people") from None

    @property
    def _ours(self) -> sa.ColumnElement[bool]:
        return PERSON.c.programme == self._programme


def _checksum(number: int, id_: str, salt: bytes, group: str, staff: str, start: int) -> int:
    return crc32(salt, crc32(f"{number}\0{id_}\0{group}\0{staff}\0".encode(), start))


def _in_parts(values: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(values[first : first + _AT_ONCE]) for first in range(0, len(values), _AT_ONCE))
