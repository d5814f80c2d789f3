"""Values of a store itself, by name: they belong to no programme, and are the same for all servers on it.

Each row has a checksum, and the row of *store* says how many there are, so that one that is lost is missed. Whoever
writes has that row locked: two who want to make the same value do so one after the other.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.programme.storage.schema import STORE, STORE_SETTING, check_texts, checksum
from meritfair.programme.storage.store_errors import damaged


@dataclass(frozen=True)
class StoreCounts:
    """The row of the store: how many programmes and settings there are."""

    programmes: int
    settings: int

    @classmethod
    def read(cls, connection: sa.Connection, where: str, *, lock: bool = False) -> StoreCounts:
        """Return what the row says, if it is as it was written."""
        query = sa.select(STORE.c.programmes, STORE.c.settings, STORE.c.checksum).where(STORE.c.id == 1)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None or checksum(1, row[0], row[1]) != row[2]:
            raise damaged(where, "the row of the store")
        return cls(row[0], row[1])

    def write(self, connection: sa.Connection) -> None:
        """Replace the row."""
        connection.execute(
            sa.update(STORE).values(
                programmes=self.programmes, settings=self.settings, checksum=checksum(1, *astuple(self))
            )
        )


class StoreSettings:
    """The settings of a store within one transaction; `meritfair.programme.storage.store.Store` opens it."""

    def __init__(self, connection: sa.Connection, where: str, *, writable: bool = False) -> None:
        self._connection, self._where, self._writable = connection, where, writable
        self._counts = StoreCounts.read(connection, where, lock=writable)

    def get(self, name: str) -> str | None:
        """Return a value; None if there is none of this name."""
        check_texts([name])
        query = sa.select(STORE_SETTING).where(STORE_SETTING.c.name == name)
        row = self._connection.execute(query).one_or_none()
        if row is not None:
            return self._checked(*row)
        if name in self.all():
            raise damaged(self._where, f"the list of settings of the store at {name!r}")
        return None

    def put(self, name: str, value: str) -> None:
        """Keep a value, in place of one of this name."""
        if not self._writable:
            raise InputError(f"{self._where}: settings were opened for reading, so nothing can be written")
        check_texts([name, value])
        row = {"name": name, "value": value, "checksum": _checksum(name, value)}
        if self.get(name) is None:
            self._connection.execute(sa.insert(STORE_SETTING).values(row))
            self._counts = replace(self._counts, settings=self._counts.settings + 1)
            self._counts.write(self._connection)
        else:
            self._connection.execute(sa.update(STORE_SETTING).where(STORE_SETTING.c.name == name).values(row))

    def all(self) -> dict[str, str]:
        """Return all values by name; none may be missing."""
        rows = self._connection.execute(sa.select(STORE_SETTING).order_by(STORE_SETTING.c.name)).all()
        found = {row.name: self._checked(*row) for row in rows}
        if len(rows) != self._counts.settings:
            told = f"the settings of the store: there are {len(rows)} of {self._counts.settings}, which"
            raise damaged(self._where, told)
        return found

    def _checked(self, name: str, value: str, right: int) -> str:
        if _checksum(name, value) != right:
            raise damaged(self._where, f"the setting {name!r} of the store")
        return value


def _checksum(name: str, value: str) -> int:
    return checksum("store_setting", name, value)
