"""Where programmes are kept: the contract of storage, on SQLite and on PostgreSQL.

What holds, whatever is killed or unplugged:

- *All or nothing*: what is written in one `Store.writing` is kept whole or not at all, and is on the disk when it ends.
- *One at a time*: who writes to a programme has it alone from the first read on, so nothing is lost between two who
  read, change and write.
- *In order*: entries are numbered without gaps, and the database refuses to edit or delete one.
- *One state*: `Store.reading` shows the programme as it was at one time, whoever writes meanwhile.
- *Nothing wrong unnoticed*: what is read is checked, and damage is named (`meritfair.programme.storage.schema`).

A session is for one thread, and short: SQLite's readers can make a writer wait. Do not write while reading in the same
thread.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.core.storage import write_whole
from meritfair.programme.storage.access_rows import AccessRows
from meritfair.programme.storage.answered import AnsweredKeys
from meritfair.programme.storage.checked_rows import ProgrammeRow, programme_rows
from meritfair.programme.storage.copying import copy_file, empty_temporary_tables
from meritfair.programme.storage.database import Database
from meritfair.programme.storage.names import check_name, folded
from meritfair.programme.storage.people import Person as Person
from meritfair.programme.storage.schema import HEAD, PROGRAMME, check_texts
from meritfair.programme.storage.session import Session as Session
from meritfair.programme.storage.store_errors import StoreError as StoreError
from meritfair.programme.storage.store_errors import damaged, explaining
from meritfair.programme.storage.store_settings import StoreCounts, StoreSettings
from meritfair.programme.storage.temporary_rows import TemporaryRows
from meritfair.programme.storage.upgrading import prepare, schema_in


class Store:
    """A database of programmes, which is made if it is not there.

    Parameters
    ----------
    url : str, optional
        ``postgresql://USER@HOST/DATABASE``, ``sqlite:///PATH`` or the path of an SQLite file. By default what the
        variable ``MERITFAIR_STORE`` says, else a file in the user's data folder. ``sqlite:///PATH?mode=ro`` is for
        reading alone.

    Attributes
    ----------
    url : str
        Which database it is, without a password.

    Examples
    --------
    >>> import json, tempfile
    >>> from hashlib import sha256
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(f"{folder.name}/programmes.db")
    >>> entry = json.dumps({"kind": "create", "time": "2026-11-17T09:00:00Z", "table": None}).encode()
    >>> with store.creating("clinic", "0" * 32, b"secret") as session:
    ...     session.append(entry, sha256(entry).digest(), None)
    0
    >>> with store.reading("clinic") as session:
    ...     session.length
    1
    >>> store.names()
    ['clinic']
    >>> folder.cleanup()
    """

    def __init__(self, url: str | PathLike[str] | None = None) -> None:
        self._database = Database(None if url is None else str(url))
        self.url = self._database.url
        self._answered = AnsweredKeys()
        prepare(self._database)

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def names(self) -> list[str]:
        """Return the names of all programmes, in order."""
        with self._database.transaction(writing=False) as connection:
            return sorted(row.name for row in programme_rows(connection, self.url))

    @contextmanager
    def creating(self, name: str, identity: str, secret: bytes) -> Iterator[Session]:
        """Make a programme, with what is written in the session."""
        if not re.fullmatch("[0-9a-f]{32}", identity):
            raise InputError(f"a programme has an identity of 32 hex digits, got {identity!r}")
        name = check_name(name)
        with self._database.transaction(writing=True) as connection:
            there = programme_rows(connection, self.url, lock=True)
            same = [row.name for row in there if folded(row.name) == folded(name)]
            if same:
                raise InputError(f"{self.url}: there is already a programme {same[0]!r}")
            row = ProgrammeRow(len(there) + 1, identity, name, secret)
            connection.execute(sa.insert(PROGRAMME).values(row.columns()))
            counts = StoreCounts.read(connection, self.url)
            replace(counts, programmes=row.id).write(connection)
            session = Session(connection, row, self.url, writable=True)
            yield session
            session.finish()

    @contextmanager
    def writing(self, name: str) -> Iterator[Session]:
        """Open a programme to change it; nobody else can meanwhile."""
        with self._database.transaction(writing=True) as connection:
            row = self._row(connection, name, lock=True)
            session = Session(connection, row, self.url, writable=True, answered=self._answered)
            yield session
            session.finish()
        session.committed()

    @contextmanager
    def reading(self, name: str) -> Iterator[Session]:
        """Open a programme to read it, as it is now."""
        with self._database.transaction(writing=False) as connection:
            yield Session(connection, self._row(connection, name), self.url, writable=False)

    @contextmanager
    def access(self, *, writing: bool = False) -> Iterator[AccessRows]:
        """Open the users of the store; nobody else can change them meanwhile if it is for writing."""
        with self._database.transaction(writing=writing) as connection:
            yield AccessRows(connection, self.url, writable=writing)

    @contextmanager
    def temporary(self, *, writing: bool = False) -> Iterator[TemporaryRows]:
        """Open what servers share for a while; nobody else can change it meanwhile if it is for writing."""
        with self._database.transaction(writing=writing) as connection:
            yield TemporaryRows(connection, self.url, writable=writing)

    def setting(self, name: str) -> str | None:
        """Return a value of the store itself; None if it has none of this name."""
        with self._database.transaction(writing=False) as connection:
            return StoreSettings(connection, self.url).get(name)

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value of the store itself, in place of one of this name."""
        with self._database.transaction(writing=True) as connection:
            StoreSettings(connection, self.url, writable=True).put(name, value)

    def setting_or_new(self, name: str, make: Callable[[], str]) -> str:
        """Return a value of the store itself; if there is none, keep what `make` returns: all who ask get the same."""
        found = self.setting(name)
        if found is not None:
            return found
        with self._database.transaction(writing=True) as connection:
            settings = StoreSettings(connection, self.url, writable=True)
            found = settings.get(name)
            if found is None:
                settings.put(name, found := make())
            return found

    def backup(self, path: str | PathLike[str]) -> None:
        """Write a copy of an SQLite store, as it is at one time; others may write meanwhile.

        It has no long work, and no uploads that wait.
        """
        if not self._database.is_sqlite:
            raise InputError(f"{self.url}: a copy of a PostgreSQL database is made by its own pg_dump")
        target = Path(path)
        if target.exists() and target.samefile(self._database.file):
            raise InputError(f"a backup must be another file than the store, got {target}")

        def write(temporary: Path) -> None:
            copy_file(self._database.file, temporary, self.url)
            empty_temporary_tables(temporary, self.url)

        with explaining(self.url):
            write_whole(target, write, private=True)

    @contextmanager
    def still(self, folder: str | PathLike[str]) -> Iterator[Store]:
        """Give the store as it is now, for reads that take long, so that nobody who writes has to wait for them.

        On SQLite without a write-ahead log it is a copy in `folder`, which must be private; it is deleted at the end.
        """
        if not self._database.readers_block():
            yield self
            return
        with TemporaryDirectory(dir=folder, prefix="still-") as private:
            file = Path(private) / "store.db"
            with explaining(self.url), closing(self._database.connect()) as old, closing(sqlite3.connect(file)) as new:
                old.backup(new)
            copy = Store(f"{file.as_uri().replace('file://', 'sqlite:///')}?mode=ro")
            try:
                yield copy
            finally:
                copy.close()

    def hide(self, words: str) -> str:
        """Return what an error says without where the store is, which is no business of those who ask a server."""
        return words.removeprefix(f"{self.url}: ").removeprefix(f"{self.url}, ").replace(self.url, "the database")

    def check(self) -> list[str]:
        """Read everything; return what is damaged, in words, nothing if all is well."""
        found = self._database.integrity()
        try:
            names = self.names()
        except StoreError as error:
            return [*found, str(error)]
        for name in names:
            try:
                with self.reading(name) as session:
                    found += session.problems()
            except StoreError as error:
                found.append(str(error))
        return found + self._problems_of_users() + self._problems_of_settings() + self._problems_of_temporary()

    def _problems_of_users(self) -> list[str]:
        try:
            with self.access() as rows:
                return rows.problems()
        except StoreError as error:
            return [str(error)]

    def _problems_of_settings(self) -> list[str]:
        try:
            with self._database.transaction(writing=False) as connection:
                StoreSettings(connection, self.url).all()
        except StoreError as error:
            return [str(error)]
        return []

    def _problems_of_temporary(self) -> list[str]:
        with self.temporary() as rows:
            return rows.problems()

    def is_current(self) -> bool:
        """Return whether the database can be reached and still has the schema that this version knows."""
        with self._database.transaction(writing=False) as connection:
            return schema_in(connection) == HEAD

    def close(self) -> None:
        """Let go of all connections."""
        self._database.engine.dispose()

    def _row(self, connection: sa.Connection, name: str, *, lock: bool = False) -> ProgrammeRow:
        check_texts([name])
        query = sa.select(PROGRAMME).where(PROGRAMME.c.name == name)
        found = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
        if found is not None:
            return ProgrammeRow.of(found, self.url)
        names = sorted(row.name for row in programme_rows(connection, self.url, lock=lock))
        if name in names:
            raise damaged(self.url, f"the list of programmes at {name!r}")
        there = f"there are {', '.join(map(repr, names))}" if names else "there is none yet"
        raise InputError(f"{self.url}: there is no programme {name!r}; {there}")
