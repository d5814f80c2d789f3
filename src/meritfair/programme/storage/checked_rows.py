"""Rows of a store: how they are written, and what they must prove when they are read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields, replace
from hashlib import sha256
from typing import Any, ClassVar, Self

import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.programme.storage.schema import PROGRAMME, checksum
from meritfair.programme.storage.store_errors import damaged
from meritfair.programme.storage.store_settings import StoreCounts

_LEVEL = 1  # of zlib: much faster than the default, and a little larger


@dataclass(frozen=True)
class CheckedRow:
    """A row of a table that belongs to no programme, with a checksum in the database; its first column is its key."""

    table: ClassVar[sa.Table]

    @classmethod
    def of(cls, row: sa.RowMapping, where: str) -> Self:
        """Return a row of the table, if it is as it was written."""
        found = cls(**{each.name: row[each.name] for each in fields(cls)})
        if found.columns()["checksum"] != row["checksum"]:
            raise damaged(where, f"row {astuple(found)[0]} of {cls.table.name}")
        return found

    def columns(self) -> dict[str, Any]:
        """Return all columns of the table."""
        return {**asdict(self), "checksum": checksum(self.table.name, *astuple(self))}


@dataclass(frozen=True)
class ProgrammeRow:
    """The row of a programme: what is known of it without reading anything else."""

    id: int
    identity: str
    name: str
    secret: bytes
    length: int = 0
    head: bytes = bytes(32)
    people: int = 0
    notes: int = 0
    vectors: int = 0
    answers: int = 0
    summary: str = "{}"

    @classmethod
    def of(cls, row: sa.RowMapping, where: str) -> ProgrammeRow:
        """Return a row of the table, if it is as it was written."""
        found = cls(**{each.name: row[each.name] for each in fields(cls)})
        if found.columns()["checksum"] != row["checksum"]:
            raise damaged(where, f"the row of programme {found.name!r}")
        return found

    def columns(self) -> dict[str, Any]:
        """Return all columns of the table."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**values, "checksum": checksum(*values.values())}


def programme_rows(connection: sa.Connection, where: str, *, lock: bool = False) -> list[ProgrammeRow]:
    """Return the rows of all programmes; nobody can make another if they are to be locked."""
    count = StoreCounts.read(connection, where, lock=lock).programmes
    rows = [ProgrammeRow.of(each, where) for each in connection.execute(sa.select(PROGRAMME)).mappings()]
    if len(rows) != count:
        raise damaged(where, f"the list of programmes: there are {len(rows)} of {count}, which")
    return rows


class CheckedRows:
    """A programme's own row, and ways to write and read its other rows within one transaction."""

    def __init__(self, connection: sa.Connection, row: ProgrammeRow, where: str, *, writable: bool) -> None:
        self._connection, self._row, self._saved, self._writable = connection, row, row, writable
        self._named = f"{where}, programme {row.name!r}"

    def finish(self) -> None:
        """Write the programme's own row, if anything has changed."""
        if self._row != self._saved:
            ours = PROGRAMME.c.id == self._row.id
            self._connection.execute(sa.update(PROGRAMME).where(ours).values(self._row.columns()))
            self._saved = self._row

    def _change(self, **values: Any) -> None:
        """Change columns of the programme's row."""
        self._check_writable()
        self._row = replace(self._row, **values)

    def _check_writable(self) -> None:
        if not self._writable:
            raise InputError(f"{self._named}: it was opened for reading, so nothing can be written")

    def _packed(self, place: str, data: bytes) -> dict[str, Any]:
        return {"digest": self._digest(place, data), "data": zlib.compress(data, _LEVEL)}

    def _unpacked(self, place: str, what: str, digest: bytes, data: bytes) -> bytes:
        with self._intact(what):
            found = zlib.decompress(data)
            insist(self._digest(place, found) == digest)
        return found

    def _digest(self, place: str, data: bytes) -> bytes:
        """Return the SHA-256 of data and of the place that they belong to."""
        digest = sha256(f"{self._row.identity} {place} ".encode())
        digest.update(data)
        return digest.digest()

    def _counted(self, query: sa.Select[Any], count: int | None, what: str) -> list[tuple[Any, ...]]:
        """Return rows without the checksum that ends each; there must be `count` of them, if that is given."""
        found = []
        for *values, right in self._connection.execute(query):
            with self._intact(f"a row of its {what}"):
                insist(checksum(self._row.identity, *values) == right)
            found.append(tuple(values))
        if count is not None and len(found) != count:
            raise damaged(self._named, f"the list of its {what}: there are {len(found)} of {count}, which")
        return found

    @contextmanager
    def _intact(self, what: str) -> Iterator[None]:
        """Name what is damaged, if it turns out to be so."""
        try:
            yield
        except (_NotAsWrittenError, KeyError, TypeError, ValueError, zlib.error):
            raise damaged(self._named, what) from None


class _NotAsWrittenError(Exception):
    """Something differs from its checksum."""


def insist(right: bool) -> None:
    """Say that something is damaged, within `CheckedRows._intact`, unless it is right."""
    if not right:
        raise _NotAsWrittenError
